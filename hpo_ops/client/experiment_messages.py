"""The shapes of experiments."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpo_ops.protocol import Message


@dataclass(frozen=True, kw_only=True)
class Repeat(Message):
    """One of the studies of an experiment.

    Attributes:
        number: Which repeat; 0 has the study's own seed.
        state: The study's.
        best: Its best value so far.
        curve: The best value after each trial that has ended, in the order of their ends.
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
    """The repeats of a study that have started.

    Attributes:
        study: Their name.
        run_id: The DAG run of the first, by which the experiment is known.
        wanted: Repeats that there are to be.
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
        """The best value of each repeat that has ended with one."""
        return {
            repeat.number: repeat.best
            for repeat in self.repeats
            if repeat.best is not None and repeat.state == "ended"
        }

    def run_of(self, number: int) -> str:
        """The DAG run of a repeat."""
        return repeat_run(self.run_id, number)


def repeat_run(run_id: str, number: int) -> str:
    """The DAG run of a repeat of an experiment."""
    return run_id if number == 0 else f"{run_id}__repeat_{number}"
