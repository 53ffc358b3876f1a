"""Everything about one trial: what it was trained with, segment by segment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from hpo_ops.client.study_messages import TrialSummary
from hpo_ops.protocol import Message, Provenance


@dataclass(frozen=True, kw_only=True)
class SegmentDetail(Message):
    """One run of a trial in one container, and what it was trained with.

    Attributes:
        trial: The trial's number; with folds, that of the fold.
    """

    id: str
    runner: str
    from_step: int
    until_step: int | None = None
    step: int | None = None
    outcome: str | None = None
    reason: str = ""
    trial: int = 0
    provenance: Provenance = field(default_factory=Provenance)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = dict(data) if isinstance(data, dict) else {}
        values["provenance"] = Provenance.from_dict(values.get("provenance") or {})
        return super().from_dict(values)


@dataclass(frozen=True, kw_only=True)
class TrialDetail(Message):
    """What it takes to train a trial once more.

    Attributes:
        summary: How it stands.
        seed: Its seed.
        data_version: The version of the data, where the study says it.
        segments: Its segments, oldest first.
    """

    summary: TrialSummary
    seed: int
    data_version: str | None = None
    segments: list[SegmentDetail] = field(default_factory=list)

    @property
    def provenance(self) -> Provenance:
        """What its last training ran with; what that did not say, those before it."""
        found = Provenance()
        for segment in self.segments:
            found = segment.provenance.over(found)
        return found

    @classmethod
    def from_dict(cls, data: object) -> Self:
        values = dict(data) if isinstance(data, dict) else {}
        values["summary"] = TrialSummary.from_dict(values.get("summary"))
        values["segments"] = [SegmentDetail.from_dict(item) for item in values.get("segments", [])]
        return super().from_dict(values)
