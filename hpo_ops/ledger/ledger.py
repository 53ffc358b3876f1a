"""The ledger's entry point: opens the database, finds studies, and opens transactions."""

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
"""An open connection to the ledger, to be passed on to the ledger's queries."""
_PAGE = 50
MAX_VIEWS = 64
"""Studies whose view a process keeps in memory."""


class UnknownStudyError(LookupError):
    """The study does not exist, or the caller may not see it."""

    @classmethod
    def of_id(cls, study_id: int) -> Self:
        """There is no study of this id."""
        return cls(f"there is no study with the id {study_id}")

    @classmethod
    def of_segment(cls, segment_id: str) -> Self:
        """There is no segment of this id."""
        return cls(f"there is no segment {segment_id}")

    @classmethod
    def of_name(cls, name: str, run_id: str | None = None) -> Self:
        """There is no study of this name, or of this name and DAG run."""
        which = name if run_id is None else f"{name} with the run {run_id}"
        return cls(f"there is no study {which}")


class Ledger:
    """The studies in a PostgreSQL database. May be used from many threads and processes.

    Every method is one transaction of its own. Commands on one study go through `study`, which
    locks the study's row, so that decisions of one study are made one after the other.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._views: OrderedDict[int, LiveView] = OrderedDict()
        self._sampler_locks: dict[int, Lock] = {}
        self.news = StudyNotifier()

    @property
    def url(self) -> str:
        """The database's URL, with its password."""
        return self.engine.url.render_as_string(hide_password=False)

    @classmethod
    def open(cls, url: str) -> Ledger:
        """Opens the ledger at an SQLAlchemy URL and migrates its schema to the newest version."""
        engine = create_engine(url, pool_pre_ping=True, pool_size=20, max_overflow=20)
        migrate(engine)
        return cls(engine)

    @contextmanager
    def connect(self) -> Iterator[LedgerConnection]:
        """A connection for queries. It takes no lock and sees what is committed."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[LedgerConnection]:
        """A transaction for writes that concern no open study; it is committed at its end."""
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
        """Records a new study; the study of a DAG run that has one already stays as it is.

        Args:
            config: The study.
            identity: Its DAG, DAG run and task group.
            owner: The person who triggered the DAG run, where a person did.
            share: DAGs with which it shares its trials.
            capacity: The measured capacity of its pool; None if it was not measured.
            origin: Provenance of its trials, as far as is known.
            archive: Name of its packed code in the store.
            packages: Packages that pip installs for the code.
            experiment: The DAG run of the first repeat, if the study is one of several.
            repeat: Number of the repeat.
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
        """The studies of a name, newest first. Names are not unique; identities are.

        Args:
            name: The name.
            dag_id: Only those of this DAG.
            run_id: Only those of DAG runs with this id, of which each DAG may have one.
        """
        table = _schema.studies
        query = select(table).where(table.c.name == name)
        if dag_id is not None:
            query = query.where(table.c.dag_id == dag_id)
        if run_id is not None:
            query = query.where(table.c.run_id == run_id)
        return self._newest_first(query)

    def find_run(self, identity: StudyIdentity) -> StudyRecord:
        """The study of a DAG run, or of a task group in it.

        Raises:
            UnknownStudyError: There is none.
        """
        with self.engine.connect() as connection:
            row = connection.execute(
                select(_schema.studies).where(_is_identified_by(identity))
            ).one_or_none()
        if row is None:
            raise UnknownStudyError(f"the run {identity.run_id} of {identity.dag_id} has no study")
        return read_record(row)

    def repeats(self, record: StudyRecord) -> list[StudyRecord]:
        """The studies of a study's experiment, by repeat; itself alone where it has none."""
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
        """A study by its id."""
        with self.engine.connect() as connection:
            return read_record(self._row(connection, study_id))

    def recent(self) -> Iterator[StudyRecord]:
        """The studies, newest first, a page at a time."""
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
        """The study's id and the trial's number of a segment."""
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
        """A transaction on a study; waits until no other transaction, of any process, has it.

        May be called from any thread. A thread that holds the transaction of one study must not
        open that of the same study again: it would wait for itself.

        Raises:
            UnknownStudyError: There is no such study.
        """
        try:
            with self.engine.begin() as connection:
                row = self._row(connection, study_id, lock=True)
                record = read_record(row)
                # Only the holder of the row's lock touches the view.
                view = self._views.pop(study_id, None) or LiveView(record.config.goal)
                view.study.goal = record.config.goal
                view.study.slots = record.config.parallelism
                # Read before the lock was there: another may have seen a later time meanwhile.
                view.now = max(view.now, float(row.age))
                session = StudyTransaction(connection, record, view)
                yield session
                self._views[study_id] = view
        except BaseException:
            # The view may hold what was rolled back.
            self._views.pop(study_id, None)
            raise
        if session.history.has_news:
            self.news.tell(study_id)
        while len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)

    @contextmanager
    def sampler_lock(self, study_id: int) -> Iterator[SamplerLock]:
        """The exclusive right to use a study's sampler, among all threads and processes.

        The study's own lock is not held: transactions on the study go on meanwhile. Take this lock
        first and then `study`, never the other way round.
        """
        # A thread that waits for this lock holds no connection: its holder needs two.
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
    """Enters a study's row under a key that no other study has.

    Returns:
        Its id; None where the study of this identity is there already.
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
