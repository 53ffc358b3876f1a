"""Tests a study's training code on this machine, without Airflow, a database or a cluster.

One trial is trained in three segments (uninterrupted executions), with the agent that studies use:

1. A new trial, paused after a few reports. The training code must save a checkpoint and exit.
2. The same trial, resumed, and ended with SIGTERM, as when a node is drained.
3. The same trial, resumed again, and stopped.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpo_ops.checkpoints import Checkpoints, open_store
from hpo_ops.client import SegmentReceipt
from hpo_ops.config import StudyConfig
from hpo_ops.protocol import (
    Action,
    Assignment,
    Checkpoint,
    Control,
    CurveForecast,
    Message,
    Outcome,
    ParamValue,
    Provenance,
    Report,
    SegmentResult,
)
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.segment_with_agent import run_segment

OnLine = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Check(Message):
    """The result of testing one property of the training code.

    Attributes:
        name: The property, such as "resumes from its checkpoint".
        is_ok: Whether the training code has the property.
        text: What was observed and, if the property is missing, how to correct the code.
    """

    name: str
    is_ok: bool
    text: str


@dataclass
class _RecordingGateway:
    """Stands in for the gateway: answers reports with `continue`, and later with `action`.

    Attributes:
        action: The answer once `after_reports` reports were received.
        after_reports: Number of reports after which the answer is `action`.
        on_report: Called once, when `after_reports` reports were received.
        reports: All reports received.
        checkpoints: All checkpoints announced by the agent.
        reached_at: Monotonic time at which `after_reports` reports were received; None before.
    """

    action: Action
    after_reports: int
    on_report: Callable[[], None] = lambda: None
    reports: list[Report] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    reached_at: float | None = None

    def report(self, reports: Sequence[Report]) -> Control:
        self.reports.extend(reports)
        if len(self.reports) < self.after_reports:
            return Control()
        if self.reached_at is None:
            self.reached_at = time.monotonic()
            self.on_report()
        return Control(action=self.action, reason="hpo test asks for it")

    def curve(self) -> list[tuple[int, float]]:
        return []

    def forecast(self, forecast: CurveForecast) -> None:
        """Ignores a forecast; the assignment of this test requests none."""

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)

    def finish(
        self,
        result: SegmentResult,
        reports: Sequence[Report] = (),
        provenance: Provenance | None = None,
    ) -> SegmentReceipt:
        self.reports.extend(reports)
        return SegmentReceipt(result=result)


@dataclass(frozen=True)
class _Seen:
    """What was observed of the training code in one segment.

    Attributes:
        result: How the segment ended, as its agent judged.
        first_step: The step of the first report; None if nothing was reported.
        last_step: The step of the last report; 0 if nothing was reported.
        leave_seconds: Time from the request to exit (a pause, a stop or SIGTERM) until the end of
            the segment; None if the segment ended before that request.
        saved: The segment's last checkpoint; None if the segment saved no checkpoint.
    """

    result: SegmentResult
    first_step: int | None
    last_step: int
    leave_seconds: float | None
    saved: Checkpoint | None


@dataclass(frozen=True, kw_only=True)
class TrainingCheck:
    """Tests the training code of one study with one set of hyperparameters.

    Args:
        study: The study; its runner is ignored, and the code runs as a process of this machine.
        params: The hyperparameters of the trial.
        steps: Number of reports after which the first segment is paused.
        limit_seconds: Time limit of each segment, after which it receives SIGTERM.
        on_line: Called with each line that the training prints.
    """

    study: StudyConfig
    params: Mapping[str, ParamValue]
    steps: int = 2
    limit_seconds: float = 120.0
    on_line: OnLine = lambda line: None

    def run(self) -> list[Check]:
        """Runs the three segments and returns the results of all checks.

        Later segments are skipped if an earlier segment completed the training, or failed a check
        that the later segments depend on.
        """
        with tempfile.TemporaryDirectory(prefix="hpo-test-") as folder:
            found: list[Check] = []
            first = self._segment(Path(folder), Action.PAUSE, from_step=0)
            found += self._judge_reports(first)
            if not found[-1].is_ok or first.result.outcome is Outcome.COMPLETED:
                return found
            found.append(self._judge_leaving("pauses when asked to", first, Outcome.PAUSED))
            found.append(_judge_checkpoint(first))
            if not found[-1].is_ok or first.saved is None:
                return found
            second = self._segment(
                Path(folder), Action.CONTINUE, from_step=first.saved.step, is_ended=True
            )
            found.append(_judge_resumption(second, first.saved.step))
            if not found[-1].is_ok:
                return found
            if second.result.outcome is Outcome.COMPLETED:
                return found
            found.append(
                self._judge_leaving("saves and leaves at SIGTERM", second, Outcome.PREEMPTED)
            )
            saved = second.saved or first.saved
            third = self._segment(Path(folder), Action.STOP, from_step=saved.step, reports=1)
            found.append(self._judge_leaving("stops when asked to", third, Outcome.STOPPED))
            return found

    def _segment(
        self,
        folder: Path,
        action: Action,
        *,
        from_step: int,
        reports: int | None = None,
        is_ended: bool = False,
    ) -> _Seen:
        """Runs one segment of the trial and returns what was observed.

        Args:
            folder: Directory for the workspace and the checkpoint store.
            action: The answer to reports once `reports` reports were received.
            from_step: Step of the checkpoint to resume from; 0 for a new trial.
            reports: Number of reports before the answer `action`; None for the attribute `steps`.
            is_ended: Whether the training receives SIGTERM after its first report.
        """
        runner = ProcessRunner(
            self.study.command,
            Path(self.study.code or "."),
            environment=self.study.env,
            on_line=self.on_line,
        )
        gateway = _RecordingGateway(
            action,
            1 if is_ended else reports or self.steps,
            on_report=runner.terminate if is_ended else lambda: None,
        )
        limit = threading.Timer(self.limit_seconds, runner.terminate)
        limit.daemon = True
        limit.start()
        try:
            end = run_segment(
                self._assignment(from_step),
                root=folder / "hpo",
                runner=runner,
                gateway=gateway,
                checkpoints=Checkpoints(open_store(f"file://{folder}/store"), self.study.name),
            )
        finally:
            limit.cancel()
        reached = gateway.reached_at
        return _Seen(
            result=end.result,
            first_step=gateway.reports[0].step if gateway.reports else None,
            last_step=gateway.reports[-1].step if gateway.reports else 0,
            leave_seconds=None if reached is None else time.monotonic() - reached,
            saved=gateway.checkpoints[-1] if gateway.checkpoints else None,
        )

    def _assignment(self, from_step: int) -> Assignment:
        folds = self.study.folds
        return Assignment(
            study=self.study.name,
            trial=0,
            segment=f"test-{from_step}",
            params=dict(self.params),
            metrics=[metric.name for metric in self.study.objectives],
            from_step=from_step,
            until_step=self.study.create_scheduler().max_steps,
            seed=self.study.seed,
            checkpoint_every=self.study.checkpoints.every,
            grace_seconds=self.study.grace,
            resources={"units": 1.0},
            fold=None if folds is None else 0,
            folds=None if folds is None else self.study.fold_count,
            deterministic=self.study.deterministic,
        )

    def _judge_reports(self, seen: _Seen) -> list[Check]:
        name = "starts and reports"
        names = ", ".join(metric.name for metric in self.study.objectives)
        if seen.result.outcome is Outcome.FAILED:
            return [Check(name=name, is_ok=False, text=seen.result.reason)]
        if seen.first_step is None:
            text = (
                f"no report of {names} within {self.limit_seconds:g} s: call "
                f"trial.report(step, {names.split(',')[0]}=...) after every step (--seconds gives "
                "it more time)"
            )
            return [Check(name=name, is_ok=False, text=text)]
        text = f"{names} reported, first at step {seen.first_step}"
        if seen.result.outcome is Outcome.COMPLETED:
            text += f"; it finished at step {seen.last_step}, so that nothing could be resumed"
        return [Check(name=name, is_ok=True, text=text)]

    def _judge_leaving(self, name: str, seen: _Seen, wanted: Outcome) -> Check:
        if seen.result.outcome is Outcome.COMPLETED:
            text = f"finished at step {seen.last_step} by itself"
            return Check(name=name, is_ok=True, text=text)
        advice = (
            "trial.report saves and leaves when asked to: call it after every step, and keep a "
            f"step shorter than the study's grace period of {self.study.grace:g} s"
        )
        if seen.result.outcome is not wanted:
            text = (
                f"the segment counts as {seen.result.outcome} instead of {wanted} "
                f"({seen.result.reason}); {advice}"
            )
            return Check(name=name, is_ok=False, text=text)
        if seen.leave_seconds is not None and seen.leave_seconds >= self.study.grace:
            return Check(name=name, is_ok=False, text=f"did not leave by itself; {advice}")
        text = f"left at step {seen.last_step}, {seen.leave_seconds or 0:.1f} s after the request"
        return Check(name=name, is_ok=True, text=text)


def _judge_checkpoint(seen: _Seen) -> Check:
    name = "saves checkpoints"
    if seen.saved is None:
        text = (
            "no checkpoint was saved, so that a paused or preempted trial begins again: call "
            "trial.checkpointed(save=..., load=...) before the first step"
        )
        return Check(name=name, is_ok=False, text=text)
    text = f"{seen.saved.bytes:,} bytes in {seen.saved.files} files at step {seen.saved.step}"
    return Check(name=name, is_ok=True, text=text)


def _judge_resumption(seen: _Seen, from_step: int) -> Check:
    name = "resumes from its checkpoint"
    if seen.result.outcome is Outcome.FAILED:
        return Check(name=name, is_ok=False, text=seen.result.reason)
    if seen.first_step is None:
        text = f"it did not report after the checkpoint of step {from_step} was restored"
        return Check(name=name, is_ok=False, text=text)
    if seen.first_step <= from_step:
        text = (
            f"its first report after the checkpoint of step {from_step} is of step "
            f"{seen.first_step}, but must be of a later step: loop over trial.steps()"
        )
        return Check(name=name, is_ok=False, text=text)
    return Check(name=name, is_ok=True, text=f"continued at step {seen.first_step}")
