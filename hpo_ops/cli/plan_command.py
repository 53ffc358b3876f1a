"""``hpo plan``: estimates the time and cost of a study before it starts.

The study is simulated on several draws: each draw is a random set of trials with their learning
curves, which are either recorded or synthetic. A slot is room for one running trial.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.replay_options import (
    HOUR,
    Curves,
    Schedulers,
    Seed,
    StartSeconds,
    UnseenRule,
    check_length,
    choose_predictor,
    figure_table,
    parse_counts,
    show,
    spread_json,
    time_text,
    unreached_note,
    unseen_note,
    value_errors_reported,
    with_range,
)
from hpo_ops.cli.simulate_command import USUAL, cluster_note, with_delays
from hpo_ops.cli.terminal import Json, print_json, track
from hpo_ops.cli.trace_sources import read_traces
from hpo_ops.config import Flow, StudyConfig, load_study
from hpo_ops.core import derive_seed
from hpo_ops.simulator import Cluster, MemoPredictor, Summary, Traces, image_study, summarize
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen, full_length_steps
from hpo_ops.simulator.policy_comparison import Draw, Outcome, Policy, outcome_of, replays
from hpo_ops.simulator.policy_parsing import parse_policies, policy_of

EPILOG = (
    "Examples: hpo plan dags/studies/digits.yaml · "
    "hpo plan dags/studies/digits.yaml --like digits.jsonl.gz --slots 2,4,8 --price 2.5/gpu-hour"
)
USUAL_STEPS = 50
PACE = 60.0
"""The seconds of one step of the synthetic learning curves, unless they are scaled."""


@dataclass(frozen=True)
class Row:
    """A row of the plan: the estimate for one policy and one number of slots."""

    slots: int
    summary: Summary


def plan(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    like: Annotated[
        str | None,
        typer.Option(help="Traces of a similar study: a file that `hpo trace export` wrote."),
    ] = None,
    slots: Annotated[
        str | None,
        typer.Option(
            help="Slots, such as 2,4,8; by default the study's, twice and four times as many."
        ),
    ] = None,
    price: Annotated[
        str | None, typer.Option(help="Price of a GPU-hour, such as 2.5 or 2.5/gpu-hour.")
    ] = None,
    scheduler: Schedulers = None,
    draws: Annotated[
        int, typer.Option(min=2, help="Number of random draws of trials, for the ranges.")
    ] = 25,
    steps: Annotated[
        int | None,
        typer.Option(
            min=2, help="Steps of a full-length trial, if neither study nor traces say so."
        ),
    ] = None,
    step_seconds: Annotated[
        float, typer.Option(min=0.001, help="Seconds of one step of synthetic curves.")
    ] = PACE,
    start_seconds: StartSeconds = None,
    seed: Seed = 0,
    curves: Curves = None,
    unseen: UnseenRule = Unseen.HOLD,
    as_json: Json = False,
) -> None:
    """Estimates a study before it starts: time to the target, GPU-hours, cost.

    The study is simulated with its own scheduler and with alternatives, each on several numbers
    of slots. Each range contains 80 % of the random draws of trials.
    """
    config = load_study(study)
    if config.folds is not None:
        raise CommandError(f"{study} has folds, but only a study without folds can be planned")
    rate = parse_price(price)
    counts = parse_counts("--slots", slots) if slots else _usual_slots(config)
    given = None if like is None else read_traces(like, seed=seed)
    own = replace(policy_of(config), predictor=None)  # all policies share one predictor
    length = (
        own.scheduler.max_steps or steps or (full_length_steps(given) if given else USUAL_STEPS)
    )
    policies = {f"{config.scheduler.name} (this study)": own}
    words = scheduler or [name for name in USUAL.split(",") if name != config.scheduler.name]
    with value_errors_reported():
        is_in_rounds = config.flow is Flow.ROUNDS
        policies |= parse_policies(words, max_steps=length, rounds=is_in_rounds)
    predictor = choose_predictor(curves, seed=seed, study_section=config.to_dict()["curves"])
    cluster = Cluster(
        units=1, start_seconds=start_seconds or 0.0, resume_seconds=start_seconds or 0.0
    )
    if given is not None:
        continued = fill_unseen(
            given, unseen, last_step=full_length_steps(given), predictor=predictor
        )
        made = list(_drawn(config, continued, draws=draws, seed=seed))
        cluster = with_delays(given, cluster, start_seconds)
        notes = [*_notes_on(config, given), *unseen_note(given, unseen)]
        notes += check_length(policies, continued)
    else:
        made = list(_synthetic(config, length, pace=step_seconds, draws=draws, seed=seed))
        notes = [*_warnings(length, step_seconds)]
    rows = _run(config, policies, made, counts=counts, cluster=cluster, predictor=predictor)
    notes += [
        *unreached_note(row.summary for row in rows),
        f"ranges contain 80 % of {draws} draws of {config.trials} trials",
        *cluster_note(cluster),
    ]
    if as_json:
        print_json(_to_json(config, like, rate, rows, notes))
        return
    title = f"{config.name}: {config.trials} trials of up to {length} steps, flow {config.flow}"
    show(title, _table(rows, rate), notes)


def parse_price(text: str | None) -> float | None:
    """Parses ``2.5`` or ``2.5/gpu-hour`` as a price per GPU-hour; returns None for None.

    Raises:
        CommandError: The text is not a price.
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*(?:gpu-)?hour)?\s*", text)
    if found is None:
        raise CommandError(f"--price is {text!r}, but must be like 2.5 or 2.5/gpu-hour")
    return float(found[1])


def _usual_slots(config: StudyConfig) -> list[int]:
    return [config.parallelism, 2 * config.parallelism, 4 * config.parallelism]


def _drawn(config: StudyConfig, continued: Traces, *, draws: int, seed: int) -> Iterator[Draw]:
    """Yields random sets (draws) of recorded trials, drawn with replacement.

    Each draw has as many trials as the study. The target of a draw is the study's target or, if
    the study has none, the mean of the last tenth of the best recorded trial's values.

    Args:
        config: The planned study.
        continued: The recorded trials; learning curves that were cut short have already been
            extended.
        draws: The number of draws.
        seed: The seed of the draws.
    """
    target = config.objective.target
    target = continued.settled_value() if target is None else target
    for number in range(draws):
        yield Draw(continued.resample(config.trials, derive_seed(seed, "draw", number)), target)


def _synthetic(
    config: StudyConfig, steps: int, *, pace: float, draws: int, seed: int
) -> Iterator[Draw]:
    """Yields random sets (draws) of synthetic trials.

    Each draw has as many trials as the study. The target of a draw is the mean of the last tenth
    of its best trial's values.

    Args:
        config: The planned study.
        steps: The number of steps of a full-length trial.
        pace: The duration of one step in seconds.
        draws: The number of draws.
        seed: The seed of the draws.
    """
    for number in range(draws):
        traces = image_study(
            seed=derive_seed(seed, "draw", number), trials=config.trials, steps=max(steps, 2)
        )
        trials = tuple(
            replace(trial, seconds=tuple(second * pace / PACE for second in trial.seconds))
            for trial in traces.trials
        )
        yield Draw(replace(traces, trials=trials), traces.settled_value())


def _warnings(steps: int, pace: float) -> list[str]:
    return [
        "without --like the learning curves are synthetic: they resemble those of small image "
        "classifiers, a third of which learn nothing, and your model's may be quite different. "
        "Read the order of the policies as a hint, and times and costs as orders of magnitude. "
        "For better numbers record a similar study with `hpo trace export` and pass it to --like",
        f"a step takes {pace:g} s (--step-seconds) and a trial has {steps} steps; the target is "
        "the value at which the best trial of each draw settles",
    ]


def _notes_on(config: StudyConfig, given: Traces) -> list[str]:
    notes = [f"curves: {len(given.trials)} trials of {given.name}"]
    if given.direction is not config.objective.direction:
        raise CommandError(
            f"--like: study {given.name} has to {given.direction} {given.metric}, but the planned "
            f"study has to {config.objective.direction} {config.objective.name}"
        )
    if config.objective.target is None:
        notes.append(
            "the study has no target and runs to its end; the time to target is the time to "
            f"{given.settled_value():.6g}, at which the best of these curves settles"
        )
    return notes


def _run(
    config: StudyConfig,
    policies: dict[str, Policy],
    draws: list[Draw],
    *,
    counts: list[int],
    cluster: Cluster,
    predictor: MemoPredictor,
) -> list[Row]:
    found: dict[int, list[Outcome]] = {count: [] for count in counts}

    def all_replays() -> Iterator[None]:
        for count in counts:
            for name, number, replay in replays(
                draws,
                policies,
                cluster=replace(cluster, units=count),
                predictor=predictor,
                deadline_seconds=config.budget.wall,
                stop_at_target=config.objective.target is not None,
            ):
                found[count].append(outcome_of(name, number, replay))
                yield

    total = len(counts) * len(policies) * len(draws)
    with value_errors_reported():
        for _ in track(all_replays(), total=total, what="replays"):
            pass
    by_count = {count: {row.policy: row for row in summarize(found[count])} for count in counts}
    return [Row(count, by_count[count][name]) for name in policies for count in counts]


def _table(rows: list[Row], rate: float | None) -> Table:
    columns = ["Policy", "Slots", "To target", "Reached", "Study ends", "GPU-hours"]
    table = figure_table(*columns, *(["Cost"] if rate is not None else []))
    for row in rows:
        summary = row.summary
        hours = summary.unit_seconds.scaled(1 / HOUR)
        cost = [] if rate is None else [with_range(hours.scaled(rate), _amount)]
        table.add_row(
            summary.policy,
            str(row.slots),
            with_range(summary.seconds, time_text) if summary.reached else "not reached",
            f"{summary.reached / summary.orders:.0%}",
            with_range(summary.makespan, time_text),
            with_range(hours, _amount),
            *cost,
        )
    return table


def _amount(number: float, like: float) -> str:
    return f"{number:.1f}" if like >= 10 else f"{number:.3g}"


def _to_json(
    config: StudyConfig, like: str | None, rate: float | None, rows: list[Row], notes: list[str]
) -> dict[str, object]:
    return {
        "study": config.name,
        "trials": config.trials,
        "curves": "synthetic" if like is None else like,
        "price_per_gpu_hour": rate,
        "plans": [
            {
                "policy": row.summary.policy,
                "slots": row.slots,
                "draws": row.summary.orders,
                "reached": row.summary.reached,
                "seconds_to_target": spread_json(row.summary.seconds),
                "makespan_seconds": spread_json(row.summary.makespan),
                "gpu_hours": spread_json(row.summary.unit_seconds.scaled(1 / HOUR)),
                "cost": None
                if rate is None
                else spread_json(row.summary.unit_seconds.scaled(rate / HOUR)),
            }
            for row in rows
        ],
        "notes": notes,
    }
