"""Digests of checkpoints"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the digest of each checkpoint's manifest; those from before have none."""
    op.add_column("checkpoints", sa.Column("digest", sa.Text(), nullable=True), schema="ledger")
