"""``hpo simulate``: compares policies by replaying the same trials under each policy.

An order is a sequence in which the trials are replayed. The target is the value of the metric at
which a replay ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.replay_options import (
    HOUR,
    Allocator,
    Curves,
    Schedulers,
    Seed,
    StartSeconds,
    UnseenRule,
    check_length,
    choose_predictor,
    figure_table,
    parse_seconds,
    show,
    spread_json,
    time_text,
    to_target,
    unreached_note,
    unseen_note,
    value_errors_reported,
)
from hpo_ops.cli.simulate_plots import draw_plots, machines_around
from hpo_ops.cli.terminal import Json, print_json, track
from hpo_ops.cli.trace_sources import read_traces
from hpo_ops.simulator import Cluster, MemoPredictor, Replay, Traces, oracle_seconds, summarize
from hpo_ops.simulator.extrapolation import Unseen, fill_unseen, full_length_steps
from hpo_ops.simulator.policy_comparison import Outcome, Policy, orders_of, outcome_of, replays
from hpo_ops.simulator.policy_parsing import parse_policies
from hpo_ops.simulator.recorded_history import calibrate

EPILOG = (
    "Examples: hpo simulate image · "
    "hpo simulate image:trials=50 -s asha:eta=4,pop,default --slots 8 --plots plots · "
    "hpo simulate digits.jsonl.gz -s dags/studies/digits.yaml,median --deadline 30m --json"
)
USUAL = "default,asha,hyperband,median"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The inputs of a simulation.

    Attributes:
        traces: The trials; learning curves that were cut short have already been extended.
        policies: The policies to compare, by name.
        cluster: The simulated machines and their delays.
        target: The value of the metric at which a replay ends; None for no target.
        deadline_seconds: The simulated time at which a replay ends; None for no deadline.
        orders: The number of random orders in which the trials are replayed.
        seed: The seed of the random orders.
    """

    traces: Traces
    policies: dict[str, Policy]
    cluster: Cluster
    target: float | None
    deadline_seconds: float | None
    orders: int
    seed: int

    def replays(
        self, predictor: MemoPredictor, cluster: Cluster, what: str
    ) -> Iterator[tuple[str, int, Replay]]:
        """Replays the trials in every order under every policy, and prints the progress.

        Args:
            predictor: The predictor of learning curves.
            cluster: The simulated machines, which may differ from the setting's cluster.
            what: The label of the printed progress.

        Returns:
            An iterator with one tuple for each replay: the policy's name, the number of the order,
            and the replay's result.
        """
        draws = orders_of(self.traces, self.orders, seed=self.seed, target=self.target)
        made = replays(
            draws,
            self.policies,
            cluster=cluster,
            predictor=predictor,
            deadline_seconds=self.deadline_seconds,
        )
        return track(made, total=self.orders * len(self.policies), what=what)


def simulate(
    traces: Annotated[
        str,
        typer.Argument(
            help="A file of traces, or synthetic curves: image, game, slow, uneven, with options "
            "such as image:trials=50,steps=60,seed=3."
        ),
    ],
    scheduler: Schedulers = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots, each with one GPU.")] = 4,
    orders: Annotated[
        int,
        typer.Option(min=1, help="Random orders of the trials; the first is the given one."),
    ] = 25,
    allocator: Allocator = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Value of the metric at which a study ends, or none; by default the recorded "
            "study's, or the value at which the best trial settles."
        ),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Time at which a study is ended, such as 30m or 2h.")
    ] = None,
    is_in_rounds: Annotated[
        bool,
        typer.Option(
            "--rounds/--rolling", help="With a barrier between rounds, as in flow: rounds."
        ),
    ] = False,
    seed: Seed = 0,
    curves: Curves = None,
    unseen: UnseenRule = Unseen.HOLD,
    start_seconds: StartSeconds = None,
    max_width: Annotated[
        int | None,
        typer.Option(min=1, help="Most GPUs for one trial, for allocators; all by default."),
    ] = None,
    max_share: Annotated[
        int, typer.Option(min=1, help="Most trials on one GPU, for allocators.")
    ] = 1,
    plots: Annotated[
        Path | None, typer.Option(help="Folder for plots; needs the extra plots.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replays trials under several policies and compares the policies' times to the target.

    Nothing is trained: values and times come from traces. The policies are the same objects as
    in live studies.
    """
    given = read_traces(traces, seed=seed)
    last_step = full_length_steps(given)
    with value_errors_reported():
        policies = parse_policies(
            scheduler or [USUAL],
            max_steps=given.max_steps,
            allocator=allocator,
            rounds=is_in_rounds,
        )
    if plots is not None:
        machines_around(slots)  # fails now, not after the replays, if matplotlib is missing
    recorded = None if given.terms is None else given.terms.curves
    predictor = choose_predictor(curves, seed=seed, study_section=recorded)
    continued = fill_unseen(given, unseen, last_step=last_step, predictor=predictor)
    cluster = Cluster(units=slots, max_width=max_width or slots, max_share=max_share)
    setting = Setting(
        traces=continued,
        policies=policies,
        cluster=with_delays(given, cluster, start_seconds),
        target=choose_target(given, target),
        deadline_seconds=parse_seconds("--deadline", deadline),
        orders=orders,
        seed=seed,
    )
    notes = [
        *target_note(given, setting.target, target),
        *check_length(policies, continued),
        *unseen_note(given, unseen),
        *cluster_note(setting.cluster),
    ]
    outcomes: list[Outcome] = []
    firsts: dict[str, Replay] = {}
    with value_errors_reported():
        for name, order, replay in setting.replays(predictor, setting.cluster, "replays"):
            firsts.setdefault(name, replay)
            outcomes.append(outcome_of(name, order, replay))
    notes += unreached_note(summarize(outcomes)) if setting.target is not None else []
    drawn = draw_plots(setting, outcomes, firsts, predictor, plots) if plots else []
    if as_json:
        print_json({**_to_json(setting, outcomes), "notes": notes, "plots": drawn})
        return
    title = (
        f"{given.name}: {len(continued.trials)} trials of up to {continued.max_steps} steps, "
        f"{slots} slots, {orders} orders"
    )
    show(title, _table(setting, outcomes), [*notes, *(f"plot: {path}" for path in drawn)])


def choose_target(traces: Traces, text: str | None) -> float | None:
    """Returns the target (the value of the metric at which a replay ends), or None for no target.

    Args:
        traces: The recorded or synthetic trials.
        text: The value of ``--target``: a number, or ``none`` for no target. If the option is not
            given (None), the target is that of the recorded study or, if the study has none, the
            mean of the last tenth of the best trial's values.

    Raises:
        CommandError: The text is neither a number nor ``none``.
    """
    if text is None:
        if traces.terms is not None and traces.terms.target is not None:
            return traces.terms.target
        return traces.settled_value()
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise CommandError(f"--target is {text!r}, but must be a number, or none") from error


def with_delays(traces: Traces, cluster: Cluster, start_seconds: float | None) -> Cluster:
    """Returns a copy of a simulated cluster with delays for starting and resuming trials.

    Args:
        traces: The recorded or synthetic trials.
        cluster: The simulated cluster.
        start_seconds: The delay of both in seconds; None for the delays that were recorded with
            the traces or, if there are none, the cluster's own.
    """
    if start_seconds is None:
        return calibrate(traces, cluster)
    return replace(cluster, start_seconds=start_seconds, resume_seconds=start_seconds)


def target_note(traces: Traces, target: float | None, text: str | None) -> list[str]:
    """Returns a list with one note on where the target comes from, or that there is none.

    The list is empty if the user has given a number as the target.

    Args:
        traces: The recorded or synthetic trials.
        target: The target; None for no target.
        text: The value of ``--target``; None if the option is not given.
    """
    if target is None:
        return ["no target: every study runs to its end, and the time of its end is shown"]
    if text is not None:
        return []
    if traces.terms is not None and traces.terms.target is not None:
        return [f"target {target:.6g}, as in the recorded study"]
    return [
        f"target {target:.6g}: the value at which the best of these trials settles "
        "(choose another with --target)"
    ]


def cluster_note(cluster: Cluster) -> list[str]:
    """Returns a list with one note on the delays that the replays assume."""
    return [
        f"assumed delays: {cluster.start_seconds:.3g} s to start a trial, "
        f"{cluster.resume_seconds:.3g} s to resume it, {cluster.turnover_seconds:.3g} s between "
        "two trials in a slot; GPU-hours count one GPU for each slot"
    ]


def _table(setting: Setting, outcomes: list[Outcome]) -> Table:
    deadline = setting.deadline_seconds
    best_at = "Best at end" if deadline is None else f"Best at {time_text(deadline)}"
    table = figure_table(
        "Policy", "To target", "Reached", best_at, "Ends after", "Use", "GPU-hours", "Trials"
    )
    for row in summarize(outcomes):
        table.add_row(
            row.policy,
            to_target(row),
            f"{row.reached}/{row.orders}",
            "" if row.best is None else f"{row.best.mean:.5g}",
            time_text(row.makespan.mean),
            f"{row.utilization.mean:.0%}",
            f"{row.unit_seconds.mean / HOUR:.2f}",
            f"{row.trials.mean:.1f}",
        )
    oracle = _oracle(setting)
    if oracle is not None:
        table.add_row("oracle", time_text(oracle), "", "", "", "", f"{oracle / HOUR:.2f}", "1")
    return table


def _oracle(setting: Setting) -> float | None:
    if setting.target is None:
        return None
    return oracle_seconds(setting.traces, setting.target, cluster=setting.cluster)


def _to_json(setting: Setting, outcomes: list[Outcome]) -> dict[str, object]:
    cluster = setting.cluster
    return {
        "traces": setting.traces.name,
        "metric": setting.traces.metric,
        "direction": setting.traces.direction,
        "trials": len(setting.traces.trials),
        "target": setting.target,
        "deadline_seconds": setting.deadline_seconds,
        "slots": cluster.units,
        "start_seconds": cluster.start_seconds,
        "resume_seconds": cluster.resume_seconds,
        "turnover_seconds": cluster.turnover_seconds,
        "orders": setting.orders,
        "seed": setting.seed,
        "oracle_seconds": _oracle(setting),
        "policies": [
            {
                "policy": row.policy,
                "reached": row.reached,
                "seconds_to_target": spread_json(row.seconds),
                "makespan_seconds": spread_json(row.makespan),
                "best": spread_json(row.best),
                "utilization": spread_json(row.utilization),
                "gpu_hours": spread_json(row.unit_seconds.scaled(1 / HOUR)),
                "trials": spread_json(row.trials),
            }
            for row in summarize(outcomes)
        ],
    }
