"""Validates a training's reports before they are sent to the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hpo_ops.protocol import Assignment, ProtocolError, Report, ReportReader


class InvalidReportError(ValueError):
    """A report cannot be used; the message says which one, and why."""


class ValidatedReports:
    """The reports of a segment, each validated once, in order.

    Attributes:
        last_step: The step of the last valid report; before the first, that of the checkpoint.
        has_any: Whether there was a valid report.
    """

    def __init__(self, reader: ReportReader, assignment: Assignment) -> None:
        self._reader = reader
        self._metrics = assignment.metrics
        self.last_step = assignment.from_step
        self.has_any = False

    def new(self, at_most: int) -> Iterator[Report]:
        """Yields new reports, up to a number of them; the rest stays on disk.

        Raises:
            InvalidReportError: A line is not a report, or not one that the study can use.
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
