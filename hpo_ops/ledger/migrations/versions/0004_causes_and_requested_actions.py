"""Causes of segments' ends, leases of studies, and columns named for what they hold"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

RENAMED_COLUMNS = (
    ("segments", "asked", "requested_action"),
    ("segments", "asked_reason", "requested_reason"),
    ("trials", "asked_at", "queued_at"),
    ("trials", "wanted", "requested_params"),
)
RENAMED_INDEXES = (
    ("unasked_trials", "trials_without_params"),
    ("asking_trials", "queued_trials"),
)


def upgrade() -> None:
    """Fills the new columns from the text and the JSON that programs went by until now."""
    op.add_column("segments", sa.Column("cause", sa.Text(), nullable=True), schema="ledger")
    op.execute(
        "UPDATE ledger.segments SET cause = 'out_of_memory' WHERE reason LIKE 'out of memory%'"
    )
    op.add_column(
        "studies",
        sa.Column("lease", sa.Double(), server_default="1", nullable=False),
        schema="ledger",
    )
    op.execute(
        "UPDATE ledger.studies SET lease = (config #>> '{resources,gpu}')::double precision"
        " WHERE config ->> 'runner' <> 'local'"
        " AND (config #>> '{resources,gpu}')::double precision > 0"
    )
    for table, old, new in RENAMED_COLUMNS:
        op.alter_column(table, old, new_column_name=new, schema="ledger")
    for old, new in RENAMED_INDEXES:
        op.execute(f"ALTER INDEX ledger.{old} RENAME TO {new}")
