"""The shapes of the wire, in files and over HTTP."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hpo_ops.protocol.message import Message, ProtocolError

VERSION = 1
"""Version of this protocol, not of the package; a container and a platform must agree on it."""

OUT_OF_MEMORY = "out of memory"
"""How the reason of a segment begins that the kernel ended for its memory."""
MAX_STEP = 2**31 - 1
MAX_REASON = 4000
MAX_METRICS = 1000
"""Metrics of one report."""
MAX_NAME = 500
"""Characters of a metric's name."""
_DIGEST = re.compile("[0-9a-f]{64}")

ParamValue = bool | int | float | str | None
Metrics = dict[str, float]


class Action(StrEnum):
    """What a decision asks of a running trial."""

    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"
    RESIZE = "resize"


class Outcome(StrEnum):
    """How a segment ended."""

    COMPLETED = "completed"
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED = "failed"
    PREEMPTED = "preempted"


class Cause(StrEnum):
    """Why a segment ended, for programs and filters; the reason beside it is for people.

    A cause that this version does not know is read as `UNKNOWN`, so that agents and gateways of
    different versions understand each other.
    """

    FINISHED = "finished"
    """The training came to its end by itself."""
    REQUESTED = "requested"
    """A decision or the study's end asked the training to pause or to stop."""
    TRAINING_ERROR = "training_error"
    """The training raised an exception or ended with an exit code other than 0."""
    INVALID_REPORT = "invalid_report"
    """The training wrote a report, result or checkpoint that breaks the protocol."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed the training because it used more memory than it was given."""
    NOT_STARTED = "not_started"
    """The training never ran: no capacity in time, no image, or its setup failed."""
    KILLED = "killed"
    """A signal ended the training, and nothing is known of who sent it."""
    EVICTED = "evicted"
    """The platform took the pod or container away: evicted, preempted, drained or deleted."""
    NODE_LOST = "node_lost"
    """The node stopped answering or was restarted."""
    AGENT_LOST = "agent_lost"
    """The agent did not say how the segment ended, or lost its connection to the gateway."""
    TASK_LOST = "task_lost"
    """The Airflow task of the segment, or the worker that ran it, is gone."""
    SERVED_FROM_CACHE = "served_from_cache"
    """Nothing was trained: the score cache had the reports of an identical trial."""
    UNKNOWN = "unknown"
    """Not said, as by agents older than this field."""

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        return cls.UNKNOWN if isinstance(value, str) else None


@dataclass(frozen=True, kw_only=True)
class ForecastOrder(Message):
    """Which forecasts of a trial's learning curve its agent is to make, and how.

    Attributes:
        every: A forecast is due at the first report at or after each multiple of so many steps.
        last_step: The step to forecast to.
        is_maximized: Whether a greater value is better.
        seed: Seed of the trial's forecasts; each one mixes its step in.
        predictor: Short name of the predictor, or ``their.module:Class``.
        options: The predictor's own options.
    """

    every: int
    last_step: int
    is_maximized: bool = True
    seed: int = 0
    predictor: str = "projected"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("every", "last_step"):
            value = getattr(self, name)
            if not _is_step(value) or value < 1:
                raise ProtocolError(f"{name} is {value!r}, but must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class CurveForecast(Message):
    """How a trial's learning curve goes on after a step, as its agent made it out.

    Attributes:
        step: The last step that it goes by.
        steps: Future steps, rising; empty where there is no forecast.
        quantiles: For each of them the quantiles of the score (greater is better).
        note: Why there is no forecast.
    """

    step: int
    steps: list[int] = field(default_factory=list)
    quantiles: list[list[float]] = field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        if not _is_step(self.step):
            raise ProtocolError(f"step is {self.step!r}, but must be a whole number, 0 or more")
        object.__setattr__(self, "note", _plain(self.note))


@dataclass(frozen=True, kw_only=True)
class SavedCheckpoint(Message):
    """A checkpoint that the ledger knows.

    Attributes:
        step: Its step.
        path: Its folder in the study's store.
        digest: The digest of its manifest; None where its agent did not say.
    """

    step: int
    path: str
    digest: str | None = None

    def __post_init__(self) -> None:
        if not _is_step(self.step):
            raise ProtocolError(f"step is {self.step!r}, but must be a whole number, 0 or more")
        if not isinstance(self.path, str):
            raise ProtocolError(f"path is {self.path!r}, but must be text")
        _check_digest(self.digest)


@dataclass(frozen=True, kw_only=True)
class Assignment(Message):
    """What a container is told.

    Attributes:
        study: The study's name.
        trial: The trial's number in its study.
        segment: The id of this run of the trial in one container.
        params: The hyperparameters.
        metrics: Names of the metrics that the study looks at; a bare value means the first.
        from_step: The last step that a checkpoint holds; 0 starts afresh.
        until_step: The last step to train, or None where the training code decides.
        seed: Seed of this trial, the same for each of its segments.
        checkpoint_every: Steps between two checkpoints.
        grace_seconds: Time to save and leave after a pause, a stop or SIGTERM.
        resources: What the container was given, for example ``{"gpu": 1, "cpu": 4}``.
        fold: Cross-validation fold, 0 and up; None without folds, or to train on all data.
        folds: Number of folds, where the study has folds.
        forecasts: Which forecasts the agent is to make; the agent's business only.
        checkpoint_store: Address of the study's checkpoints; the agent's business only.
        restore_from: Where in it the checkpoint to go on from is, if it is another trial's.
        saved: The checkpoints to go on from, newest first, as the ledger knows them; None from a
            gateway that does not say. The agent's business only.
        deterministic: Every step is seeded anew, and torch is to repeat what it does.
        protocol: Version of the protocol.
    """

    study: str
    trial: int
    segment: str
    params: dict[str, ParamValue]
    metrics: list[str]
    from_step: int = 0
    until_step: int | None = None
    seed: int = 0
    checkpoint_every: int = 1
    grace_seconds: float = 30.0
    resources: dict[str, float] = field(default_factory=dict)
    fold: int | None = None
    folds: int | None = None
    forecasts: ForecastOrder | None = None
    checkpoint_store: str | None = None
    restore_from: str | None = None
    saved: list[SavedCheckpoint] | None = None
    deterministic: bool = False
    protocol: int = VERSION

    def __post_init__(self) -> None:
        if isinstance(self.forecasts, dict):  # from JSON
            object.__setattr__(self, "forecasts", ForecastOrder.from_dict(self.forecasts))
        if self.saved is not None:
            saved = [
                item if isinstance(item, SavedCheckpoint) else SavedCheckpoint.from_dict(item)
                for item in self.saved
            ]
            object.__setattr__(self, "saved", saved)
        if self.protocol != VERSION:
            raise ProtocolError(f"protocol is {self.protocol}, but must be {VERSION}")
        if not self.metrics:
            raise ProtocolError("metrics is empty, but must name one metric or more")
        for name in ("trial", "from_step"):
            if not _is_step(getattr(self, name)):
                raise ProtocolError(f"{name} is {getattr(self, name)!r}, but must be 0 or more")
        if self.until_step is not None and not _is_step(self.until_step):
            raise ProtocolError(f"until_step is {self.until_step!r}, but must be 0 or more")
        if not _is_step(self.checkpoint_every) or self.checkpoint_every < 1:
            raise ProtocolError(
                f"checkpoint_every is {self.checkpoint_every!r}, but must be 1 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """One line of ``reports.jsonl``: the metrics after a step and the seconds it took."""

    step: int
    metrics: Metrics
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not _is_step(self.step):
            raise ProtocolError(f"step is {self.step!r}, but must be a whole number, 0 or more")
        if not isinstance(self.metrics, dict) or not self.metrics:
            raise ProtocolError(f"metrics is {self.metrics!r}, but must be an object of numbers")
        if len(self.metrics) > MAX_METRICS:
            raise ProtocolError(
                f"{len(self.metrics)} metrics, but at most {MAX_METRICS} are taken"
            )
        for name, value in self.metrics.items():
            if not _is_number(value):
                raise ProtocolError(f"metric {name} is {value!r}, but must be a number")
            _check_name(name)
        if not _is_number(self.seconds) or not 0 <= self.seconds < math.inf:
            raise ProtocolError(f"seconds is {self.seconds!r}, but must be a number, 0 or more")

    def check_metrics(self, names: Sequence[str]) -> None:
        """Refuses a report that a study of these metrics cannot use.

        Raises:
            ProtocolError: A metric is missing, or not a finite number.
        """
        for name in names:
            if name not in self.metrics:
                given = ", ".join(sorted(self.metrics))
                raise ProtocolError(f"step {self.step}: {name} is missing, found {given}")
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise ProtocolError(
                    f"step {self.step}: {name} is {value}, but must be a finite number"
                )


@dataclass(frozen=True, kw_only=True)
class Control(Message):
    """``control.json``: what the platform wants of the training code, and why."""

    action: Action = Action.CONTINUE
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", Action(self.action))


@dataclass(frozen=True, kw_only=True)
class SegmentResult(Message):
    """How a segment ended, as ``result.json``, its agent or its runner tells it.

    Attributes:
        outcome: What the end means for the trial.
        step: The last step that was trained.
        reason: Why it ended, as a sentence for people. No program reads it.
        exit_code: Exit code of the training, negative for a signal; None if unknown.
        cause: Why it ended, for programs.
    """

    outcome: Outcome
    step: int = 0
    reason: str = ""
    exit_code: int | None = None
    cause: Cause = Cause.UNKNOWN

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", Outcome(self.outcome))
        object.__setattr__(self, "cause", Cause(self.cause))
        object.__setattr__(self, "reason", _plain(self.reason))


@dataclass(frozen=True, kw_only=True)
class Provenance(Message):
    """What a training is made from and runs with, as far as is known.

    Attributes:
        code_hash: Hash of the code folder; None where it is not known, or the image has the code.
        commit: The git commit of the code folder.
        is_dirty: Whether the code folder differs from that commit.
        image: The image, where it runs in a pod.
        image_digest: What that name stood for.
        python: Version of the interpreter.
        packages: Versions of the packages that were imported, by name.
        devices: GPUs that were used.
        resources: What it was given.
    """

    code_hash: str | None = None
    commit: str | None = None
    is_dirty: bool | None = None
    image: str | None = None
    image_digest: str | None = None
    python: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    resources: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("code_hash", "commit", "image", "image_digest", "python"):
            if not isinstance(value := getattr(self, name), (str, type(None))):
                raise ProtocolError(f"{name} is {value!r}, but must be text")
        if not isinstance(self.is_dirty, (bool, type(None))):
            raise ProtocolError(f"is_dirty is {self.is_dirty!r}, but must be true or false")
        found = self.packages
        if not isinstance(found, dict) or not _are_text([*found, *found.values()]):
            raise ProtocolError(f"packages is {found!r}, but must be an object of text")
        if not isinstance(self.devices, list) or not _are_text(self.devices):
            raise ProtocolError(f"devices is {self.devices!r}, but must be a list of text")

    def known(self) -> dict[str, Any]:
        """What is known, as plain data."""
        return {
            name: value for name, value in self.to_dict().items() if value not in (None, {}, [])
        }

    def over(self, other: Provenance) -> Provenance:
        """This one, and what only the other knows."""
        return Provenance.from_dict({**other.known(), **self.known()})


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Message):
    """A whole checkpoint in the store; the agent tells the gateway once its manifest is there.

    Attributes:
        step: Its step.
        uri: Where it is. The gateway knows that by itself and does not go by what an agent says.
        files: Number of its files.
        bytes: Size of all of them.
        digest: SHA-256 of its manifest, in hexadecimal; None from agents that do not say.
    """

    step: int
    uri: str
    files: int
    bytes: int
    digest: str | None = None

    def __post_init__(self) -> None:
        if not _is_step(self.step):
            raise ProtocolError(f"step is {self.step!r}, but must be a whole number, 0 or more")
        if self.files < 0 or self.bytes < 0:
            raise ProtocolError(
                f"files is {self.files} and bytes {self.bytes}, but both must be 0 or more"
            )
        _check_digest(self.digest)


def _check_digest(value: object) -> None:
    if value is None or (isinstance(value, str) and _DIGEST.fullmatch(value)):
        return
    raise ProtocolError(f"digest is {value!r:.100}, but must be 64 hexadecimal digits")


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_STEP


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME:
        raise ProtocolError(
            f"metric {name[:40]!r}… has a name of {len(name)} characters, at most {MAX_NAME} are "
            "taken"
        )
    if "\x00" in name:
        raise ProtocolError(f"metric {name!r} has a NUL in its name, but must not")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ProtocolError(f"metric {name!r} has half a surrogate pair in its name")


def _are_text(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _plain(text: str) -> str:
    """A reason as it can be kept: of a bearable length, without NUL or half a surrogate pair."""
    if not isinstance(text, str):
        raise ProtocolError(f"text was expected, but {text!r:.100} was found")
    whole = text[:MAX_REASON].encode("utf-8", "replace").decode()
    return whole.replace("\x00", "\ufffd")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or abs(value) < 1 << 1023
