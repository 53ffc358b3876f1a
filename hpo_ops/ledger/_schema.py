"""Definitions of the ledger's tables, which are in the database schema `ledger`.

Optuna's tables are in the same database, in the schema `public`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

SCHEMA = "ledger"
metadata = MetaData(schema=SCHEMA)

history = Sequence("history", metadata=metadata)
"""Sequence of the ids of both events and reports, which gives them one common order."""


def _now() -> Column[object]:
    return Column(
        "at", DateTime(timezone=True), server_default=func.clock_timestamp(), nullable=False
    )


def _study() -> Column[object]:
    return Column("study_id", ForeignKey("ledger.studies.id", ondelete="CASCADE"), nullable=False)


studies = Table(
    "studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("dag_id", Text, nullable=False),
    Column("task_group", Text, nullable=False, server_default=""),
    Column("key", Text, nullable=False),  # name in the checkpoint store and in Optuna
    Column("owner", Text),  # the person who triggered the DAG run
    Column("share", JSONB, nullable=False, server_default="[]"),  # DAGs that may use its trials
    Column("config", JSON, nullable=False),  # JSON keeps the order of the space
    Column("pool", Text, nullable=False),
    # Amount of the pool that one unit of a trial leases.
    Column("lease", Double, nullable=False, server_default="1"),
    Column("origin", JSON, nullable=False),
    Column("archive", Text),
    Column("packages", JSONB, nullable=False, server_default="[]"),
    Column("experiment", Text),  # the DAG run of the first repeat
    Column("repeat", Integer, nullable=False, server_default="0"),
    Column("retraining", Integer),  # trial that trains the best parameters on all data
    Column("state", Text, nullable=False, server_default="running"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("result", JSONB),
    Column("ended_at", DateTime(timezone=True)),
    _now(),
    UniqueConstraint("dag_id", "run_id", "task_group"),
    Index("studies_by_key", text("lower(key)"), unique=True),  # some file systems ignore case
    Index("studies_by_name", "name", "id"),
)

rounds = Table(
    "rounds",
    metadata,
    _study(),
    Column("number", Integer, nullable=False),
    Column("members", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("collected_at", DateTime(timezone=True)),
    _now(),
    UniqueConstraint("study_id", "number"),
)

trials = Table(
    "trials",
    metadata,
    _study(),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("params", JSON),  # JSON keeps the order of the space
    Column("parent", Integer),
    Column("requested_params", JSON),  # by a scheduler or a user
    Column("seed", BigInteger, nullable=False),
    Column("cache_key", Text),  # identical trials have the same key
    Column("served", JSON),  # source study, trial and step in the score cache
    Column("until_step", Integer),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("preemptions", Integer, nullable=False, server_default="0"),
    Column("step", Integer, nullable=False, server_default="0"),
    Column("value", Double),
    Column("best_step", Integer),
    Column("metrics", JSON),
    Column("violations", JSON),
    Column("reason", Text, nullable=False, server_default=""),
    Column("queued_at", DateTime(timezone=True)),  # last refused request for a lease
    Column("told", Boolean, nullable=False, server_default="false"),  # to the sampler
    Column("ended_at", DateTime(timezone=True)),
    _now(),
    UniqueConstraint("study_id", "number"),
    Index("trials_without_params", "study_id", "number", postgresql_where=text("params IS NULL")),
    Index("untold_trials", "study_id", "number", postgresql_where=text("NOT told")),
    Index("trials_by_cache_key", "cache_key", postgresql_where=text("cache_key IS NOT NULL")),
    Index("queued_trials", "study_id", postgresql_where=text("queued_at IS NOT NULL")),
)

segments = Table(
    "segments",
    metadata,
    Column("id", Text, primary_key=True),
    _study(),
    Column("trial", Integer, nullable=False),
    Column("key", Text, nullable=False),
    Column("from_step", Integer, nullable=False),
    Column("until_step", Integer),
    Column("runner", Text, nullable=False),
    Column("units", Double, nullable=False, server_default="1"),
    Column("provenance", JSON),
    Column("requested_action", Text),
    Column("requested_reason", Text),
    Column("outcome", Text),
    Column("step", Integer),
    Column("reason", Text, nullable=False, server_default=""),
    Column("cause", Text),
    Column("exit_code", Integer),
    Column("ended_at", DateTime(timezone=True)),
    _now(),
    Index(
        "one_open_segment",
        "study_id",
        "trial",
        unique=True,
        postgresql_where=text("outcome IS NULL"),
    ),
)

reports = Table(
    "reports",
    metadata,
    Column("id", BigInteger, history, server_default=history.next_value(), nullable=False),
    _study(),
    Column("trial", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("segment_id", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("metrics", JSONB, nullable=False),
    Column("seconds", Double, nullable=False),
    _now(),
    UniqueConstraint("study_id", "trial", "step"),
    Index("reports_in_order", "study_id", "id"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger, primary_key=True),
    _study(),
    Column("trial", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    _now(),
    Index("decisions_of_trial", "study_id", "trial", "id"),
)

forecasts = Table(
    "forecasts",
    metadata,
    _study(),
    Column("trial", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("data", JSON, nullable=False),
    _now(),
    UniqueConstraint("study_id", "trial"),
)

pools = Table(
    "pools",
    metadata,
    Column("name", Text, primary_key=True),
    Column("capacity", Double, nullable=False),
    Column("is_fixed", Boolean, nullable=False, server_default="true"),
)

leases = Table(
    "leases",
    metadata,
    Column("segment_id", Text, primary_key=True),
    _study(),
    Column("trial", Integer, nullable=False),
    Column("pool", Text, nullable=False),
    Column("amount", Double, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    _now(),
    Index("leases_of_pool", "pool"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    _study(),
    Column("trial", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("segment_id", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("files", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("digest", Text),  # of the manifest; NULL if the agent did not send it
    _now(),
    UniqueConstraint("study_id", "trial", "step"),
)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger, history, server_default=history.next_value(), primary_key=True),
    _study(),
    Column("trial", Integer),
    Column("kind", Text, nullable=False),
    Column("data", JSONB, nullable=False),
    _now(),
    Index("events_in_order", "study_id", "id"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text),  # the Idempotency-Key header; NULL if the user sent none
    Column("name", Text, nullable=False),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("job", JSON, nullable=False),  # JSON keeps the order of the ranges
    Column("code", Text, nullable=False),
    Column("user", Text, nullable=False),
    _now(),
    Index("jobs_of_name", "name", "at"),
    Index("jobs_by_name", "user", "name", unique=True, postgresql_where=text("key IS NULL")),
    Index("jobs_by_key", "user", "key", unique=True, postgresql_where=text("key IS NOT NULL")),
)
