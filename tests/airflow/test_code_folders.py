"""Code from the store is where a worker needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import hpo_ops.airflow.code_folders
from hpo_ops.airflow._running_studies import code_folder
from hpo_ops.airflow.code_folders import present_code, unpack_code
from hpo_ops.airflow.trigger_form import read_trigger
from hpo_ops.checkpoints import BadCodeError, open_store
from hpo_ops.checkpoints.code_archive import keep_code
from tests.studies import study_data


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive in a store that this machine has never seen."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("HPO_CHECKPOINT_STORE", f"file://{tmp_path}/store")
    monkeypatch.setattr(hpo_ops.airflow.code_folders, "store_credentials", lambda: None)
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('hello')")
    name = keep_code(open_store(f"file://{tmp_path}/store"), code, tmp_path / "elsewhere")
    return f"file://{tmp_path}/store/{name}"


def test_a_study_with_packed_code_gets_a_folder(address: str, tmp_path: Path) -> None:
    study = read_trigger(
        None,
        {"study": {}},
        {"study": study_data(code=address, flow="rolling")},
        source="test",
        folder=tmp_path,
        unpack=unpack_code,
    )
    assert study.code is not None
    assert Path(study.code).parent == code_folder()
    assert (Path(study.code) / "train.py").read_text() == "print('hello')"


def test_a_worker_that_does_not_have_the_code_yet_fetches_it(address: str) -> None:
    folder = code_folder() / Path(address).name.removesuffix(".tar.gz")
    assert not folder.exists()
    assert present_code(str(folder)) == folder
    assert (folder / "train.py").is_file()
    assert present_code("/somewhere/else") == Path("/somewhere/else")


def test_an_address_that_is_no_code_of_ours_is_refused() -> None:
    with pytest.raises(BadCodeError, match="must be a folder, or s3://"):
        unpack_code("s3://models/anything.tar.gz")


def test_code_of_a_store_that_is_not_allowed_is_not_fetched(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_CHECKPOINT_STORE", f"file://{tmp_path}/another")

    with pytest.raises(BadCodeError, match="that the operator allows"):
        unpack_code(address)
    assert not code_folder().exists()
