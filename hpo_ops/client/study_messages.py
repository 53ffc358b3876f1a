"""The shapes that tasks, the CLI and the gateway exchange, besides those of the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from hpo_ops.core import TrialState
from hpo_ops.protocol import Assignment, Message, Metrics, ParamValue, Provenance, SegmentResult


@dataclass(frozen=True, kw_only=True)
class StudyRequest(Message):
    """A study that a DAG run starts.

    Attributes:
        task_group: The task group that is the study; empty where the whole DAG is one study.
        owner: The person who triggered the DAG run; None where nobody did, as for a schedule.
        capacity: What the nodes of its pool have, where someone could look.
        origin: What its trials are made from, as far as is known before they start.
        archive: Name of its packed code in the store, where its trials are pods.
        packages: What pip installs for the code, as its arguments.
        experiment: The DAG run of the first repeat, where it is one of several.
        repeat: Which of them it is.
    """

    config: dict[str, Any]
    dag_id: str
    run_id: str
    task_group: str = ""
    owner: str | None = None
    capacity: float | None = None
    origin: Provenance = field(default_factory=Provenance)
    archive: str | None = None
    packages: list[str] = field(default_factory=list)
    experiment: str | None = None
    repeat: int = 0


@dataclass(frozen=True, kw_only=True)
class StudyHandle(Message):
    """What the tasks of a DAG run know of their study: its identity and its configuration.

    The configuration travels as one value; `hpo_ops.config.read_entered` decodes it. Tasks may
    read every key of it except those that can be changed while a study runs (`CHANGEABLE`), which
    only the gateway knows the current values of.

    Attributes:
        key: The study's name in Optuna and in the checkpoint store.
        config: The study's configuration as JSON text, since XCom does not keep the order of keys.
        archive: Name of its packed code in the store, where its trials are pods.
        packages: What pip installs for the code, as its arguments.
        code_hash: Hash of its code folder when the study started.
        notes: Remarks for the log of `prepare`.
    """

    id: int
    name: str
    run_id: str
    key: str
    config: str
    archive: str | None = None
    packages: list[str] = field(default_factory=list)
    code_hash: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Group(Message):
    """The trials of one round, and why they are these."""

    round: int
    members: list[dict[str, Any]]
    reason: str


class NextActionKind(StrEnum):
    """What a trial's task is to do now."""

    RUN = "run"
    WAIT = "wait"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Served(Message):
    """Where the reports of a trial come from that was not trained, or only from there on.

    Attributes:
        study: The key of the other study, or of the same.
        trial: The trial in it.
        step: The last step of which it has a report from there.
    """

    study: str
    trial: int
    step: int

    def __str__(self) -> str:
        return f"trial {self.trial} of {self.study}, up to step {self.step}"


@dataclass(frozen=True, kw_only=True)
class TrialResult(Message):
    """How a trial stands: what its task hands on by XCom."""

    trial: int
    state: TrialState
    reason: str
    step: int = 0
    value: float | None = None
    best_step: int | None = None
    params: dict[str, ParamValue] = field(default_factory=dict)
    served: Served | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", TrialState(self.state))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        return super().from_dict(_with_served(data))


def _with_served(data: object) -> dict[str, Any]:
    values = dict(data) if isinstance(data, dict) else {}
    if values.get("served"):
        values["served"] = Served.from_dict(values["served"])
    return values


@dataclass(frozen=True, kw_only=True)
class NextAction(Message):
    """The answer to a trial's task that asks what to do now.

    Attributes:
        kind: Run a segment, wait to be woken, or be done.
        reason: Why.
        assignment: The segment to run.
        token: What the segment's agent says who it is with.
        score: How the trial stands, where it is done.
        is_next: It waits and is the next new trial in line: worth a short wait in the worker.
        preemptions: How often the trial's segments were taken from it before.
        ooms: How often it ran out of memory before.
        study: The study, with its configuration.
    """

    kind: NextActionKind
    reason: str
    assignment: Assignment | None = None
    token: str | None = None
    score: TrialResult | None = None
    is_next: bool = False
    preemptions: int = 0
    ooms: int = 0
    study: StudyHandle | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", NextActionKind(self.kind))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = dict(data) if isinstance(data, dict) else {}
        if values.get("assignment"):
            values["assignment"] = Assignment.from_dict(values["assignment"])
        if values.get("study"):
            values["study"] = StudyHandle.from_dict(values["study"])
        if values.get("score"):
            values["score"] = TrialResult.from_dict(values["score"])
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class SegmentReceipt(Message):
    """The gateway's answer to a segment's result.

    Attributes:
        result: The result on record, which may be an earlier one: the first result counts.
        score: How the trial ended, if it has finished with this segment.
    """

    result: SegmentResult
    score: TrialResult | None = None

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = dict(data) if isinstance(data, dict) else {}
        values["result"] = SegmentResult.from_dict(values.get("result"))
        if values.get("score"):
            values["score"] = TrialResult.from_dict(values["score"])
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class Waiting(Message):
    """A trial that waits for its turn, or a whole study (no trial) that waits.

    Attributes:
        study_id: The study.
        trial: The trial, or None for the study as a whole.
        seen: Trials that had ended when the study was last looked at; None waits for its end.
        reason: In an answer: why the wait is over.
        is_over: In an answer: the study is over.
        score: In an answer: how the trial stands, where it will not run any more.
    """

    study_id: int
    trial: int | None = None
    seen: int | None = None
    reason: str = ""
    is_over: bool = False
    score: TrialResult | None = None


class VerdictKind(StrEnum):
    """Whether a study goes on."""

    GO_ON = "go on"
    STOP = "stop"
    WAIT = "wait"


@dataclass(frozen=True, kw_only=True)
class Verdict(Message):
    """Whether a study goes on, and why."""

    kind: VerdictKind
    reason: str
    seen: int = 0
    """Trials that have ended."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", VerdictKind(self.kind))


@dataclass(frozen=True, kw_only=True)
class Retraining(Message):
    """The trial that trains the best one on all data; None and why where there is nothing to."""

    trial: int | None = None
    reason: str


@dataclass(frozen=True, kw_only=True)
class Best(Message):
    """The best trial of a study and its best checkpoint.

    Attributes:
        deviation: Sample deviation of the folds' values, where there are folds.
        folds: The value of each fold at the step; their mean is the value.
        checkpoint_digest: The digest of the checkpoint's manifest, where its agent said it.
        checkpoint_trial: The number under which the checkpoint is kept, if not the trial's.
        checkpoint_fold: The fold whose checkpoint it is.
        is_retrained: The checkpoint was trained on all data instead.
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

    @classmethod
    def from_dict(cls, data: object) -> Self:
        return super().from_dict(_with_served(data))


@dataclass(frozen=True, kw_only=True)
class Progress(Message):
    """How a study stands.

    Attributes:
        owner: The person who triggered its DAG run, where a person did.
        runner: Where its trials run.
        store: Where its checkpoints are, and the logs of its pods.
        served: Trials that the score cache has served, whole or in part.
        folds: Folds of each trial, where it has folds.
        begun: Task instances of trials that there have been: with folds, one for each.
        retraining: Number of the trial that trains the best one on all data.
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

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = dict(data) if isinstance(data, dict) else {}
        if values.get("best"):
            values["best"] = Best.from_dict(values["best"])
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class FoldSummary(Message):
    """A fold of a trial.

    Attributes:
        fold: Which one, 0 and up.
        number: Its own number, which its task and its checkpoints have.
        value: Its value at the trial's best step; the best so far where it has not ended.
    """

    fold: int
    number: int
    state: TrialState
    reason: str
    step: int
    value: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", TrialState(self.state))


@dataclass(frozen=True, kw_only=True)
class TrialSummary(Message):
    """A line of the list of trials.

    Attributes:
        deviation: Sample deviation of the folds that have ended; the value is their mean.
        folds: Its folds, where it has folds.
    """

    trial: int
    state: TrialState
    reason: str
    step: int
    value: float | None
    best_step: int | None
    params: dict[str, ParamValue]
    segments: int
    seconds: float | None
    metrics: Metrics = field(default_factory=dict)
    is_feasible: bool = True
    served: Served | None = None
    deviation: float | None = None
    folds: list[FoldSummary] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", TrialState(self.state))

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = _with_served(data)
        values["folds"] = [FoldSummary.from_dict(item) for item in values.get("folds", [])]
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class PoolSummary(Message):
    """What there is to run on.

    Attributes:
        capacity: What it has; None where nobody knows.
        is_fixed: Whether that was set, rather than counted.
        held: What trials hold of it.
    """

    name: str
    capacity: float | None
    is_fixed: bool
    held: float
