"""Studies are told apart by DAG, DAG run and task group; studies and jobs have owners"""

import hashlib
import re

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

studies = sa.table(
    "studies",
    sa.column("id", sa.Integer),
    sa.column("name", sa.Text),
    sa.column("dag_id", sa.Text),
    sa.column("run_id", sa.Text),
    sa.column("task_group", sa.Text),
    sa.column("key", sa.Text),
    schema="ledger",
)


def upgrade() -> None:
    """Fills the new columns from what is known of old studies, then makes them unique."""
    for column in (
        sa.Column("task_group", sa.Text(), server_default="", nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column(
            "share",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
        ),
    ):
        op.add_column("studies", column, schema="ledger")
    _fill_studies()
    op.alter_column("studies", "key", nullable=False, schema="ledger")
    op.drop_constraint("studies_name_run_id_key", "studies", schema="ledger")
    op.drop_index("studies_by_run", "studies", schema="ledger")
    op.create_unique_constraint(
        None, "studies", ["dag_id", "run_id", "task_group"], schema="ledger"
    )
    op.create_index(
        "studies_by_key", "studies", [sa.text("lower(key)")], unique=True, schema="ledger"
    )
    op.create_index("studies_by_name", "studies", ["name", "id"], schema="ledger")
    _change_jobs()


def _fill_studies() -> None:
    """Old studies keep the key that they had; of two with one DAG run the newer is the run's."""
    connection = op.get_bind()
    keys: set[str] = set()
    runs: set[tuple[str, str]] = set()
    rows = connection.execute(sa.select(studies).order_by(studies.c.id.desc())).all()
    for row in rows:
        key = _old_key(row.name, row.run_id)
        if key.lower() in keys:
            key = f"{key}-{row.id}"
        keys.add(key.lower())
        task_group = f"superseded-{row.id}" if (row.dag_id, row.run_id) in runs else ""
        runs.add((row.dag_id, row.run_id))
        connection.execute(
            sa.update(studies).where(studies.c.id == row.id).values(key=key, task_group=task_group)
        )
    op.execute(
        'UPDATE ledger.studies SET owner = jobs."user" FROM ledger.jobs'
        " WHERE jobs.dag_id = studies.dag_id AND jobs.run_id = studies.run_id"
    )


def _old_key(name: str, run_id: str) -> str:
    """A study's key as it was made of its name and its run id."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", run_id)
    if plain != run_id:
        plain += f"-{hashlib.sha256(run_id.encode()).hexdigest()[:6]}"
    return f"{name}/{plain}"


def _change_jobs() -> None:
    """Idempotency keys and names are unique apart from each other, and for each owner."""
    op.drop_constraint("jobs_pkey", "jobs", schema="ledger")
    op.execute("ALTER TABLE ledger.jobs ADD COLUMN id SERIAL PRIMARY KEY")
    op.alter_column("jobs", "key", nullable=True, schema="ledger")
    op.execute("UPDATE ledger.jobs SET key = NULL WHERE key = name")
    for name, column, where in (
        ("jobs_by_name", "name", "key IS NULL"),
        ("jobs_by_key", "key", "key IS NOT NULL"),
    ):
        op.create_index(
            name,
            "jobs",
            ["user", column],
            unique=True,
            postgresql_where=sa.text(where),
            schema="ledger",
        )
