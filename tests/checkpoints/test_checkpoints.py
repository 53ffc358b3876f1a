"""What holds for checkpoints in every store: memory, files, a real S3."""

from __future__ import annotations

import json
import os
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError

from hpo_ops.checkpoints import (
    BadCheckpointError,
    CheckpointRef,
    Checkpoints,
    CorruptCheckpointError,
    Store,
)
from hpo_ops.protocol import MARKER, Workspace

TRIALS = "team/digits/trials"


@pytest.fixture
def checkpoints(store: Store) -> Checkpoints:
    return Checkpoints(store, "team/digits", uri="s3://models/hpo")


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def keys(store: Store) -> list[str]:
    return sorted(item["path"] for page in obstore.list(store) for item in page)


def save(checkpoints: Checkpoints, folder: Path, trial: int, *steps: int) -> None:
    for step in steps:
        local = write(folder / f"{trial}-{step}", {"model.pt": b"%d/%d" % (trial, step)})
        checkpoints.upload(trial, step, local)


def test_a_checkpoint_comes_back_as_it_was(checkpoints: Checkpoints, tmp_path: Path) -> None:
    files = {
        "model.pt": os.urandom(9 << 20),  # more than one part
        "optimizer/state 1 #%é.bin": os.urandom(1000),
        "empty": b"",
        MARKER: b"",
    }
    told = checkpoints.upload(7, 12, write(tmp_path / "12", files))
    assert (told.step, told.files, told.bytes) == (12, 3, sum(map(len, files.values())))
    assert told.uri == f"s3://models/hpo/{TRIALS}/7/12"
    workspace = Workspace(tmp_path / "new")
    assert checkpoints.restore(7, workspace.checkpoints) == 12
    assert workspace.complete_steps() == [12]
    assert read(workspace.checkpoint(12)) == files
    assert [path.name for path in workspace.checkpoints.iterdir()] == ["12"]


def test_the_layout_is_the_documented_one(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    save(checkpoints, tmp_path, 7, 12)
    assert keys(store) == [f"{TRIALS}/7/12/manifest.json", f"{TRIALS}/7/12/model.pt"]
    manifest = json.loads(bytes(obstore.get(store, f"{TRIALS}/7/12/manifest.json").bytes()))
    assert manifest["version"] == 1
    assert manifest["step"] == 12
    assert manifest["files"][0]["path"] == "model.pt"
    assert manifest["files"][0]["bytes"] == 4
    assert len(manifest["files"][0]["sha256"]) == 64


def test_step_10_is_newer_than_step_9(checkpoints: Checkpoints, tmp_path: Path) -> None:
    save(checkpoints, tmp_path, 0, 9, 10)
    save(checkpoints, tmp_path, 1, 99)
    assert checkpoints.restore(0, tmp_path / "new") == 10
    assert checkpoints.restore(0, tmp_path / "old", at_most=9) == 9


def test_nothing_to_restore_is_none(checkpoints: Checkpoints, tmp_path: Path) -> None:
    assert checkpoints.restore(0, tmp_path / "new") is None
    assert checkpoints.best() is None


def test_half_a_checkpoint_is_never_restored(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    save(checkpoints, tmp_path, 0, 4, 5)
    obstore.delete(store, f"{TRIALS}/0/5/manifest.json")
    assert checkpoints.restore(0, tmp_path / "new") == 4
    assert checkpoints.complete() == [(0, 4)]


@pytest.mark.parametrize("damage", ["bits", "length", "gone", "manifest"])
def test_a_damaged_checkpoint_is_passed_over(
    checkpoints: Checkpoints, store: Store, tmp_path: Path, damage: str
) -> None:
    save(checkpoints, tmp_path, 0, 4, 5)
    model = f"{TRIALS}/0/5/model.pt"
    if damage == "bits":
        obstore.put(store, model, b"0!5")
    elif damage == "length":
        obstore.put(store, model, b"0/")
    elif damage == "gone":
        obstore.delete(store, model)
    else:
        obstore.put(store, f"{TRIALS}/0/5/manifest.json", b'{"version": 1, "step"')
    assert checkpoints.restore(0, tmp_path / "new") == 4
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["4"]


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "a//b", ".", ""])
def test_a_manifest_that_leaves_the_folder_is_refused(
    checkpoints: Checkpoints, store: Store, tmp_path: Path, path: str
) -> None:
    files = [{"path": path, "bytes": 0, "sha256": ""}]
    manifest = json.dumps({"version": 1, "step": 5, "files": files})
    obstore.put(store, f"{TRIALS}/0/5/manifest.json", manifest.encode())
    with pytest.raises(CorruptCheckpointError, match="must stay inside its folder"):
        checkpoints.manifest(0, 5)
    assert checkpoints.restore(0, tmp_path / "a" / "new") is None
    assert not (tmp_path / "evil").exists()


def test_an_upload_that_is_cut_short_replaces_nothing_by_half(
    checkpoints: Checkpoints, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, tmp_path, 0, 4, 5)

    def cut(*_: object) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr("hpo_ops.checkpoints._checkpoints.send", cut)
        with pytest.raises(ConnectionResetError):
            checkpoints.upload(0, 5, tmp_path / "0-5")
    assert checkpoints.complete(0) == [(0, 4)]
    checkpoints.upload(0, 5, tmp_path / "0-5")
    assert checkpoints.complete(0) == [(0, 4), (0, 5)]


def test_the_best_is_replaced_whole(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    checkpoints.upload(0, 3, write(tmp_path / "a", {"model.pt": b"first", "old/extra": b"x"}))
    checkpoints.upload(1, 8, write(tmp_path / "b", {"model.pt": b"second", "new": b""}))
    assert checkpoints.copy_to_best(0, 3) == "s3://models/hpo/team/digits/best"
    checkpoints.copy_to_best(1, 8)
    checkpoints.copy_to_best(1, 8)
    best = [key for key in keys(store) if key.startswith("team/digits/best/")]
    assert best == [f"team/digits/best/{name}" for name in ("manifest.json", "model.pt", "new")]
    assert bytes(obstore.get(store, "team/digits/best/model.pt").bytes()) == b"second"
    assert checkpoints.best() == checkpoints.manifest(1, 8)


def test_only_a_whole_checkpoint_can_be_the_best(checkpoints: Checkpoints) -> None:
    with pytest.raises(CorruptCheckpointError, match="trial 3 has no complete checkpoint at"):
        checkpoints.copy_to_best(3, 2)


def test_a_checkpoint_of_another_study_can_be_restored_and_be_the_best(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    other = Checkpoints(store, "team/other", uri="s3://models/hpo")
    saved = other.upload(7, 10, write(tmp_path / "a", {"model.pt": b"ten"}))
    place = "team/other/trials/7"
    assert checkpoints.restore(0, tmp_path / "new", at_most=9, first_folder=place) is None
    assert checkpoints.restore(0, tmp_path / "new", at_most=10, first_folder=place) == 10
    assert (tmp_path / "new" / "10" / "model.pt").read_bytes() == b"ten"
    with pytest.raises(ValueError, match="must stay inside"):
        checkpoints.restore(0, tmp_path / "new", first_folder="../elsewhere")

    checkpoints.copy_to_best(0, 10, uri=saved.uri)
    assert checkpoints.best() == other.manifest(7, 10)
    published = "s3://models/hpo/team/digits/best"
    other.collect(set())
    with pytest.raises(CorruptCheckpointError):
        checkpoints.copy_to_best(0, 10, uri=saved.uri)
    save(checkpoints, tmp_path, 0, 10)
    assert checkpoints.copy_to_best(0, 10, uri=published) == published
    assert checkpoints.best() == checkpoints.manifest(0, 10)


def test_collecting_keeps_what_it_is_told_to(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    save(checkpoints, tmp_path, 0, 1, 2, 10)
    save(checkpoints, tmp_path, 11, 2)
    obstore.put(store, f"{TRIALS}/0/3/model.pt", b"half")
    checkpoints.copy_to_best(0, 10)
    Checkpoints(store, "team/digits-2").upload(0, 1, tmp_path / "0-1")
    deleted = checkpoints.collect({(0, 10), CheckpointRef(11, 2)})
    assert deleted == [(0, 1), (0, 2), (0, 3)]
    assert checkpoints.complete() == [(0, 10), (11, 2)]
    assert checkpoints.complete(11) == [(11, 2)]
    assert checkpoints.best() is not None
    assert Checkpoints(store, "team/digits-2").complete() == [(0, 1)]


def test_collecting_deletes_the_manifest_first(
    checkpoints: Checkpoints, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "1", {name: b"x" for name in ("a", "m/b", "z")})
    checkpoints.upload(0, 1, folder)
    deleted = []
    monkeypatch.setattr(obstore, "delete", lambda _, key: deleted.append(key))
    checkpoints.collect(set())
    assert deleted[0] == f"{TRIALS}/0/1/manifest.json"
    assert len(deleted) == 4


@pytest.mark.parametrize("study", ["", "../x", "/x", "a/../b"])
def test_a_study_key_stays_inside_of_the_store(store: Store, study: str) -> None:
    with pytest.raises(ValueError, match="must stay inside"):
        Checkpoints(store, study)


def test_an_empty_folder_is_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    with pytest.raises(BadCheckpointError, match="checkpoint 4: the folder is empty"):
        checkpoints.upload(0, 4, write(tmp_path / "4", {MARKER: b""}))


def test_half_a_checkpoint_is_passed_over_where_a_missing_object_is_called_forbidden(
    checkpoints: Checkpoints, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoints, tmp_path, 7, 11, 12)
    obstore.delete(store, f"{TRIALS}/7/12/manifest.json")
    get = obstore.get

    def as_aws(store: Store, key: str) -> obstore.GetResult:
        """As AWS answers credentials that may list only a part of the bucket."""
        try:
            return get(store, key)
        except FileNotFoundError:
            raise PermissionDeniedError(key) from None

    monkeypatch.setattr(obstore, "get", as_aws)
    assert checkpoints.restore(7, tmp_path / "back") == 11
