"""Messages about experiments; an experiment is a study that is repeated with several seeds."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class Repeat(Message):
    """One repeat of an experiment: a study with a seed of its own.

    Attributes:
        number: Number of the repeat; repeat 0 has the seed of the study file.
        study_id: Id of the repeat's study in the ledger.
        run_id: DAG run id of the repeat.
        seed: Seed of the repeat's study.
        state: State of the repeat's study.
        best: Best value of the objective so far; None if there is no value yet.
        curve: Best value so far after each finished trial, in the order in which trials finished.
    """

    number: int
    study_id: int
    run_id: str
    seed: int
    state: str
    best: float | None = None
    curve: list[float | None] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Experiment(Message):
    """An experiment: the repeats of a study that have started.

    Attributes:
        study: Name of the study.
        run_id: DAG run id of repeat 0, which identifies the experiment.
        wanted: Configured number of repeats (`repeats` in the study file).
        repeats: The repeats that have started.
    """

    study: str
    dag_id: str
    run_id: str
    metric: str
    direction: str
    wanted: int
    repeats: list[Repeat] = field(default_factory=list)

    @property
    def outcomes(self) -> dict[int, float]:
        """Best values by repeat number, for the repeats that have ended with a value."""
        return {
            repeat.number: repeat.best
            for repeat in self.repeats
            if repeat.best is not None and repeat.state == "ended"
        }

    def run_of(self, number: int) -> str:
        """Returns the DAG run id of a repeat of this experiment."""
        return repeat_run(self.run_id, number)


def repeat_run(run_id: str, number: int) -> str:
    """Returns the DAG run id of a repeat, derived from the DAG run id of repeat 0."""
    return run_id if number == 0 else f"{run_id}__repeat_{number}"
