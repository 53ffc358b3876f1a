"""The agent of one segment: between a training's workspace and the gateway."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace

from hpo_ops.agent.checkpoint_upload import Upload, Uploader
from hpo_ops.agent.curve_forecasts import Fitter, Forecasts
from hpo_ops.agent.provenance_facts import Facts
from hpo_ops.agent.report_validation import BadReportError, CheckedReports
from hpo_ops.agent.segment_outcome import TrainingEnd, judge, read_last_line, read_result
from hpo_ops.client import (
    GatewayRefusedError,
    GatewayUnreachableError,
    SegmentGateway,
    SegmentReceipt,
)
from hpo_ops.protocol import (
    Action,
    Assignment,
    Cause,
    Checkpoint,
    Control,
    Outcome,
    Provenance,
    Report,
    ReportReader,
    SegmentResult,
    UnsafeFileError,
    Workspace,
    write_aside,
)

logger = logging.getLogger(__name__)

BATCH = 500
POLL_SECONDS = 0.05
HEARTBEAT_SECONDS = 3.0
MAX_DELAY_SECONDS = 5.0
UNHEARD = "the platform did not take its reports in time: it goes on from its last checkpoint"
REFUSED = "the platform gave this segment to someone else"
NOT_TAKEN = "the platform does not take what it sends"
REFUSALS = (GatewayRefusedError, LookupError, ValueError)
"""Answers that do not change by asking again."""


class Agent:
    """Ships reports and checkpoints, and writes down what the platform wants.

    Only `pump` and `finish` talk to the gateway, from the caller's thread; uploads have a thread
    of their own. Reports that cannot be handed in wait on disk.

    Args:
        workspace: The directory shared with the training.
        assignment: What the training was told.
        gateway: Where reports go and decisions come from.
        upload: Uploads the checkpoint of a step; None keeps checkpoints where they are.
        known: What the runner knows of what the training is made from.
        clock: Seconds that never go back.
        wait: Waits for some seconds.
        finish_seconds: How long `finish` tries to get everything out.
        fitter: Makes forecasts where the assignment asks for some; a child process by default.
    """

    def __init__(
        self,
        workspace: Workspace,
        assignment: Assignment,
        gateway: SegmentGateway,
        *,
        upload: Upload | None = None,
        known: Callable[[], Provenance] = Provenance,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
        finish_seconds: float = 120.0,
        fitter: Fitter | None = None,
    ) -> None:
        self._workspace = workspace
        self._assignment = assignment
        self._gateway = gateway
        self._clock = clock
        self._wait = wait
        self._finish_seconds = finish_seconds
        self._reports = CheckedReports(ReportReader(workspace.reports), assignment)
        self._uploader = None if upload is None else Uploader(upload, workspace.open_checkpoint)
        self._forecasts = Forecasts(assignment, gateway.curve, fitter)
        self._facts = Facts(workspace, known)
        self._batch: list[Report] = []
        self._announcements: list[Checkpoint] = []
        self._control = Control()
        self._failure: str | None = None
        self._refusal: str | None = None
        self._ending: SegmentReceipt | None = None
        self._delay = 0.0
        self._give_up_at = self._hurry_until = math.inf
        self._try_at = clock()
        self._beat_at = self._try_at + HEARTBEAT_SECONDS

    @property
    def control(self) -> Control:
        """What the training is asked to do."""
        return self._control

    @property
    def is_in_a_hurry(self) -> bool:
        """Whether it was given a time by which everything must be out."""
        return self._hurry_until < math.inf

    @property
    def is_refused(self) -> bool:
        """Whether the gateway refused the token: nothing more is sent."""
        return self._refusal is not None

    @property
    def ending(self) -> SegmentReceipt | None:
        """What the gateway made of the segment's end; None where it has not heard of it."""
        return self._ending

    @property
    def unsent(self) -> list[Report]:
        """Reports that the gateway has not heard of."""
        return self._batch

    def pump(self) -> bool:
        """Takes one turn: reads, sends what there is, writes down what comes back.

        Returns:
            Whether more is waiting that could be sent at once.
        """
        self._read()
        self._look_at_checkpoints()
        is_full = len(self._batch) == BATCH
        self._send()
        return is_full and not self._is_held_up

    def run(self, until: Callable[[], bool]) -> None:
        """Pumps until the training has ended."""
        while not until():
            if not self.pump():
                self._wait(POLL_SECONDS)

    def finish(self, exit_code: int | None, *, was_terminated: bool = False) -> SegmentResult:
        """Gets out what is left, judges how the segment ended and tells the gateway.

        A gateway that takes nothing for the time allowed is given up; what it has not heard by
        then, the caller may bring it another way.

        Args:
            exit_code: Exit code of the training, negative for a signal; None if unknown.
            was_terminated: Whether its container was told to go while it was at work. Unless it
                had come to its end, the gateway is not told: who told it to go knows why.
        """
        self._give_up_at = self._clock() + self._finish_seconds
        self._forecasts.close()
        self._read()
        self._look_at_checkpoints()
        if self._is_more_than_one_message:
            self.flush()
        else:
            self._close_uploads()
        result = self._judge(exit_code, was_terminated=was_terminated)
        if was_terminated and result.outcome is Outcome.PREEMPTED:
            self.flush()
        else:
            self._tell(result)
        return result

    def flush(self) -> None:
        """Gets out what is left, as long as the gateway takes something in the time allowed."""
        self._forecasts.close()
        self._give_up_at = self._clock() + self._finish_seconds
        while ((is_more := self.pump()) or self._has_work) and self._clock() < self._end_at:
            if not is_more:
                self._wait_a_little()
        self._close_uploads()

    def _close_uploads(self) -> None:
        if self._uploader is not None:
            if not self._uploader.is_idle:
                logger.warning("the last checkpoint was not uploaded in time")
            self._uploader.close()

    def hurry(self, seconds: float) -> None:
        """Everything must be out in so many seconds, if not earlier; safe in a signal handler."""
        self._hurry_until = min(self._hurry_until, self._clock() + seconds)

    @property
    def _end_at(self) -> float:
        return min(self._give_up_at, self._hurry_until)

    @property
    def _is_held_up(self) -> bool:
        return self.is_refused or self._clock() < self._try_at

    @property
    def _has_reports_waiting(self) -> bool:
        return bool(self._batch or self._announcements) and not self.is_refused

    @property
    def _has_work(self) -> bool:
        is_uploading = self._uploader is not None and not self._uploader.is_idle
        return self._has_reports_waiting or (is_uploading and not self.is_refused)

    @property
    def _is_more_than_one_message(self) -> bool:
        """Whether something is left that cannot go with the segment's result."""
        is_uploading = self._uploader is not None and not self._uploader.is_idle
        return is_uploading or bool(self._announcements) or len(self._batch) >= BATCH

    def _wait_a_little(self) -> None:
        if self._uploader is not None and not self._uploader.is_idle:
            self._uploader.wait_idle(POLL_SECONDS)
        else:
            self._wait(POLL_SECONDS)

    def _read(self) -> None:
        if self._failure is not None or len(self._batch) >= BATCH:
            return
        try:
            for report in self._reports.new(BATCH - len(self._batch)):
                self._batch.append(report)
        except BadReportError as error:
            self._fail(str(error))

    def _look_at_checkpoints(self) -> None:
        try:
            steps = self._workspace.complete_steps()
        except (UnsafeFileError, OSError) as error:
            if self._failure is None:
                self._fail(f"its checkpoints cannot be read: {error}")
            steps = []
        uploading = None
        if self._uploader is not None and not self.is_refused:
            if steps and steps[-1] > self._assignment.from_step:
                self._uploader.offer(steps[-1])
            uploading = self._uploader.uploading
            for settled in self._uploader.settled():
                if isinstance(settled, Checkpoint):
                    self._announcements.append(settled)
                elif self._failure is None:
                    self._fail(str(settled))
        for step in steps[:-1]:
            if step != uploading:
                self._remove_checkpoint(step)

    def _remove_checkpoint(self, step: int) -> None:
        try:
            self._workspace.remove_checkpoint(step)
        except (UnsafeFileError, OSError) as error:
            logger.warning("checkpoint %d was not deleted: %s", step, error)

    def _send(self) -> None:
        now = self._clock()
        is_due = self._batch or now >= self._beat_at
        if self._is_held_up or not (is_due or self._announcements):
            return
        try:
            ready = self._forecasts.ready(self._batch)
            if ready or now >= self._beat_at:
                if ready and self._forecasts.made is not None:
                    self._gateway.forecast(self._forecasts.made)
                answer = self._gateway.report(self._batch[:ready])
                if ready:
                    self._give_up_at = max(self._give_up_at, now + self._finish_seconds)
                self._forecasts.sent(self._batch[:ready])
                del self._batch[:ready]
                self._beat_at = now + HEARTBEAT_SECONDS
                self._obey(answer)
            while self._announcements:
                self._gateway.checkpoint(self._announcements[0])
                del self._announcements[0]
        except GatewayUnreachableError as error:
            self._hold_up(error)
        except REFUSALS as error:
            self._give_up(error)
        else:
            self._delay = 0.0

    def _hold_up(self, error: GatewayUnreachableError) -> None:
        self._delay = min(max(0.1, 2 * self._delay), MAX_DELAY_SECONDS)
        self._try_at = self._clock() + self._delay
        logger.warning("the gateway is away, trying again in %.1f s: %s", self._delay, error)

    def _give_up(self, error: Exception) -> None:
        logger.warning("the gateway refused: %s: %s", type(error).__name__, error)
        is_taken_away = isinstance(error, GatewayRefusedError)
        self._refusal = REFUSED if is_taken_away else f"{NOT_TAKEN}: {error}"
        if self._uploader is not None:
            self._uploader.close()
        self._write_control(Control(action=Action.STOP, reason=self._refusal))

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._write_control(Control(action=Action.STOP, reason=reason))

    def _obey(self, control: Control) -> None:
        if self._failure is None and control != self._control:
            self._write_control(control)

    def _write_control(self, control: Control) -> None:
        self._control = control
        try:
            write_aside(self._workspace.control, control.to_json())
        except OSError as error:
            logger.warning("control.json cannot be written: %s", error)
        logger.info(
            "trial %d is told to %s after step %d: %s",
            self._assignment.trial,
            control.action,
            self._reports.last_step,
            control.reason,
        )

    def _judge(self, exit_code: int | None, *, was_terminated: bool) -> SegmentResult:
        end = TrainingEnd(
            exit_code=exit_code,
            said=read_result(self._workspace.result),
            control=self._control,
            assignment=self._assignment,
            step=self._reports.last_step,
            has_reports=self._reports.has_any,
            last_line=read_last_line(self._workspace.log),
            was_terminated=was_terminated,
        )
        result = judge(end)
        if self._failure is not None:
            return replace(
                result, outcome=Outcome.FAILED, reason=self._failure, cause=Cause.INVALID_REPORT
            )
        if self.is_refused or len(self._batch) >= BATCH:
            reason = self._refusal or UNHEARD
            return replace(
                result, outcome=Outcome.PREEMPTED, reason=reason, cause=Cause.AGENT_LOST
            )
        return result

    def _tell(self, result: SegmentResult) -> None:
        provenance = self._facts.gather()
        while not self.is_refused:
            try:
                ending = self._gateway.finish(result, self._batch, provenance)
            except GatewayUnreachableError as error:
                self._hold_up(error)
            except REFUSALS as error:
                self._give_up(error)
            else:
                self._batch = []
                self._ending = ending
                return
            if self._try_at >= self._end_at:
                logger.warning("the gateway did not hear how the segment ended")
                return
            self._wait(max(0.0, self._try_at - self._clock()))
