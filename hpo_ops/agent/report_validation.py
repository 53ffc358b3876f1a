"""What the agent asks of a report before it hands it in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hpo_ops.protocol import Assignment, ProtocolError, Report, ReportReader


class BadReportError(ValueError):
    """A report cannot be used; the message says which, and why."""


class CheckedReports:
    """The reports of a segment, each checked once, in order.

    Attributes:
        last_step: The step of the last good report; where the segment began before there is one.
        has_any: Whether there was a good report.
    """

    def __init__(self, reader: ReportReader, assignment: Assignment) -> None:
        self._reader = reader
        self._metrics = assignment.metrics
        self.last_step = assignment.from_step
        self.has_any = False

    def new(self, at_most: int) -> Iterator[Report]:
        """Yields new reports, up to a number of them; the rest waits on disk.

        Raises:
            BadReportError: A line is not a report, or one that a study cannot use.
        """
        try:
            for report in islice(self._reader.new(), at_most):
                self._check(report)
                self.last_step = report.step
                self.has_any = True
                yield report
        except ProtocolError as error:
            raise BadReportError(f"after step {self.last_step}: {error}") from error

    def _check(self, report: Report) -> None:
        if report.step <= self.last_step:
            raise BadReportError(
                f"step {report.step} was reported after step {self.last_step}, "
                "but steps must go up"
            )
        try:
            report.check_metrics(self._metrics)
        except ProtocolError as error:
            raise BadReportError(str(error)) from error
