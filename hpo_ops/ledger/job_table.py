"""Table of jobs: submissions of training code and hyperparameter ranges, each run as a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, and_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.ledger._schema import jobs


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A submitted job.

    Attributes:
        key: Idempotency key of the submission; None if the user sent no key, in which case the
            user and the job's name identify the submission.
        name: Name of the job, which is also the name of the study.
        dag_id: Id of the DAG that runs the study.
        run_id: Id of the study's DAG run.
        job: The submitted job as JSON.
        code: URI of the archive with the submitted training code.
        user: The person who submitted the job.
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
    """Inserts a job, unless the same user has already submitted it.

    Two submissions of a user are the same if they have the same idempotency key, or the same name
    if they have no key.
    """
    connection.execute(upsert(jobs).values(asdict(row)).on_conflict_do_nothing())


def find_submission(
    connection: Connection, *, user: str, key: str | None, name: str
) -> JobRow | None:
    """Returns the job that a user has already submitted, or None.

    Args:
        connection: An open connection to the ledger.
        user: The person who submitted the job.
        key: Idempotency key of the submission; None finds a job without a key by its name.
        name: Name of the job; ignored if a key is given.
    """
    is_it = jobs.c.key == key
    if key is None:
        is_it = and_(jobs.c.key.is_(None), jobs.c.name == name)
    row = connection.execute(select(*_COLUMNS).where(jobs.c.user == user, is_it)).one_or_none()
    return None if row is None else JobRow(**row._mapping)


def list_jobs(connection: Connection, name: str, *, run_id: str | None, user: str) -> list[JobRow]:
    """Lists the jobs with a given name: jobs of `user` first, and newer jobs before older jobs.

    Args:
        connection: An open connection to the ledger.
        name: Name of the jobs. Jobs of several users may have the same name.
        run_id: Id of the DAG run to which the list is limited; None lists jobs of all DAG runs.
        user: The user whose jobs come first.
    """
    query = (
        select(*_COLUMNS)
        .where(jobs.c.name == name)
        .order_by(jobs.c.user != user, jobs.c.at.desc())
    )
    if run_id is not None:
        query = query.where(jobs.c.run_id == run_id)
    return [JobRow(**row._mapping) for row in connection.execute(query)]
