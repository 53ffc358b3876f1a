"""Alembic's entry: runs the migrations on the connection that the ledger hands over."""

from alembic import context

from hpo_ops.ledger._schema import SCHEMA, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
