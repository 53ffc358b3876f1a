"""Messages about the progress of a study: whether it continues, its best trial, its counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hpo_ops.client._trial_results import Served
from hpo_ops.protocol import Message, ParamValue


class VerdictKind(StrEnum):
    """The possible verdicts on a study: it continues (``go on``), stops, or waits (is paused)."""

    GO_ON = "go on"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True, kw_only=True)
class StudyVerdict(Message):
    """The gateway's verdict on whether a study continues, with the reason.

    Attributes:
        kind: The verdict: the study continues, stops, or waits because it is paused.
        reason: Why the gateway reached this verdict, as a sentence for people.
        seen: Number of the study's trials that have finished.
    """

    kind: VerdictKind
    reason: str
    seen: int = 0


@dataclass(frozen=True, kw_only=True)
class Retraining(Message):
    """The trial that trains the best parameters on all data.

    Attributes:
        trial: Number of the trial; None if nothing is retrained.
        reason: Why the trial was added to the study, or why nothing is retrained.
    """

    trial: int | None = None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Best(Message):
    """The best trial of a study and its best checkpoint.

    Attributes:
        trial: Number of the best trial.
        value: Best value of the objective.
        step: The step at which the trial reached the value.
        params: Hyperparameters of the trial.
        checkpoint_uri: Location of the best checkpoint; None if there is no checkpoint.
        checkpoint_step: The step after which the checkpoint was saved.
        checkpoint_value: Value of the objective at the checkpoint's step.
        checkpoint_digest: Digest of the checkpoint's manifest; None if the agent sent no digest.
        served: Source of the trial's reports, if the score cache served some of them.
        deviation: Sample standard deviation of the folds' values, if the study has folds.
        folds: The value of each fold at the best step; `value` is their mean.
        checkpoint_trial: Trial number in the checkpoint's path, if it differs from `trial`.
        checkpoint_fold: Number of the fold that saved the checkpoint, if the study has folds.
        is_retrained: Whether the checkpoint was trained on all data.
    """

    trial: int
    value: float
    step: int
    params: dict[str, ParamValue]
    checkpoint_uri: str | None = None
    checkpoint_step: int | None = None
    checkpoint_value: float | None = None
    checkpoint_digest: str | None = None
    served: Served | None = None
    deviation: float | None = None
    folds: list[float] = field(default_factory=list)
    checkpoint_trial: int | None = None
    checkpoint_fold: int | None = None
    is_retrained: bool = False


@dataclass(frozen=True, kw_only=True)
class Progress(Message):
    """State, counts and best trial of a study.

    Attributes:
        owner: The person who triggered the study's DAG run; None for a scheduled run.
        runner: Name of the runner that executes the study's trials.
        store: URL of the object store with the study's checkpoints and logs.
        counts: Number of trials by state.
        seconds: Seconds since the study started; for an ended study, its total duration.
        served: Number of trials for which the score cache served some or all reports.
        folds: Number of folds of each trial; None if the study has no folds.
        begun: Number of trials that have started; with folds, the number of started folds.
        retraining: Number of the trial that trains the best parameters on all data; None if the
            study has no such trial.
    """

    id: int
    name: str
    run_id: str
    key: str
    dag_id: str
    state: str
    reason: str
    metric: str
    direction: str
    trials: int
    mapped_trials: int
    counts: dict[str, int]
    seconds: float
    owner: str | None = None
    runner: str = "local"
    store: str = ""
    best: Best | None = None
    served: int = 0
    folds: int | None = None
    begun: int = 0
    retraining: int | None = None
