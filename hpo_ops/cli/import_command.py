"""``hpo import``: copies the trials of an Optuna study into the ledger.

Other studies can then warm-start from them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.connection import connect
from hpo_ops.cli.terminal import Json, out, print_json
from hpo_ops.client.import_messages import Imported, ImportRequest, PastTrial, left_out_lines
from hpo_ops.config import StudyConfig, load_study

EPILOG = "Example: hpo import sqlite:///old.db dags/studies/digits.yaml --study old"


def import_(
    url: Annotated[str, typer.Argument(help="The Optuna storage, such as sqlite:///old.db.")],
    file: Annotated[
        Path, typer.Argument(help="A study file whose space the trials' parameters are of.")
    ],
    study: Annotated[
        str | None, typer.Option(help="Name of the study in the storage, if it holds several.")
    ] = None,
    renames: Annotated[
        list[str] | None,
        typer.Option("--rename", help="Rename a parameter: old=new; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copies the completed trials of an Optuna study, from which other studies can warm-start."""
    config = load_study(file)
    request = read_storage(url, config, name=study, renames=parse_renames(renames or []))
    try:
        done = connect().gateway.import_trials(request)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if as_json:
        print_json(done.to_dict())
        return
    for line in import_lines(done, request.source):
        out.print(line, soft_wrap=True)


def read_storage(
    url: str, config: StudyConfig, *, name: str | None, renames: dict[str, str]
) -> ImportRequest:
    """Reads the completed trials of a study in an Optuna storage, which is not changed.

    Args:
        url: The URL of the Optuna storage.
        config: The study file whose objectives and space the trials belong to.
        name: The name of the study in the storage; None for the only study in the storage.
        renames: New names of parameters, by their old names.

    Raises:
        CommandError: The storage cannot be opened, does not have the study, or has several
            studies and no name is given.
    """
    from hpo_ops.samplers.optuna_import import study_names
    from hpo_ops.samplers.warm_start_trials import open_existing_storage, read_source

    try:
        storage = open_existing_storage(url)
        names = study_names(storage)
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            problem = "--study is missing" if name is None else f"there is no study {name!r}"
            raise CommandError(f"{problem}; the storage has: {', '.join(names) or 'none'}")
        directions = [metric.direction for metric in config.objectives]
        source = read_source(storage, name, shown=name, directions=directions)
    except ValueError as error:
        message = str(error).replace("warm_start.storage", "the storage")
        raise CommandError(message.replace("warm_start.study", "the study")) from error
    return ImportRequest(
        config=config.to_dict(),
        source=f"{name} in {_without_password(url)}",
        trials=[
            PastTrial(
                number=trial.number,
                params={renames.get(key, key): value for key, value in trial.params.items()},
                # JSON knows neither inf nor nan.
                values=[value if math.isfinite(value) else None for value in trial.values or ()],
                curve=[
                    (step, value)
                    for step, value in sorted(trial.intermediate_values.items())
                    if math.isfinite(value)
                ],
            )
            for trial in source.trials
            if trial.state.name == "COMPLETE"
        ],
    )


def parse_renames(options: list[str]) -> dict[str, str]:
    """Parses ``["lr=learning_rate"]`` as ``{"lr": "learning_rate"}``.

    Raises:
        CommandError: An option is not of the form ``old=new``.
    """
    renames = {}
    for option in options:
        old, equals, new = option.partition("=")
        if not equals or not old or not new:
            raise CommandError(f"--rename is {option!r}, but must be of the form old=new")
        renames[old] = new
    return renames


def import_lines(done: Imported, source: str) -> list[str]:
    """Returns lines on the imported trials, the trials left out, and the ``warm_start`` to write.

    Args:
        done: The result of the import.
        source: The name of the Optuna study and its storage.
    """
    lines = [f"Imported {done.taken} trials of {source} as run {done.run_id} of {done.study}"]
    how = f"warm_start: {{study: {done.study}, run: {done.run_id}}}"
    return [*lines, *left_out_lines(done.left_out), f"Start a study from them with: {how}"]


def _without_password(url: str) -> str:
    return re.sub(r"://[^/]*@", "://", url).partition("?")[0]
