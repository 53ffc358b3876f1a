"""The first schema"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.execute(sa.schema.CreateSequence(sa.Sequence("history", schema="ledger")))
    op.create_table(
        "pools",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("is_fixed", sa.Boolean(), server_default="true", nullable=False),
        sa.PrimaryKeyConstraint("name"),
        schema="ledger",
    )
    op.create_table(
        "studies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("config", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("origin", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("archive", sa.Text(), nullable=True),
        sa.Column(
            "packages",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
        sa.Column("experiment", sa.Text(), nullable=True),
        sa.Column("repeat", sa.Integer(), server_default="0", nullable=False),
        sa.Column("retraining", sa.Integer(), nullable=True),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("result", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "run_id"),
        schema="ledger",
    )
    op.create_index("studies_by_run", "studies", ["dag_id", "run_id"], schema="ledger")
    op.create_table(
        "jobs",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dag_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("job", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("key"),
        schema="ledger",
    )
    op.create_index("jobs_of_name", "jobs", ["name", "at"], schema="ledger")
    op.create_table(
        "checkpoints",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("study_id", "trial", "step"),
        schema="ledger",
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        schema="ledger",
    )
    op.create_index(
        "decisions_of_trial",
        "decisions",
        ["study_id", "trial", "id"],
        unique=False,
        schema="ledger",
    )
    op.create_table(
        "events",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("nextval('ledger.history')"),
            nullable=False,
        ),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        schema="ledger",
    )
    op.create_index("events_in_order", "events", ["study_id", "id"], unique=False, schema="ledger")
    op.create_table(
        "forecasts",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("data", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("study_id", "trial"),
        schema="ledger",
    )
    op.create_table(
        "leases",
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("segment_id"),
        schema="ledger",
    )
    op.create_index("leases_of_pool", "leases", ["pool"], unique=False, schema="ledger")
    op.create_table(
        "reports",
        sa.Column(
            "id",
            sa.BigInteger(),
            server_default=sa.text("nextval('ledger.history')"),
            nullable=False,
        ),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("metrics", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("study_id", "trial", "step"),
        schema="ledger",
    )
    op.create_index(
        "reports_in_order", "reports", ["study_id", "id"], unique=False, schema="ledger"
    )
    op.create_table(
        "rounds",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("members", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("collected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("study_id", "number"),
        schema="ledger",
    )
    op.create_table(
        "segments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("from_step", sa.Integer(), nullable=False),
        sa.Column("until_step", sa.Integer(), nullable=True),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.Column("units", sa.Double(), server_default="1", nullable=False),
        sa.Column("provenance", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("asked", sa.Text(), nullable=True),
        sa.Column("asked_reason", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        schema="ledger",
    )
    op.create_index(
        "one_open_segment",
        "segments",
        ["study_id", "trial"],
        unique=True,
        schema="ledger",
        postgresql_where=sa.text("outcome IS NULL"),
    )
    op.create_table(
        "trials",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("params", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("wanted", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("cache_key", sa.Text(), nullable=True),
        sa.Column("served", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("until_step", sa.Integer(), nullable=True),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("preemptions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("step", sa.Integer(), server_default="0", nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("best_step", sa.Integer(), nullable=True),
        sa.Column("metrics", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("violations", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("told", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["study_id"], ["ledger.studies.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("study_id", "number"),
        schema="ledger",
    )
    op.create_index(
        "unasked_trials",
        "trials",
        ["study_id", "number"],
        schema="ledger",
        postgresql_where=sa.text("params IS NULL"),
    )
    op.create_index(
        "untold_trials",
        "trials",
        ["study_id", "number"],
        unique=False,
        schema="ledger",
        postgresql_where=sa.text("NOT told"),
    )
    op.create_index(
        "trials_by_cache_key",
        "trials",
        ["cache_key"],
        unique=False,
        schema="ledger",
        postgresql_where=sa.text("cache_key IS NOT NULL"),
    )
    op.create_index(
        "asking_trials",
        "trials",
        ["study_id"],
        unique=False,
        schema="ledger",
        postgresql_where=sa.text("asked_at IS NOT NULL"),
    )
