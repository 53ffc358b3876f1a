"""A gateway in memory, for whatever talks to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpo_ops.protocol import Checkpoint, Control, Provenance, Report, Result


class FakeGateway:
    """Keeps what it is told; answers by a rule; fails when told to.

    Attributes:
        decide: What it answers, given all reports so far.
        fail: Called before each call; may raise.
    """

    def __init__(self, decide: Callable[[list[Report]], Control] = lambda _: Control()) -> None:
        self.decide = decide
        self.fail: Callable[[], None] = lambda: None
        self.reports: list[Report] = []
        self.posts: list[int] = []
        self.checkpoints: list[Checkpoint] = []
        self.provenance = Provenance()
        self.results: list[Result] = []

    def report(self, reports: Sequence[Report]) -> Control:
        self.fail()
        self.posts.append(len(reports))
        self.reports.extend(reports)
        return self.decide(self.reports)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.fail()
        self.checkpoints.append(checkpoint)

    def describe(self, provenance: Provenance) -> None:
        self.fail()
        self.provenance = provenance.over(self.provenance)

    def finish(self, result: Result) -> None:
        self.fail()
        self.results.append(result)
