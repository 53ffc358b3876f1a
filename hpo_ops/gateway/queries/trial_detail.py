"""Everything about one trial. Reads only, takes no lock."""

from __future__ import annotations

from sqlalchemy import select

from hpo_ops.client import SegmentDetail, TrialDetail
from hpo_ops.gateway.queries.study_queries import trial_summaries
from hpo_ops.ledger import Ledger, StudyRecord
from hpo_ops.ledger.schema import segments, trials


def trial_detail(ledger: Ledger, record: StudyRecord, number: int) -> TrialDetail:
    """A trial with its seed, its segments and what they were trained with.

    Raises:
        LookupError: The study has no such trial.
    """
    found = [item for item in trial_summaries(ledger, record) if item.trial == number]
    if not found:
        raise LookupError(f"study {record.key} has no trial {number}")
    numbers = [fold.number for fold in found[0].folds] or [number]
    columns = (item.name for item in SegmentDetail.__dataclass_fields__.values())
    with ledger.engine.connect() as connection:
        seed = connection.execute(
            select(trials.c.seed).where(
                trials.c.study_id == record.id, trials.c.number == numbers[0]
            )
        ).scalar_one()
        rows = connection.execute(
            select(*(segments.c[name] for name in columns))
            .where(segments.c.study_id == record.id, segments.c.trial.in_(numbers))
            .order_by(segments.c.at, segments.c.id)
        ).all()
    return TrialDetail(
        summary=found[0],
        seed=seed,
        data_version=record.config.data.version,
        segments=[SegmentDetail.from_dict(dict(row._mapping)) for row in rows],
    )
