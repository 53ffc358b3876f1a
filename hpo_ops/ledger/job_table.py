"""Jobs in the ledger: submissions of code and ranges that became studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger._schema import jobs


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job that was submitted.

    Attributes:
        key: The submission's idempotency key; without one, the name identifies the submission
            among those of its user.
        job: The job as JSON.
        code: URI of its code archive.
        user: The person who submitted it.
    """

    key: str | None
    name: str
    dag_id: str
    run_id: str
    job: Mapping[str, object]
    code: str
    user: str

    @property
    def owner(self) -> str:
        """The person who submitted the job."""
        return self.user


_COLUMNS = tuple(jobs.c[name] for name in JobRow.__dataclass_fields__)


def add_job(connection: Connection, row: JobRow) -> None:
    """Enters a job, unless its user has submitted one with the same key or name before."""
    connection.execute(upsert(jobs).values(asdict(row)).on_conflict_do_nothing())


def find_submission(
    connection: Connection, *, user: str, key: str | None, name: str
) -> JobRow | None:
    """Finds the job that a user submitted with a key; without a key, the one of a name."""
    is_it = jobs.c.key == key
    if key is None:
        is_it = and_(jobs.c.key.is_(None), jobs.c.name == name)
    row = connection.execute(select(*_COLUMNS).where(jobs.c.user == user, is_it)).one_or_none()
    return None if row is None else JobRow(**row._mapping)


def list_jobs(connection: Connection, name: str, *, run_id: str | None, user: str) -> list[JobRow]:
    """Lists the jobs of a name: those of a user first, then the newest first.

    Args:
        connection: An open connection to the ledger.
        name: The name, which jobs of several people may have.
        run_id: Only the job of this DAG run; None for all.
        user: The person whose jobs come first.
    """
    query = (
        select(*_COLUMNS)
        .where(jobs.c.name == name)
        .order_by(jobs.c.user != user, jobs.c.at.desc())
    )
    if run_id is not None:
        query = query.where(jobs.c.run_id == run_id)
    return [JobRow(**row._mapping) for row in connection.execute(query)]
