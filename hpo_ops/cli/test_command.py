"""``hpo test``: checks a study's training code on this machine, without Airflow or a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.terminal import Json, err, out, print_json
from hpo_ops.cli.trigger_target import parse_changes
from hpo_ops.config import StudyConfig, load_study
from hpo_ops.core.param_fitting import fit
from hpo_ops.protocol import ParamValue

EPILOG = "Example: hpo test dags/studies/digits.yaml --param lr=0.01"


def try_out(
    study: Annotated[Path, typer.Argument(help="The study file.")],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", help="A hyperparameter as name=value; the others are drawn."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Reports before the trial is paused.")] = 2,
    seconds: Annotated[
        float, typer.Option(min=1, help="Time that each of the three segments gets.")
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Trains a trial for a few steps; checks reports, checkpoint, pause, resume, SIGTERM, stop."""
    config = load_study(study)
    if config.code is None:
        raise CommandError(
            f"{study}: code is missing: `hpo test` runs the code of a folder, not of an image"
        )
    params = draw_params(config, parse_changes(param or []), source=str(study))
    from hpo_ops.runners.local.training_check import TrainingCheck

    shown = ", ".join(f"{name}={value}" for name, value in params.items())
    err.print(f"Trains {config.name} with {shown}", soft_wrap=True)
    checks = TrainingCheck(
        study=config,
        params=params,
        steps=steps,
        limit_seconds=seconds,
        on_line=lambda line: err.print(f"  | {line}", soft_wrap=True),
    ).run()
    if as_json:
        print_json([check.to_dict() for check in checks])
    else:
        for check in checks:
            mark, style = ("ok", "green") if check.is_ok else ("FAILED", "red")
            out.print(f"{mark:>6}", style=style, end="  ")
            out.print(f"{check.name}: {check.text}", soft_wrap=True)
    if not all(check.is_ok for check in checks):
        raise typer.Exit(1)


def draw_params(
    study: StudyConfig, given: dict[str, object], *, source: str
) -> dict[str, ParamValue]:
    """Returns all hyperparameters of a trial: the given ones, and random values for the others.

    The random values are drawn from the study's space with the study's seed.

    Args:
        study: The study.
        given: Values by the hyperparameter's name.
        source: The name of the study file; used in error messages.

    Raises:
        CommandError: A given hyperparameter or its value is not in the space.
    """
    import optuna

    from hpo_ops.samplers.optuna_search import Search

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = Search(
        storage=optuna.storages.InMemoryStorage(),
        name=study.name,
        space=study.space,
        directions=[metric.direction for metric in study.objectives],
        sampler="random",
        options={},
        seed=study.seed,
        enqueue=study.enqueue,
    )
    chosen, problems = fit(study.space, given, is_complete=False)
    if problems:
        raise CommandError(f"{source}: {problems[0]}")
    return search.ask(0, wanted=chosen or None)
