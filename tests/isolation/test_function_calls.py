"""Users' functions in a sandbox: honest ones are called as ever, hostile ones get nothing."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

import pytest

from hpo_ops.isolation.function_calls import UserCodeError, call_function

MINE = """
import json, os, sys, time
from pathlib import Path
def first(items):
    print("looking at", len(items), "items")
    return items[0]
def nothing(items): pass
def numbers(items): return len(items)
def fails(items): return items[9]
def leaves(items): sys.exit("enough")
def kills(items): os.kill(os.getpid(), 9)
def sleeps(items): time.sleep(60)
def reads(items):
    return Path("beside.txt").read_text() + Path(__file__).with_name("beside.txt").read_text()
def writes(items):
    Path(os.environ["TMPDIR"], "note").write_text("x")
    return os.environ["HOME"]
def variables(items): return json.dumps(dict(os.environ))
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "beside.txt").write_text("beside")
    (tmp_path / "broken.py").write_text("import no_such_module")
    return tmp_path


def call(code: Path, name: str, argument: Any = (), seconds: float = 60) -> str | bool:
    return call_function("stop.when", name, argument, code=code, seconds=seconds)


def test_a_function_gets_its_argument_and_its_text_comes_back(
    code: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert call(code, "mine:first", ["enough", {"a": None}]) == "enough"
    assert "mine:first: looking at 2 items" in caplog.messages
    assert call(code, "mine:reads") == "besidebeside"


def test_what_is_no_text_counts_as_true_or_false(code: Path) -> None:
    assert call(code, "mine:nothing") is False
    assert call(code, "mine:numbers", [1]) is True


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:fails", r"stop.when mine:fails failed: IndexError.*\n.*mine\.py"),
        ("mine:leaves", "stop.when mine:leaves failed: SystemExit: enough"),
        ("mine:kills", "stop.when mine:kills ended without an answer"),
        ("mine:nobody", "stop.when mine:nobody cannot be loaded: AttributeError"),
        ("nowhere:f", "stop.when nowhere:f cannot be loaded: ModuleNotFoundError"),
        ("broken:f", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_function_that_fails_says_where_in_the_users_own_folder(
    code: Path, name: str, message: str
) -> None:
    with pytest.raises(UserCodeError, match=message) as error:
        call(code, name, [])
    assert "hpo-sandbox" not in str(error.value)


def test_a_function_that_takes_too_long_is_ended(code: Path) -> None:
    with pytest.raises(UserCodeError, match="took more than 3 s"):
        call(code, "mine:sleeps", seconds=3)


def test_a_function_may_write_to_its_own_folder_which_is_gone_afterwards(code: Path) -> None:
    home = call(code, "mine:writes")
    assert isinstance(home, str)
    assert not Path(home).exists()


def test_only_variables_that_the_operator_names_are_passed_on(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HPO_GATEWAY", "secret")
    monkeypatch.setenv("TEAM_CHANNEL", "alerts")
    assert "alerts" not in str(call(code, "mine:variables"))
    monkeypatch.setenv("HPO_SANDBOX_ENV", "TEAM_CHANNEL, OTHER")
    found = str(call(code, "mine:variables"))
    assert "alerts" in found
    assert "secret" not in found


def test_a_function_that_the_operator_allows_is_an_installed_one_and_runs_here(
    code: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("installed")
    (installed / "operators_own.py").write_text("import os\ndef pid(_): return str(os.getpid())")
    (code / "operators_own.py").write_text("def pid(_): return 'not this one'")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", "operators_own:pid")
    assert call(code, "operators_own:pid") == str(os.getpid())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_the_operator_chooses_the_user_and_adds_folders(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Path(tempfile.mkdtemp(prefix="hpo-shared-"))
    os.chown(shared, 65432, 65432)
    (code / "sharing.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "def note(folder):\n"
        "    Path(folder, 'note').write_text('x')\n"
        "    return f'{os.getuid()} {Path(folder, \"note\").read_text()}'\n"
    )
    with pytest.raises(UserCodeError, match="PermissionError"):
        call(code, "sharing:note", str(shared))
    monkeypatch.setenv("HPO_SANDBOX_UID", "65432")
    monkeypatch.setenv("HPO_SANDBOX_WRITE", f"/no/such/folder:{shared}")
    assert call(code, "sharing:note", str(shared)) == "65432 x"
    shutil.rmtree(shared)


def test_an_environment_in_a_private_folder_works_for_the_sandboxs_user(
    code: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("private") / "venv"
    venv.create(folder, symlinks=True)
    library = next((folder / "lib").glob("python*")) / "site-packages" / "theirs.py"
    library.write_text("FOUND = 'in the environment'")
    (code / "uses.py").write_text("import json, theirs\ndef found(_): return theirs.FOUND")
    script = (
        "from pathlib import Path\n"
        "from hpo_ops.isolation.function_calls import call_function\n"
        f"print(call_function('key', 'uses:found', 1, code=Path({str(code)!r})))\n"
    )
    done = subprocess.run(
        [folder / "bin" / "python", "-c", script],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": os.defpath},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "in the environment\n", done.stderr


@pytest.mark.parametrize("uid", ["nobody", "-1", str(2**32)])
def test_a_user_that_is_no_number_is_refused(
    code: Path, monkeypatch: pytest.MonkeyPatch, uid: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    monkeypatch.setenv("HPO_SANDBOX_UID", uid)
    with pytest.raises(ValueError, match="HPO_SANDBOX_UID is"):
        call(code, "mine:nothing")
