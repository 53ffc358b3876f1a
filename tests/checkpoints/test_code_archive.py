"""Archives of strangers: nothing of them gets out of its folder."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from hpo_ops.checkpoints import BadCodeError, code_archive, hash_code
from hpo_ops.checkpoints.code_archive import (
    find_module,
    keep_code,
    local_code,
    split_address,
    unpack_archive,
)
from tests.jobs import CODE
from tests.jobs import archive as pack


def unpack(packed: bytes, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    unpack_archive(io.BytesIO(packed), target)
    return target


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    item = tarfile.TarInfo(name)
    item.type, item.linkname = kind, target
    return item


@pytest.mark.parametrize("prefix", ["", "./"])
def test_an_archive_is_unpacked_as_tar_made_it(tmp_path: Path, prefix: str) -> None:
    folder = unpack(pack(prefix=prefix), tmp_path / "code")
    found = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == dict(CODE)


@pytest.mark.parametrize("name", ["../evil.py", "a/../../evil.py", "/tmp/evil.py", "a\\b.py"])  # noqa: S108
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadCodeError, match=re.escape(repr(name))):
        unpack(pack({name: "x"}, with_folders=False), tmp_path / "code")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "item",
    [
        link("passwords", "/etc/passwd"),
        link("up", ".."),
        link("hard", "/etc/passwd", tarfile.LNKTYPE),
        link("device", "", tarfile.CHRTYPE),
        link("pipe", "", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, item: tarfile.TarInfo) -> None:
    with pytest.raises(BadCodeError, match=f"'{item.name}' in the archive is"):
        unpack(pack(others=[item]), tmp_path / "code")


@pytest.mark.parametrize(
    "packed",
    [b"", b"no archive", gzip.compress(b"no archive" * 1000), pack(mode="w"), pack()[:-20]],
    ids=["empty", "text", "packed text", "not packed", "cut off"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(BadCodeError, match="the archive is not a tar"):
        unpack(packed, tmp_path / "code")


def test_a_small_archive_that_grows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_archive, "MAX_UNPACKED", 1 << 20)
    bomb = pack({"zeros": "0" * (2 << 20)})
    assert len(bomb) < 10_000
    with pytest.raises(BadCodeError, match="more than 1 MiB"):
        unpack(bomb, tmp_path / "code")


def sparse(kind: str) -> bytes:
    """An archive with a file of holes: a few bytes that say that they are 64 MiB."""
    size = 64 << 20
    packed = io.BytesIO()
    if kind == "gnu":
        item = tarfile.TarInfo("holes")
        item.type = tarfile.GNUTYPE_SPARSE
        header = bytearray(item.tobuf(tarfile.GNU_FORMAT))
        header[386:410] = b"%011o\0%011o\0" % (size, 0)  # the one piece: at its end, empty
        header[483:495] = b"%011o\0" % size
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        packed.write(bytes(header) + bytes(2 * 512))
    else:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
            item = tarfile.TarInfo("holes")
            item.pax_headers = {
                "GNU.sparse.size": str(size),
                "GNU.sparse.numblocks": "1",
                "GNU.sparse.map": f"{size},0",
            }
            made.addfile(item)
    return gzip.compress(packed.getvalue())


@pytest.mark.parametrize("kind", ["gnu", "pax"])
def test_a_file_of_holes_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(code_archive, "MAX_UNPACKED", 1 << 20)
    bomb = sparse(kind)
    assert len(bomb) < 400
    with pytest.raises(BadCodeError, match="'holes' in the archive is a sparse file"):
        unpack(bomb, tmp_path / "code")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "name", ["/".join(["a"] * 70), "a" * 2000, "\udcff.py"], ids=["deep", "long", "no UTF-8"]
)
def test_a_name_that_would_make_trouble_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadCodeError, match="in the archive"):
        unpack(pack({name: "x"}, with_folders=False), tmp_path / "code")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_many_folders_for_few_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_archive, "MAX_FILES", 20)
    files = {"/".join([str(number), *"abcdefgh", "x"]): "" for number in range(10)}
    with pytest.raises(BadCodeError, match="more than 20 folders"):
        unpack(pack(files, with_folders=False), tmp_path / "code")


def test_a_header_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
        item = tarfile.TarInfo("a.py")
        item.pax_headers = {"comment": "x" * (1 << 20)}
        made.addfile(item)
    with pytest.raises(BadCodeError, match="with a header of 10"):
        unpack(gzip.compress(packed.getvalue()), tmp_path / "code")


def test_headers_that_never_end_are_refused(tmp_path: Path) -> None:
    item = tarfile.TarInfo("././@LongLink")
    item.type, item.size = tarfile.GNUTYPE_LONGNAME, 1
    chain = (item.tobuf(tarfile.GNU_FORMAT) + b"x" + bytes(511)) * 5000
    with pytest.raises(BadCodeError, match="is not a tar file"):
        unpack(gzip.compress(chain), tmp_path / "code")


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_archive, "MAX_FILES", 3)
    with pytest.raises(BadCodeError, match="more than 3 files"):
        unpack(pack({f"{number}.py": "" for number in range(5)}), tmp_path / "code")


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCodeError, match="'a/b' in the archive"):
        unpack(pack({"a": "", "a/b": ""}), tmp_path / "code")


def test_a_module_is_found_also_below_the_one_folder_of_an_archive(tmp_path: Path) -> None:
    plain = unpack(pack(), tmp_path / "plain")
    assert find_module(plain, "modelpkg.train") == plain
    inner = unpack(pack(prefix="modelpkg-1.0/"), tmp_path / "inner")
    assert find_module(inner, "modelpkg.train") == inner / "modelpkg-1.0"
    assert find_module(inner, "modelpkg.missing") is None


def test_kept_code_has_one_name_whoever_packed_it_and_comes_back_whole(tmp_path: Path) -> None:
    store = MemoryStore()
    folders = [
        unpack(pack(prefix=prefix), tmp_path / f"from-{index}")
        for index, prefix in enumerate(("", "./"))
    ]
    names = {keep_code(store, folder, tmp_path / "kept") for folder in folders}
    (name,) = names
    there = local_code(store, name, tmp_path / "elsewhere")
    assert name == f"code/{hash_code(there)}.tar.gz"
    assert (there / "modelpkg/train.py").read_text() == CODE["modelpkg/train.py"]
    assert local_code(MemoryStore(), name, tmp_path / "kept").is_dir()  # asks no store


def test_code_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    name = keep_code(store, unpack(pack(), tmp_path / "code"), tmp_path / "kept")
    other = keep_code(store, unpack(pack({"a.py": ""}), tmp_path / "other"), tmp_path / "kept")
    store.put(name, bytes(store.get(other).bytes()))
    with pytest.raises(BadCodeError, match="has been changed"):
        local_code(store, name, tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_address_of_packed_code_is_split_and_others_are_refused() -> None:
    digest = "0" * 32
    assert split_address(f"s3://models/hpo/code/{digest}.tar.gz") == (
        "s3://models/hpo",
        f"code/{digest}.tar.gz",
    )
    for address in ("s3://models/code/../x.tar.gz", "http://x/code.tar.gz", "s3://models"):
        with pytest.raises(BadCodeError, match="must be a folder, or s3://"):
            split_address(address)
