"""The agent of one segment: passes messages between a training's workspace and the gateway.

A segment is one uninterrupted execution of a trial.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace

from hpo_ops.agent._checkpoint_upload import Upload, Uploader
from hpo_ops.agent._curve_forecasts import Fitter, Forecasts
from hpo_ops.agent._outbox import Outbox
from hpo_ops.agent._provenance_facts import ProvenanceFacts
from hpo_ops.agent._report_validation import InvalidReportError, ValidatedReports
from hpo_ops.agent._segment_outcome import TrainingEnd, judge, read_last_line, read_result
from hpo_ops.client import SegmentGateway, SegmentReceipt
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
    write_atomically,
)

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
UNDELIVERED = "its reports were not delivered in time; it resumes from its last checkpoint"


class Agent:
    """Sends a training's reports, uploads its checkpoints and passes it the requested action.

    Only `pump`, `flush` and `finish` send requests to the gateway, in the caller's thread;
    checkpoints are uploaded in a separate thread. Reports that cannot be sent yet stay on disk.

    Args:
        workspace: The directory shared with the training.
        assignment: The segment's assignment.
        gateway: Receives reports and answers with the requested action.
        upload: Uploads the checkpoint of a step; if None, checkpoints stay in the workspace only.
        known: Returns the runner's part of the provenance; called when the segment has ended.
        clock: Returns monotonic time in seconds.
        wait: Sleeps for the given number of seconds.
        finish_seconds: Time after which `finish` and `flush` give up if the gateway accepts no
            more reports.
        fitter: Computes the forecasts that the assignment requests; a child process by default.
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
        self._clock = clock
        self._wait = wait
        self._finish_seconds = finish_seconds
        self._reports = ValidatedReports(ReportReader(workspace.reports), assignment)
        self._uploader = None if upload is None else Uploader(upload, workspace.open_checkpoint)
        self._forecasts = Forecasts(assignment, gateway.curve, fitter)
        self._outbox = Outbox(gateway, self._forecasts, clock=clock)
        self._facts = ProvenanceFacts(workspace, known)
        self._control = Control()
        self._failure: str | None = None
        self._is_cut_off = False
        self._receipt: SegmentReceipt | None = None
        self._closing_at = self._deadline = math.inf

    @property
    def control(self) -> Control:
        """The action that the training is currently requested to take."""
        return self._control

    @property
    def has_deadline(self) -> bool:
        """Whether `set_deadline` has set a time by which all messages must be delivered."""
        return self._deadline < math.inf

    @property
    def is_refused(self) -> bool:
        """Whether the gateway refused a message, so that the agent sends no more messages."""
        return self._outbox.refusal is not None

    @property
    def receipt(self) -> SegmentReceipt | None:
        """The gateway's answer to the segment's result; None if the result was not delivered."""
        return self._receipt

    @property
    def unsent(self) -> list[Report]:
        """Reports that were read from the workspace and not yet accepted by the gateway."""
        return self._outbox.reports

    def pump(self) -> bool:
        """Reads new reports and checkpoints of the training, and sends the messages that are due.

        The action that the gateway answers is written to the workspace for the training.

        Returns:
            True if the request was full, so that more reports may be waiting on disk, and the
            gateway can be called again at once.
        """
        self._read_reports()
        self._look_at_checkpoints()
        was_full = self._outbox.room == 0
        answer = self._outbox.send()
        if self._outbox.refusal is not None:
            self._cut_off(self._outbox.refusal)
        elif answer is not None and self._failure is None and answer != self._control:
            self._request(answer)
        return was_full and not self._outbox.is_blocked

    def finish(self, exit_code: int | None, *, was_terminated: bool = False) -> SegmentResult:
        """Delivers the remaining messages, determines the segment's result and reports the result.

        If the gateway does not accept the result in time, `receipt` is None, and the caller may
        deliver the returned result in another way.

        Args:
            exit_code: Exit code of the training, negative for a signal; None if unknown.
            was_terminated: Whether the platform terminated the container during the training. A
                result with the outcome "preempted" is then returned but not reported, because
                the caller can find out why the container was terminated.
        """
        self._closing_at = self._clock()
        self._forecasts.close()
        self._read_reports()
        self._look_at_checkpoints()
        if self._is_uploading or self._outbox.has_checkpoints or self._outbox.room == 0:
            self.flush()  # more than one message is needed
        else:
            self._close_uploads()
        result = self._judge(exit_code, was_terminated=was_terminated)
        if was_terminated and result.outcome is Outcome.PREEMPTED:
            self.flush()
        else:
            self._deliver(result)
        return result

    def flush(self) -> None:
        """Delivers all reports and checkpoints that are left.

        Gives up at the deadline, or if the gateway accepts no reports for `finish_seconds`.
        """
        self._forecasts.close()
        self._closing_at = self._clock()
        while ((is_more := self.pump()) or self._has_work) and self._clock() < self._give_up_at:
            if not is_more:
                self._wait_a_little()
        self._close_uploads()

    def set_deadline(self, seconds: float) -> None:
        """Sets the time, `seconds` from now, after which no more messages are delivered.

        May be called in a signal handler. A deadline can only be moved to an earlier time.
        """
        self._deadline = min(self._deadline, self._clock() + seconds)

    @property
    def _give_up_at(self) -> float:
        since = max(self._closing_at, self._outbox.accepted_at)
        return min(since + self._finish_seconds, self._deadline)

    @property
    def _is_uploading(self) -> bool:
        return self._uploader is not None and not self._uploader.is_idle

    @property
    def _has_work(self) -> bool:
        return self._outbox.has_work or (self._is_uploading and not self.is_refused)

    def _close_uploads(self) -> None:
        if self._uploader is not None:
            if not self._uploader.is_idle:
                logger.warning("the last checkpoint was not uploaded in time")
            self._uploader.close()

    def _wait_a_little(self) -> None:
        if self._uploader is not None and not self._uploader.is_idle:
            self._uploader.wait_idle(POLL_SECONDS)
        else:
            self._wait(POLL_SECONDS)

    def _read_reports(self) -> None:
        if self._failure is not None or self._outbox.room == 0:
            return
        try:
            for report in self._reports.new(self._outbox.room):
                self._outbox.reports.append(report)
        except InvalidReportError as error:
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
                    self._outbox.announce(settled)
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

    def _cut_off(self, reason: str) -> None:
        """Ends uploads and requests a stop of the training after the gateway refused a message."""
        if self._is_cut_off:
            return
        self._is_cut_off = True
        if self._uploader is not None:
            self._uploader.close()
        self._request(Control(action=Action.STOP, reason=reason))

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._request(Control(action=Action.STOP, reason=reason))

    def _request(self, control: Control) -> None:
        """Writes the requested action for the training, and logs the action if it is a new one."""
        is_change = control.action is not self._control.action
        self._control = control
        try:
            write_atomically(self._workspace.control, control.to_json())
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._workspace.control.name, error)
        if is_change:
            logger.info(
                "trial %d: %s requested after step %d: %s",
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
        if self.is_refused or self._outbox.room == 0:
            reason = self._outbox.refusal or UNDELIVERED
            return replace(
                result, outcome=Outcome.PREEMPTED, reason=reason, cause=Cause.AGENT_LOST
            )
        return result

    def _deliver(self, result: SegmentResult) -> None:
        provenance = self._facts.gather()
        while self._outbox.refusal is None:
            self._receipt = self._outbox.finish(result, provenance)
            if self._receipt is not None or self._outbox.refusal is not None:
                return
            if self._outbox.retry_at >= self._give_up_at:
                logger.warning("the gateway could not be told how the segment ended")
                return
            self._wait(max(0.0, self._outbox.retry_at - self._clock()))
