"""The progress of a study: verdict, best trial, counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hpo_ops.client._trial_results import Served
from hpo_ops.protocol import Message, ParamValue


class VerdictKind(StrEnum):
    """Whether a study continues."""

    GO_ON = "go on"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True, kw_only=True)
class StudyVerdict(Message):
    """Whether a study continues, and why.

    Attributes:
        seen: Trials that have finished.
    """

    kind: VerdictKind
    reason: str
    seen: int = 0


@dataclass(frozen=True, kw_only=True)
class Retraining(Message):
    """The trial that trains the best parameters on all data.

    Attributes:
        trial: Its number; None if nothing is retrained.
        reason: Why this trial, or why none.
    """

    trial: int | None = None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Best(Message):
    """The best trial of a study and its best checkpoint.

    Attributes:
        deviation: Sample standard deviation of the folds' values, if the study has folds.
        folds: The value of each fold at the step; their mean is the value.
        checkpoint_digest: Digest of the checkpoint's manifest, if its agent sent one.
        checkpoint_trial: Trial number in the checkpoint's path, if not the trial's own.
        checkpoint_fold: The fold that saved the checkpoint.
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
    """The progress of a study.

    Attributes:
        owner: The person who triggered its DAG run; None for a scheduled run.
        runner: The runner of its trials.
        store: URL of the store of its checkpoints and logs.
        counts: Number of trials by state.
        seconds: Time since the study started, or how long it took.
        served: Trials that the score cache served, completely or in part.
        folds: Folds of each trial; None without folds.
        begun: Task instances of trials that have started; with folds, one for each fold.
        retraining: Number of the trial that trains the best parameters on all data.
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
