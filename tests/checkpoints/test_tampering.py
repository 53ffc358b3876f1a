"""What somebody with keys to the store has changed there is not used."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import obstore
import pytest

from hpo_ops.agent.checkpoint_restore import restore_checkpoint
from hpo_ops.checkpoints import (
    BadCodeError,
    Checkpoints,
    CorruptCheckpointError,
    Manifest,
    Store,
    fetch_code,
    upload_code,
)
from hpo_ops.checkpoints.code_upload import pack_code
from hpo_ops.protocol import Assignment, Checkpoint, Workspace
from tests.gateways import FakeGateway

STUDY = "team/digits"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    return folder


@pytest.fixture
def checkpoints(store: Store) -> Checkpoints:
    return Checkpoints(store, STUDY, uri="s3://models")


def save(checkpoints: Checkpoints, folder: Path, step: int, model: bytes, trial: int = 0) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "model").write_bytes(model)
    return checkpoints.upload(trial, step, folder)


def known(told: Checkpoint, trial: int = 0) -> dict[str, object]:
    """A checkpoint as the gateway tells a segment of it."""
    digest = told.to_dict().get("digest")
    return {"step": told.step, "path": f"{STUDY}/trials/{trial}/{told.step}", "digest": digest}


def restored(
    checkpoints: Checkpoints, target: Path, *saved: dict[str, object], from_step: int = 5
) -> tuple[int, bytes | None]:
    """The step that an agent restores, and the model it finds there."""
    assignment = Assignment.from_dict(
        {
            "study": "digits",
            "trial": 0,
            "segment": "a",
            "params": {},
            "metrics": ["m"],
            "from_step": from_step,
            "saved": list(saved),
        }
    )
    workspace = Workspace(target)
    told = restore_checkpoint(assignment, workspace, checkpoints, FakeGateway())
    model = workspace.checkpoint(told.from_step) / "model"
    return told.from_step, model.read_bytes() if model.exists() else None


# -- code ------------------------------------------------------------------------------------


def test_code_that_was_replaced_in_the_store_is_not_unpacked(
    store: Store, code: Path, tmp_path: Path
) -> None:
    name = upload_code(store, code)
    (code / "train.py").write_text("import os; os.system('evil')")
    obstore.put(store, name, pack_code(code))
    with pytest.raises(BadCodeError, match="has been changed"):
        fetch_code(store, name, tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "store") == ["code"]


@pytest.mark.parametrize("extra", ["__pycache__/train.cpython-311.pyc", "numpy.pyc", ".git/hook"])
def test_files_that_the_hash_does_not_count_cannot_be_added(
    store: Store, code: Path, tmp_path: Path, extra: str
) -> None:
    name = upload_code(store, code)
    packed = io.BytesIO(gzip.decompress(pack_code(code)))
    with tarfile.open(fileobj=packed, mode="a") as archive:
        item = tarfile.TarInfo(extra)
        item.size = 4
        archive.addfile(item, io.BytesIO(b"evil"))
    obstore.put(store, name, gzip.compress(packed.getvalue()))
    with pytest.raises(BadCodeError, match="does not cover"):
        fetch_code(store, name, tmp_path / "there")
    assert not (tmp_path / "there").exists()


# -- checkpoints -----------------------------------------------------------------------------


def test_a_checkpoint_that_was_replaced_with_its_manifest_is_passed_over(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    """Beside the data a hash proves nothing: whoever writes the one writes the other."""
    older = known(save(checkpoints, tmp_path / "3", 3, b"three"))
    newer = known(save(checkpoints, tmp_path / "5", 5, b"five"))
    assert restored(checkpoints, tmp_path / "before", newer, older) == (5, b"five")
    save(checkpoints, tmp_path / "5", 5, b"evil")
    assert restored(checkpoints, tmp_path / "after", newer, older) == (3, b"three")
    save(checkpoints, tmp_path / "3", 3, b"evil")
    assert restored(checkpoints, tmp_path / "none", newer, older) == (0, None)


def test_a_checkpoint_that_the_ledger_does_not_know_is_not_restored(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    older = known(save(checkpoints, tmp_path / "3", 3, b"three"))
    save(checkpoints, tmp_path / "4", 4, b"evil")
    assert restored(checkpoints, tmp_path / "hpo", older) == (3, b"three")


def test_a_checkpoint_of_another_trial_is_verified_as_well(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    lent = known(save(checkpoints, tmp_path / "5", 5, b"parent", trial=7), trial=7)
    assert restored(checkpoints, tmp_path / "before", lent) == (5, b"parent")
    save(checkpoints, tmp_path / "5", 5, b"evil", trial=7)
    assert restored(checkpoints, tmp_path / "after", lent) == (0, None)


def test_a_checkpoint_from_before_there_were_digests_is_restored(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    old = {**known(save(checkpoints, tmp_path / "5", 5, b"five")), "digest": None}
    assert restored(checkpoints, tmp_path / "hpo", old) == (5, b"five")


def test_a_file_that_has_grown_in_the_store_is_not_downloaded(
    checkpoints: Checkpoints, store: Store, tmp_path: Path
) -> None:
    saved = known(save(checkpoints, tmp_path / "5", 5, b"five"))
    obstore.put(store, f"{STUDY}/trials/0/5/model", b"x" * (1 << 20))
    assert restored(checkpoints, tmp_path / "hpo", saved) == (0, None)


def test_a_best_checkpoint_that_was_replaced_is_not_published(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    told = save(checkpoints, tmp_path / "5", 5, b"five")
    save(checkpoints, tmp_path / "5", 5, b"evil")
    with pytest.raises(CorruptCheckpointError, match="it was changed in the store"):
        checkpoints.copy_to_best(0, 5, digest=told.digest)
    assert checkpoints.best() is None
    save(checkpoints, tmp_path / "5", 5, b"five")
    checkpoints.copy_to_best(0, 5, digest=told.digest)
    assert isinstance(checkpoints.best(), Manifest)
