"""The pages say what is true: links lead somewhere, examples run, commands and keys exist."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import typer.main
import yaml
from pydantic import BaseModel

from hpo_ops.cli.commands import app
from hpo_ops.client import TrialSummary
from hpo_ops.config import Policy, StudyConfig, StudyError, parse_study
from hpo_ops.samplers import SAMPLERS
from hpo_ops.schedulers import SCHEDULERS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
STUDIES = DOCS / "studies.md"
WRITING = DOCS / "writing-a-scheduler.md"
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    .*$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?<![\w./-])hpo ([a-z]+)((?: [^\n;|]*)?)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def prose(page: Path) -> str:
    """The page without code."""
    return SPAN.sub("", BLOCK.sub("", page.read_text("utf-8")))


def code(page: Path) -> Iterator[str]:
    """Everything on the page that is set as code."""
    text = page.read_text("utf-8")
    for language, block in BLOCK.findall(text):
        if language in ("", "bash", "console", "sh"):
            yield from block.splitlines()
    rest = BLOCK.sub("", text)
    yield from INDENTED.findall(rest)
    yield from SPAN.findall(rest)


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can name, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in headings}


def whole_studies() -> Iterator[Any]:
    for page in PAGES:
        for number, text in enumerate(blocks(page, "yaml")):
            data = yaml.safe_load(text)
            if isinstance(data, dict) and {"name", "space"} <= set(data):
                yield pytest.param(data, id=f"{name_of(page)}-{number}")


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted keys that the table of a study's keys must have."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not Policy:
                yield from keys_of(kind, f"{prefix}{name}.")


def run_example() -> type[Any]:
    """Runs the code of the page on schedulers; returns its test class."""
    module, test = blocks(WRITING, "python")
    made = ModuleType("halfway")
    sys.modules["halfway"] = made
    exec(compile(module, str(WRITING), "exec"), vars(made))  # noqa: S102  our own page
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(test, str(WRITING), "exec"), found)  # noqa: S102
    kind: type[Any] = found["TestHalfway"]
    return kind


TestHalfway = run_example()


@pytest.fixture(autouse=True)
def _the_operator_allows_the_page_on_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPO_ALLOWED_CLASSES", "halfway:Halfway")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    dead = []
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("data", list(whole_studies()))
def test_every_whole_study_on_a_page_can_be_used(data: dict[str, Any]) -> None:
    assert parse_study(data, source="a page").name == data["name"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_hpo_on_a_page_exists(page: Path) -> None:
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    for line in code(page):
        for name, rest in COMMAND.findall(line):
            command = commands.get(name)
            assert command is not None, f"hpo {name}"
            if members := vars(command).get("commands"):  # such as `hpo trace export`
                command = members.get((rest.split() or [""])[0])
                assert command is not None, f"hpo {name}{rest}"
            known = {
                option for item in command.params for option in [*item.opts, *item.secondary_opts]
            }
            for option in re.findall(r"(?<= )--?[a-z][a-z-]*", rest):
                assert option in known, f"hpo {name} {option}"


def test_every_key_of_a_study_is_on_its_page() -> None:
    text = STUDIES.read_text("utf-8")
    sections = {"budget", "stop", "checkpoints"}  # only what is in them has a row
    keys = {key for key in keys_of(StudyConfig) if not key.startswith("metrics.")} - sections
    assert sorted(key for key in keys if f"| `{key}` |" not in text) == []


def test_every_sampler_and_scheduler_is_on_the_page_of_the_study_file() -> None:
    named = set(SPAN.findall(BLOCK.sub("", STUDIES.read_text("utf-8"))))
    assert set(SAMPLERS) - named == set()
    assert set(SCHEDULERS) - named == set()


ROWS = re.findall(
    r"^\| `(.+)` \| `(.+)` \|$",
    STUDIES.read_text("utf-8").partition("## Messages about an invalid file")[2],
    re.MULTILINE,
)


@pytest.mark.parametrize(("change", "message"), ROWS)
def test_a_wrong_file_says_what_the_page_says(change: str, message: str) -> None:
    study = yaml.safe_load(blocks(STUDIES, "yaml")[0])
    with pytest.raises(StudyError) as caught:
        parse_study({**study, **yaml.safe_load(change)}, source="a page")
    start, _, _ = message.partition("…")
    assert any(problem.startswith(start) for problem in caught.value.problems)
    if start == message:
        assert message in caught.value.problems


def test_a_criterion_gets_what_the_page_shows() -> None:
    shape, example, *_ = blocks(STUDIES, "python")
    (trial,) = ast.literal_eval(shape)
    assert TrialSummary.from_dict(trial).to_dict() == trial
    found: dict[str, Any] = {}
    exec(compile(example, str(STUDIES), "exec"), found)  # noqa: S102  our own page
    assert found["good_and_sure"]([trial]) is None
    assert "3 trials" in found["good_and_sure"]([{**trial, "metrics": {"loss": 0.05}}] * 3)


def test_the_page_shows_wrong_files() -> None:
    assert len(ROWS) > 10
