"""The entry point of the ledger: opens the database, finds studies and opens transactions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    create_engine,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from hpo_ops.config import StudyConfig
from hpo_ops.ledger import _schema, leases
from hpo_ops.ledger._migrating import migrate
from hpo_ops.ledger._policy_view import EventKind, LiveView
from hpo_ops.ledger._study_notifier import StudyNotifier
from hpo_ops.ledger._study_record import StudyRecord, read_record
from hpo_ops.ledger._study_transaction import StudyTransaction
from hpo_ops.ledger.sampler_lock import SamplerLock
from hpo_ops.ledger.study_identity import StudyIdentity, study_keys
from hpo_ops.protocol import Provenance

LedgerConnection = Connection
"""An open database connection, which callers pass to the ledger's queries."""
_PAGE = 50
"""Number of studies that one query of `_newest_first` reads."""
MAX_VIEWS = 64
"""Maximum number of studies whose policy view a process caches in memory."""


class UnknownStudyError(LookupError):
    """The study does not exist, or the caller may not see it."""

    @classmethod
    def of_id(cls, study_id: int) -> Self:
        """Creates the error for an id that no study has."""
        return cls(f"there is no study with the id {study_id}")

    @classmethod
    def of_segment(cls, segment_id: str) -> Self:
        """Creates the error for an id that no segment has."""
        return cls(f"there is no segment {segment_id}")

    @classmethod
    def of_name(cls, name: str, run_id: str | None = None) -> Self:
        """Creates the error for a name, or a name and DAG run, that no study has."""
        which = name if run_id is None else f"{name} with the run {run_id}"
        return cls(f"there is no study {which}")


class Ledger:
    """All studies in a PostgreSQL database; safe to use from many threads and processes.

    Every method opens its own connection. Changes to one study go through `study`, which locks the
    study's row, so that decisions about one study are made one after the other.

    Attributes:
        engine: SQLAlchemy engine of the database.
        news: Wakes coroutines of this process that wait for a change of a study.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._views: OrderedDict[int, LiveView] = OrderedDict()
        self._sampler_locks: dict[int, Lock] = {}
        self.news = StudyNotifier()

    @property
    def url(self) -> str:
        """The URL of the database, including the password."""
        return self.engine.url.render_as_string(hide_password=False)

    @classmethod
    def open(cls, url: str) -> Ledger:
        """Opens the ledger at an SQLAlchemy URL and migrates its schema to the newest version."""
        engine = create_engine(url, pool_pre_ping=True, pool_size=20, max_overflow=20)
        migrate(engine)
        return cls(engine)

    @contextmanager
    def connect(self) -> Iterator[LedgerConnection]:
        """Opens a connection for read-only queries, which see committed rows and take no lock."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[LedgerConnection]:
        """Opens a transaction for writes without a study lock; commits when the block ends."""
        with self.engine.begin() as connection:
            yield connection

    def start_study(
        self,
        config: StudyConfig,
        *,
        identity: StudyIdentity,
        owner: str | None = None,
        share: Sequence[str] = (),
        capacity: float | None = None,
        origin: Provenance | None = None,
        archive: str | None = None,
        packages: Sequence[str] = (),
        experiment: str | None = None,
        repeat: int = 0,
    ) -> StudyRecord:
        """Inserts a new study, or returns the existing study with the same identity unchanged.

        Args:
            config: Configuration of the study.
            identity: DAG, DAG run and task group of the study.
            owner: The person who triggered the DAG run; None if it was triggered automatically.
            share: Ids of the DAGs with whose studies the study shares its trials.
            capacity: Measured capacity of the study's pool in units (such as GPUs); None if it was
                not measured.
            origin: Known provenance (code, image, packages) of the study's trials.
            archive: Name of the study's code archive in the object store; None without one.
            packages: Packages that pip installs for the study's code.
            experiment: Id of the DAG run of the first repeat; None if the study is not repeated.
            repeat: Number of this repeat within the experiment.

        Raises:
            ValueError: One trial needs more units than the pool has.
        """
        with self.engine.begin() as connection:
            leases.find_capacity(connection, config.pool, capacity)
            if refusal := leases.why_never(connection, config.pool, config.lease):
                raise ValueError(f"{config.name} could never start a trial: {refusal}")
            values = {
                "name": config.name,
                "run_id": identity.run_id,
                "dag_id": identity.dag_id,
                "task_group": identity.task_group,
                "owner": owner,
                "share": list(share),
                "config": config.to_dict(),
                "pool": config.pool,
                "lease": config.lease,
                "origin": (origin or Provenance()).to_dict(),
                "archive": archive,
                "packages": list(packages),
                "experiment": experiment,
                "repeat": repeat,
            }
            entered = enter_row(connection, identity, values)
            if entered is not None:
                connection.execute(
                    _schema.events.insert().values(
                        study_id=entered,
                        kind=EventKind.STUDY_STARTED.value,
                        data={"config": config.to_dict()},
                    )
                )
        return self.find_run(identity)

    def named(
        self, name: str, *, dag_id: str | None = None, run_id: str | None = None
    ) -> Iterator[StudyRecord]:
        """Iterates over the studies with a name, newest first. Names are not unique.

        Args:
            name: Name of the studies.
            dag_id: DAG to which the studies are limited; None for all DAGs.
            run_id: DAG run id to which the studies are limited; None for all DAG runs. DAG runs of
                different DAGs may have the same id.
        """
        table = _schema.studies
        query = select(table).where(table.c.name == name)
        if dag_id is not None:
            query = query.where(table.c.dag_id == dag_id)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        return self._newest_first(query)

    def find_run(self, identity: StudyIdentity) -> StudyRecord:
        """Returns the study of a DAG run, or of a task group within a DAG run.

        Raises:
            UnknownStudyError: No study has this identity.
        """
        with self.engine.connect() as connection:
            row = connection.execute(
                select(_schema.studies).where(_is_identified_by(identity))
            ).one_or_none()
        if row is None:
            raise UnknownStudyError(f"the run {identity.run_id} of {identity.dag_id} has no study")
        return read_record(row)

    def repeats(self, record: StudyRecord) -> list[StudyRecord]:
        """Lists all repeats of a study's experiment, or only the study if it has no experiment."""
        table = _schema.studies
        if record.experiment is None:
            return [record]
        query = (
            select(table)
            .where(
                table.c.dag_id == record.dag_id,
                table.c.task_group == record.task_group,
                table.c.experiment == record.experiment,
            )
            .order_by(table.c.repeat)
        )
        with self.engine.connect() as connection:
            return [read_record(row) for row in connection.execute(query)]

    def get(self, study_id: int) -> StudyRecord:
        """Returns a study by its id.

        Raises:
            UnknownStudyError: No study has this id.
        """
        with self.engine.connect() as connection:
            return read_record(self._row(connection, study_id))

    def recent(self) -> Iterator[StudyRecord]:
        """Iterates over all studies, newest first, and reads them page by page."""
        return self._newest_first(select(_schema.studies))

    def _newest_first(self, query: Select[Any]) -> Iterator[StudyRecord]:
        table = _schema.studies
        before: int | None = None
        while True:
            page = query.order_by(table.c.id.desc()).limit(_PAGE)
            if before is not None:
                page = page.where(table.c.id < before)
            with self.engine.connect() as connection:
                rows = connection.execute(page).all()
            yield from map(read_record, rows)
            if len(rows) < _PAGE:
                return
            before = rows[-1].id

    def study_of_segment(self, segment_id: str) -> tuple[int, int]:
        """Returns the study id and the trial number of a segment.

        Raises:
            UnknownStudyError: No segment has this id.
        """
        table = _schema.segments
        with self.engine.connect() as connection:
            row = connection.execute(
                select(table.c.study_id, table.c.trial).where(table.c.id == segment_id)
            ).one_or_none()
        if row is None:
            raise UnknownStudyError.of_segment(segment_id)
        return row.study_id, row.trial

    @contextmanager
    def study(self, study_id: int) -> Iterator[StudyTransaction]:
        """Opens a transaction on a study and locks the study's row until the block ends.

        The call waits until transactions of other threads and processes have released the lock. A
        thread must not open a second transaction on a study that it has locked: it would deadlock.

        Raises:
            UnknownStudyError: No study has this id.
        """
        try:
            with self.engine.begin() as connection:
                row = self._row(connection, study_id, lock=True)
                record = read_record(row)
                # Only the transaction that holds the row's lock uses the view.
                view = self._views.pop(study_id, None) or LiveView(record.config.goal)
                view.study.goal = record.config.goal
                view.study.slots = record.config.parallelism
                # The age may predate the lock: another transaction may have used a later time.
                view.now = max(view.now, float(row.age))
                session = StudyTransaction(connection, record, view)
                yield session
                self._views[study_id] = view
        except BaseException:
            # The view may contain changes that were rolled back.
            self._views.pop(study_id, None)
            raise
        if session.history.has_news:
            self.news.tell(study_id)
        while len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)

    @contextmanager
    def sampler_lock(self, study_id: int) -> Iterator[SamplerLock]:
        """Locks a study's sampler against all other threads and processes until the block ends.

        The study's row is not locked, so that transactions on the study can run in the meantime. A
        thread that needs both locks must acquire this lock before it calls `study`.
        """
        # A thread waits for the in-process lock without a connection: the holder needs two.
        with self._sampler_locks.setdefault(study_id, Lock()), self.engine.begin() as connection:
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:space, :study)"),
                {"space": 0x61736B, "study": study_id},
            )
            yield SamplerLock(connection, read_record(self._row(connection, study_id)))

    @staticmethod
    def _row(connection: Connection, study_id: int, *, lock: bool = False) -> Row[Any]:
        table = _schema.studies
        age = func.extract("epoch", func.clock_timestamp() - table.c.at).label("age")
        query = select(table, age).where(table.c.id == study_id)
        if lock:
            query = query.with_for_update()
        row = connection.execute(query).one_or_none()
        if row is None:
            raise UnknownStudyError.of_id(study_id)
        return row


def enter_row(
    connection: Connection, identity: StudyIdentity, values: Mapping[str, Any]
) -> int | None:
    """Inserts the row of a study under a key (unique name) that no other study has.

    Args:
        connection: A connection with an open transaction.
        identity: Identity of the study.
        values: Values of all columns of the row except the key.

    Returns:
        The id of the new study, or None if a study with this identity exists.
    """
    for key in study_keys(values["name"], identity):
        entered = connection.execute(
            upsert(_schema.studies)
            .values(**values, key=key)
            .on_conflict_do_nothing()
            .returning(_schema.studies.c.id)
        ).scalar_one_or_none()
        if entered is not None:
            return int(entered)
    return None


def _is_identified_by(identity: StudyIdentity) -> ColumnElement[bool]:
    table = _schema.studies
    return and_(
        table.c.dag_id == identity.dag_id,
        table.c.run_id == identity.run_id,
        table.c.task_group == identity.task_group,
    )
