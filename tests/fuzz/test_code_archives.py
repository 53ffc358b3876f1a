"""Code archives of strangers: unpacked inside of their folder and within limits, or refused."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from obstore.store import MemoryStore

from hpo_ops.checkpoints import code_archive as archives
from hpo_ops.checkpoints.code_archive import local_code, unpack_archive
from hpo_ops.checkpoints.code_upload import BadCodeError
from tests.fuzz.conftest import Fuzz
from tests.fuzz.mutations import ODD_TEXT, damaged
from tests.fuzz.outcomes import outcome

LIMIT = 1 << 20
TYPES = (
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE,
    tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE,
    tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, b"Z", b"\x00",
)  # fmt: skip
NAMES = ("a", "a/b", "a/b/c.py", "./a", "a//b", "../out", "a/../../out", "/abs", "a/", "C:\\x")
PAX = (
    {},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(LIMIT * 64)},
    {"GNU.sparse.size": str(LIMIT * 64), "GNU.sparse.map": f"0,1,{LIMIT * 64 - 1},1"},
    {"size": "-1"},
    {"size": str(10**15)},
    {"path": "../out"},
    {"linkpath": "/etc/passwd"},
    {"mtime": "nan"},
)

GOOD = ("a", "b/c", "b/d.py", "./e", "f/g/h.txt")

names = st.one_of(
    *[st.sampled_from(GOOD)] * 4,
    st.sampled_from(NAMES),
    st.sampled_from([name for name in ODD_TEXT if name.isprintable()]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)


@st.composite
def members(draw: st.DrawFn) -> tarfile.TarInfo:
    item = tarfile.TarInfo(draw(names))
    item.type = draw(st.sampled_from((*TYPES, *[tarfile.REGTYPE] * 30)))
    item.linkname = draw(st.sampled_from(("", "a", "../../etc/passwd", "/etc/passwd")))
    item.size = draw(st.sampled_from((0, 1, 600) * 4 + (LIMIT + 1, 8**11 - 1)))
    item.mode = draw(st.sampled_from((0o644, 0o4777, 0o000)))
    item.pax_headers = dict(draw(st.sampled_from((*PAX, *[PAX[0]] * 10))))
    return item


@st.composite
def packed(draw: st.DrawFn) -> bytes:
    """An archive of odd members; then perhaps cut off, or with some of its bytes replaced."""
    plain = io.BytesIO()
    form = draw(st.sampled_from((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)))
    with tarfile.open(fileobj=plain, mode="w", format=form) as made:
        for item in draw(st.lists(members(), min_size=1, max_size=5)):
            content = b"x" * (item.size if item.size < LIMIT else 512)
            try:
                header = item.tobuf(form, "utf-8", "surrogateescape")
            except ValueError:  # this form has no room for such a name
                continue
            made.fileobj.write(header + content + b"\0" * (-len(content) % 512))  # type: ignore[union-attr]
    data = plain.getvalue()
    if not draw(st.integers(0, 2)):
        data = draw(damaged([data], tokens=[b"\xff" * 12, b"0" * 11, b"\x80" + b"\xff" * 11]))
    data = gzip.compress(data, 1, mtime=0) if draw(st.integers(0, 9)) else data
    if not draw(st.integers(0, 4)):
        data = data[: draw(st.integers(0, len(data)))]
    return data


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(archives, "MAX_UNPACKED", LIMIT)
    return tmp_path


def _inspect(folder: Path) -> None:
    """Nothing but one folder, and in it plain files of a bearable size."""
    assert {path.name for path in folder.iterdir()} <= {"code"}
    size = 0
    for path in (folder / "code").rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or path.is_file()
        size += path.stat().st_blocks * 512 if path.is_file() else 0
        assert not path.is_file() or path.stat().st_size <= LIMIT
        assert not path.stat().st_mode & 0o7000
    assert size <= 2 * LIMIT


@pytest.mark.fuzz(100)
def test_an_archive_stays_in_its_folder_and_within_its_limit(
    room: Path, fuzz: Fuzz[bytes]
) -> None:
    def check(data: bytes) -> Counter[str]:
        target = room / "code"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        seen = outcome(lambda: unpack_archive(io.BytesIO(data), target), BadCodeError)
        _inspect(room)
        return seen

    fuzz(packed(), check)


@pytest.mark.fuzz(100)
def test_code_of_the_store_is_what_its_name_says_or_refused(room: Path, fuzz: Fuzz[bytes]) -> None:
    name = f"code/{'0' * 32}.tar.gz"

    def check(data: bytes) -> Counter[str]:
        store: Any = MemoryStore()
        store.put(name, data)
        shutil.rmtree(room / "here", ignore_errors=True)
        seen = outcome(lambda: local_code(store, name, room / "here"), BadCodeError)
        assert seen["taken"] == 0
        assert [path.name for path in room.iterdir()] == ["here"]
        assert not list((room / "here").iterdir())
        return seen

    fuzz(packed(), check)
