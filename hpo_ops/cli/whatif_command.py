"""``hpo whatif``: replays a recorded study with another policy or another number of slots.

A slot is room for one running trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import typer
from rich.table import Table

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.replay_options import (
    HOUR,
    Allocator,
    Curves,
    Schedulers,
    UnseenRule,
    choose_predictor,
    figure_table,
    name_and_options,
    parse_counts,
    show,
    time_text,
    unseen_note,
    value_errors_reported,
)
from hpo_ops.cli.simulate_command import cluster_note
from hpo_ops.cli.terminal import Json, Run, print_json, track
from hpo_ops.cli.trace_sources import is_trace_file, read_traces, record
from hpo_ops.curves import CurvePredictor
from hpo_ops.schedulers import create_scheduler
from hpo_ops.simulator import Cluster, Replay, Traces
from hpo_ops.simulator import simulate as replay_study
from hpo_ops.simulator.extrapolation import (
    Reliance,
    Unseen,
    fill_unseen,
    full_length_steps,
    reliance_of,
)
from hpo_ops.simulator.policy_comparison import Policy
from hpo_ops.simulator.policy_parsing import parse_policies
from hpo_ops.simulator.recorded_history import History, calibrate, first_start, history_of
from hpo_ops.simulator.traces import StudyTerms

EPILOG = (
    "Examples: hpo whatif digits --scheduler pop --slots 8 · "
    "hpo whatif digits --slots 2,4,8 --json · hpo whatif digits.jsonl.gz -s asha:eta=4,median"
)


@dataclass(frozen=True)
class Line:
    """A row of the table of ``hpo whatif``: a replay with one policy and one number of slots."""

    name: str
    slots: int
    replay: Replay
    reliance: Reliance


def whatif(
    study: Annotated[
        str, typer.Argument(help="Name of a study, or a file that `hpo trace export` wrote.")
    ],
    run_id: Run = None,
    scheduler: Schedulers = None,
    slots: Annotated[
        str | None,
        typer.Option(help="Slots, one number or several: 2,4,8; by default as in the study."),
    ] = None,
    allocator: Allocator = None,
    curves: Curves = None,
    unseen: UnseenRule = Unseen.HOLD,
    as_json: Json = False,
) -> None:
    """Replays a recorded study under another policy, and compares the replay with the real run.

    The first replay has the study's own policy and number of slots, and shows how accurate replays
    are. The learning curves of trials that were stopped early are extrapolated (--unseen); the
    output shows how much of each replay depends on extrapolated values.
    """
    traces = read_traces(study, seed=0) if is_trace_file(study) else record(study, run_id)
    happened, terms = history_of(traces), traces.terms
    if happened is None or terms is None:
        raise CommandError(
            f"{study} has no record of how the study ran: write one with `hpo trace export`"
        )
    with value_errors_reported():
        own = Policy(
            scheduler=create_scheduler(*name_and_options(terms.scheduler)),
            rounds=terms.rounds,
            at_barrier=terms.reproducible,
        )
        last_step = full_length_steps(traces)
        others = {str(terms.scheduler["name"]): own}
        if scheduler:
            others = parse_policies(
                scheduler, max_steps=last_step, allocator=allocator, rounds=terms.rounds
            )
    counts = parse_counts("--slots", slots) if slots else [terms.slots]
    predictor = choose_predictor(curves, seed=0, study_section=terms.curves)
    continued = fill_unseen(traces, unseen, last_step=last_step, predictor=predictor)
    wanted = [("same policy, replayed", own, terms.slots)]
    wanted += [
        (name, policy, count)
        for name, policy in others.items()
        for count in counts
        if scheduler or count != terms.slots
    ]
    cluster = calibrate(traces, Cluster(units=terms.slots))
    lines = []
    with value_errors_reported():
        for name, policy, count in track(wanted, total=len(wanted), what="replays"):
            replay = _replay(continued, policy, count, predictor, cluster)
            lines.append(Line(name, count, replay, reliance_of(continued, replay)))
    notes = [*_notes(traces, terms, lines, unseen), *cluster_note(cluster)]
    if as_json:
        print_json({**_to_json(traces, terms, happened, lines), "notes": notes})
        return
    title = f"{traces.name} {terms.run}: {happened.trials} trials, best {traces.metric} "
    show(f"{title}{happened.best:.6g}", _table(terms, happened, lines), notes)


def _replay(
    continued: Traces, policy: Policy, slots: int, predictor: CurvePredictor, cluster: Cluster
) -> Replay:
    terms, deadline = continued.terms, None
    if terms is not None and terms.deadline_seconds is not None:
        # A study's clock starts before its first segment; a replay's clock starts with it.
        deadline = max(terms.deadline_seconds - first_start(continued), 0.0)
    return replay_study(
        continued,
        policy.scheduler,
        cluster=replace(cluster, units=slots, max_width=slots),
        allocator=policy.allocator,
        predictor=policy.predictor or predictor,
        target=terms.target if terms else None,
        deadline_seconds=deadline,
        rounds=policy.rounds,
        at_barrier=policy.at_barrier,
    )


def _table(terms: StudyTerms, happened: History, lines: list[Line]) -> Table:
    table = figure_table(
        "", "Slots", "Ends after", "To that best", "Best", "GPU-hours", "Use", "Unmeasured"
    )
    table.add_row(
        "what happened",
        str(terms.slots),
        time_text(happened.makespan),
        time_text(happened.time_to_best),
        f"{happened.best:.5g}",
        f"{happened.unit_seconds / HOUR:.3f}",
        f"{happened.utilization:.0%}",
        "",
    )
    for line in lines:
        replay, relied = line.replay, line.reliance
        reached = replay.time_to(happened.best)
        ratio = replay.makespan / happened.makespan if happened.makespan else 0.0
        table.add_row(
            line.name,
            str(line.slots),
            f"{time_text(replay.makespan)} ({ratio:.2f}x)",
            "not reached" if reached is None else time_text(reached),
            f"{replay.best[-1][1]:.5g}" if replay.best else "",
            f"{replay.unit_seconds / HOUR:.3f}",
            f"{replay.utilization:.0%}",
            f"{relied.reports / relied.of:.0%} of reports" if relied.of else "",
        )
    return table


def _notes(traces: Traces, terms: StudyTerms, lines: list[Line], rule: Unseen) -> Iterator[str]:
    yield from unseen_note(traces, rule)
    for line in lines:
        if line.reliance.trials:
            yield (
                f"{line.name} on {line.slots} slots: {len(line.reliance.trials)} trials were "
                f"trained beyond what is recorded: {', '.join(map(str, line.reliance.trials))}"
            )
    if terms.state != "ended":
        yield f"the study was {terms.state or 'not ended'} when it was recorded"
    if terms.silent:
        numbers = ", ".join(map(str, terms.silent))
        yield f"trials without reports are left out: {numbers}"
    yield (
        "every replay has the trials that the sampler proposed in the study, in that order; under "
        "another policy the sampler might have proposed other trials"
    )
    yield "failures, stop.patience and stop.when of the study are not replayed"


def _to_json(
    traces: Traces, terms: StudyTerms, happened: History, lines: list[Line]
) -> dict[str, object]:
    return {
        "study": traces.name,
        "run_id": terms.run,
        "metric": traces.metric,
        "happened": {
            "slots": terms.slots,
            "makespan_seconds": happened.makespan,
            "seconds_to_best": happened.time_to_best,
            "best": happened.best,
            "gpu_hours": happened.unit_seconds / HOUR,
            "utilization": happened.utilization,
        },
        "replays": [
            {
                "policy": line.name,
                "slots": line.slots,
                "makespan_seconds": line.replay.makespan,
                "seconds_to_best": line.replay.time_to(happened.best),
                "best": line.replay.best[-1][1] if line.replay.best else None,
                "gpu_hours": line.replay.unit_seconds / HOUR,
                "utilization": line.replay.utilization,
                "unmeasured_trials": list(line.reliance.trials),
                "unmeasured_reports": line.reliance.reports,
                "reports": line.reliance.of,
            }
            for line in lines
        ],
    }
