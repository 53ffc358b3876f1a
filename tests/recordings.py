"""Recorded studies for tests, made by the simulator in the place of a cluster."""

from __future__ import annotations

from hpo_ops.schedulers import Asha
from hpo_ops.simulator import Cluster, Traces, TrialTrace, simulate
from hpo_ops.simulator.traces import SegmentRecord, StudyTerms, TrialRecord


def recorded(
    source: Traces, *, cluster: Cluster, rounds: bool = False, late: float = 3.0
) -> Traces:
    """What a live study of these trials under ASHA would have left behind."""
    scheduler = Asha(max_steps=source.max_steps)
    replay = simulate(source, scheduler, cluster=cluster, rounds=rounds)
    trials = []
    for number, trial in enumerate(replay.study.trials):
        seen = source.trials[number]
        mine = [item for item in replay.intervals if item.trial == number]
        times = [
            entry.time + late
            for entry in replay.entries()
            if entry.trial == number and entry.kind in ("continue", "stop", "pause")
        ]
        trials.append(
            TrialTrace(
                seen.values[: trial.step],
                seen.seconds[: trial.step],
                seen.params,
                record=TrialRecord(
                    number,
                    trial.state,
                    tuple(times),
                    tuple(
                        SegmentRecord(
                            item.start + late, item.end + late, item.from_step, item.to_step, "x"
                        )
                        for item in mine
                    ),
                ),
            )
        )
    terms = StudyTerms(
        run="manual__1",
        scheduler={"name": "asha", "max_steps": source.max_steps},
        slots=cluster.units,
        rounds=rounds,
        trials=len(trials),
        state="ended",
    )
    return Traces("live", source.metric, source.direction, tuple(trials), terms)
