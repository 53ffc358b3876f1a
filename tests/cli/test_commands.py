"""The commands: what they print, and how they end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from hpo_ops import __version__
from hpo_ops.cli import main
from hpo_ops.cli.commands import app
from tests.studies import study_data


def write_study(folder: Path, name: str = "small", **changes: Any) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(study_data(name=name, code=".", **changes)))
    return file


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The command as the shell calls it; its exit code."""
    monkeypatch.setattr(sys, "argv", ["hpo", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


def commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which no Airflow is known."""
    monkeypatch.chdir(tmp_path)
    for name in ("HPO_URL", "HPO_TOKEN", "HPO_USERNAME", "HPO_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


# -- exit codes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["status"], ["status", "digits"], ["best", "digits"], ["logs", "digits"], ["stop", "digits"]],
)
def test_without_an_airflow_a_command_ends_with_a_sentence(
    nowhere: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    assert run_main(monkeypatch, *words) == 1
    said = capsys.readouterr()
    assert said.err.startswith("hpo: no Airflow is known")
    assert "Traceback" not in said.err
    assert said.out == ""


def test_an_airflow_that_does_not_answer_ends_with_a_sentence(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HPO_URL", "http://127.0.0.1:9")
    assert run_main(monkeypatch, "status") == 1
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err


def test_a_bad_study_file_is_not_run(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_study(nowhere, trials=0)
    assert run_main(monkeypatch, "run", str(file)) == 1
    assert "trials is 0, but must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["dance"], ["status", "--colour"], ["logs", "x", "-t", "one"]])
def test_what_a_command_does_not_know_is_misuse(words: list[str]) -> None:
    assert run(*words).exit_code == 2


def test_the_version_is_printed() -> None:
    result = run("version")
    assert result.exit_code == 0
    assert result.stdout.strip() == __version__


# -- help ------------------------------------------------------------------------------------


def test_hpo_alone_shows_its_commands() -> None:
    text = run("--help").stdout
    for name in ("run", "status", "logs", "stop", "best", "validate", "up", "down", "demo"):
        assert name in commands()
        assert name in text


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_explains_itself(name: str) -> None:
    command = commands()[name]
    assert command.help
    assert command.help[0].isupper()
    needs_example = any(
        parameter.param_type_name == "argument" and parameter.required
        for parameter in command.params
    )
    if needs_example:
        assert f"hpo {name}" in (command.epilog or "")
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"
    for option in ("--help", "-h"):
        result = run(name, option)
        assert result.exit_code == 0
        assert command.help.split()[0] in result.stdout
