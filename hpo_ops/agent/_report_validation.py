"""Validates a training's reports before they are sent to the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hpo_ops.protocol import Assignment, ProtocolError, Report, ReportReader


class InvalidReportError(ValueError):
    """A training's report is invalid; the message gives the reason."""


class ValidatedReports:
    """Reads the reports of a segment in order, and validates each report once.

    Args:
        reader: Reads the reports that the training has written.
        assignment: The segment's assignment: its first step, and the metrics of each report.

    Attributes:
        last_step: The step of the last valid report; before the first valid report, the step of
            the checkpoint from which the segment started.
        has_any: Whether the segment has had a valid report.
    """

    def __init__(self, reader: ReportReader, assignment: Assignment) -> None:
        self._reader = reader
        self._metrics = assignment.metrics
        self.last_step = assignment.from_step
        self.has_any = False

    def new(self, at_most: int) -> Iterator[Report]:
        """Yields at most `at_most` new reports; later reports stay on disk for the next call.

        Raises:
            InvalidReportError: A line is not a report, its step is not greater than the last
                step, or its metrics are not those of the study.
        """
        try:
            for report in islice(self._reader.new(), at_most):
                self._check(report)
                self.last_step = report.step
                self.has_any = True
                yield report
        except ProtocolError as error:
            raise InvalidReportError(f"after step {self.last_step}: {error}") from error

    def _check(self, report: Report) -> None:
        if report.step <= self.last_step:
            raise InvalidReportError(
                f"step {report.step} was reported after step {self.last_step}, "
                "but steps must go up"
            )
        try:
            report.check_metrics(self._metrics)
        except ProtocolError as error:
            raise InvalidReportError(str(error)) from error
