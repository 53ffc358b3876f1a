"""``hpo init``: writes a template of a study file and of a training script."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.terminal import Json, out, print_json
from hpo_ops.config import load_study

EPILOG = (
    "Example: hpo init cifar --metric accuracy --param lr=1e-4..1e-1 --param optimizer=adam,sgd"
)
LOG_RATIO = 100.0
"""A range whose ends differ by this factor or more is searched on a logarithmic scale."""
DEFAULT_PARAMS = ("lr=1e-4..1e-1", "width=16..256")
_RANGE = re.compile(r"(?P<low>[^.]+(\.\d+)?(e[-+]?\d+)?)\.\.(?P<high>.+)")

_STUDY = """\
# A study: what to search, how long, and with which policy. All keys: docs/studies.md.
# Try the training code first:  hpo test {folder}/study.yaml
# Then run the study:           hpo run {folder}/study.yaml
name: {name}
code: .
command: python train.py
metric: {metric}
space:
{space}
scheduler: {{name: asha, min_steps: 1, max_steps: {steps}, eta: 3}}
trials: {trials}
parallelism: 2
"""

_SCRIPT = '''\
"""Trains one trial of the study {name}. Replace the marked lines by your own training."""

import json

from hpo_ops.sdk import trial

model = {{"quality": 0.0}}  # your model
trial.checkpointed(
    save=lambda folder: (folder / "model.json").write_text(json.dumps(model)),
    load=lambda folder: model.update(json.loads((folder / "model.json").read_text())),
)
for step in trial.steps(total={steps}):  # continues after the newest checkpoint
    print("step", step, "with", trial.params)
    model["quality"] += (1.0 - model["quality"]) / 2  # your training of one epoch
    trial.report(step, {report})  # saves; ends here if paused or stopped
'''


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The values that the user has chosen for the study file and the training script."""

    name: str
    metric: str
    is_maximized: bool
    space: dict[str, Any]
    steps: int
    trials: int


def init(
    folder: Annotated[Path, typer.Argument(help="Folder for study.yaml and train.py.")],
    metric: Annotated[
        str | None, typer.Option(help="Name of the metric.  [default: loss]")
    ] = None,
    is_maximized: Annotated[
        bool | None,
        typer.Option(
            "--maximize/--minimize", help="Direction of the metric; by default by its name."
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="A hyperparameter: lr=1e-4..1e-1, layers=1..8 or optimizer=adam,sgd.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a full-length trial.")] = 9,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials.")] = 20,
    is_forced: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: Json = False,
) -> None:
    """Writes a study file and a training script; in a terminal, prompts for missing options."""
    is_asking = sys.stdin.isatty() and not as_json
    if metric is None:
        metric = typer.prompt("Metric", default="loss") if is_asking else "loss"
    if is_maximized is None:
        is_maximized = not re.search(r"loss|error|mse|mae|time|perplexity", metric.lower())
        if is_asking:
            is_maximized = typer.confirm(f"Is a larger {metric} better?", default=is_maximized)
    if not param and is_asking:
        param = _ask_params()
    answers = Answers(
        name=re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-.") or "study",
        metric=metric,
        is_maximized=is_maximized,
        space=dict(parse_param(text) for text in param or DEFAULT_PARAMS),
        steps=steps,
        trials=trials,
    )
    written = write_files(folder, answers, is_forced=is_forced)
    if as_json:
        print_json([str(path) for path in written])
        return
    for path in written:
        out.print(f"Wrote {path}", soft_wrap=True)
    out.print(f"Next: hpo test {folder}/study.yaml", soft_wrap=True)


def _ask_params() -> list[str]:
    out.print("Hyperparameters, one a line, such as lr=1e-4..1e-1; an empty line ends the list.")
    given: list[str] = []
    while text := typer.prompt("Hyperparameter", default="", show_default=False):
        parse_param(text)
        given.append(text)
    return given


def parse_param(text: str) -> tuple[str, dict[str, Any] | list[Any]]:
    """Parses an option ``name=values`` into a hyperparameter's name and entry in the space.

    >>> parse_param("lr=1e-4..1e-1")
    ('lr', {'float': [0.0001, 0.1], 'log': True})
    >>> parse_param("layers=1..8")
    ('layers', {'int': [1, 8]})
    >>> parse_param("optimizer=adam,sgd")
    ('optimizer', ['adam', 'sgd'])

    Raises:
        CommandError: The text is neither a range nor a list of values.
    """
    name, _, values = text.partition("=")
    if name.isidentifier() and (found := _RANGE.fullmatch(values)):
        low, high = _number(found["low"], text), _number(found["high"], text)
        kind = "int" if isinstance(low, int) and isinstance(high, int) else "float"
        log = {"log": True} if low > 0 and high / low >= LOG_RATIO else {}
        return name, {kind: [low, high], **log}
    if name.isidentifier() and "," in values:
        return name, [yaml.safe_load(value) for value in values.split(",")]
    raise CommandError(
        f"--param is {text!r}, but must be like lr=1e-4..1e-1, layers=1..8 or optimizer=adam,sgd"
    )


def _number(text: str, option: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"--param is {option!r}, but {text!r} is not a number") from None


def write_files(folder: Path, answers: Answers, *, is_forced: bool) -> list[Path]:
    """Writes the study file and the training script, and returns their paths.

    Args:
        folder: The folder of both files; it is created if it does not exist.
        answers: The values that the user has chosen.
        is_forced: Whether existing files are replaced.

    Raises:
        CommandError: A file exists already and `is_forced` is False, or the folder cannot be
            written.
        StudyError: The answers do not give a valid study; neither file is written.
    """
    study, script = folder / "study.yaml", folder / "train.py"
    files = {study: study_text(folder, answers), script: script_text(answers)}
    existing = [str(path) for path in files if path.exists()]
    if existing and not is_forced:
        raise CommandError(f"{' and '.join(existing)} exist already: use --force to replace them")
    drafts = {path: folder / f".new.{path.name}" for path in files}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            drafts[path].write_text(text, encoding="utf-8")
        load_study(drafts[study])
        for path, draft in drafts.items():
            draft.replace(path)
    except OSError as error:
        raise CommandError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        for draft in drafts.values():
            with suppress(OSError):  # never written, or the folder is a file
                draft.unlink()
    return list(files)


def study_text(folder: Path, answers: Answers) -> str:
    """Returns the content of a study file with the values that the user has chosen."""
    space = [f"  {name}: {_flow(value)}" for name, value in answers.space.items()]
    return _STUDY.format(
        folder=folder,
        name=answers.name,
        metric=_flow(
            {
                "name": answers.metric,
                "direction": "maximize" if answers.is_maximized else "minimize",
            }
        ),
        space="\n".join(space),
        steps=answers.steps,
        trials=answers.trials,
    )


def script_text(answers: Answers) -> str:
    """Returns the content of a training script with the metric and steps that the user has chosen.

    The script passes ``hpo test`` without changes.
    """
    value = 'model["quality"]' if answers.is_maximized else '1.0 - model["quality"]'
    is_word = answers.metric.isidentifier()
    report = f"{answers.metric}={value}" if is_word else f"**{{{answers.metric!r}: {value}}}"
    return _SCRIPT.format(name=answers.name, steps=answers.steps, report=report)


def _flow(value: dict[str, Any] | Sequence[Any]) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).strip()
