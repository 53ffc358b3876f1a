"""Schema changes: migrations and metadata are the same, and migrating is safe to repeat."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect

from hpo_ops.ledger.migrate import migrate
from hpo_ops.ledger.schema import SCHEMA, metadata


def differences(url: str) -> list[Any]:
    """What the database has otherwise than the metadata."""
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "version_table_schema": SCHEMA,
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
            },
        )
        found = compare_metadata(context, metadata)
    engine.dispose()
    return list(found)


def test_migrations_make_what_the_metadata_says(empty_database: str) -> None:
    assert differences(empty_database)  # an empty database is not it
    engine = create_engine(empty_database)
    migrate(engine)
    engine.dispose()
    assert differences(empty_database) == []


def test_migrating_again_changes_nothing(empty_database: str) -> None:
    engine = create_engine(empty_database)
    migrate(engine)
    migrate(engine)
    engine.dispose()
    assert differences(empty_database) == []


def test_several_may_migrate_at_once(empty_database: str) -> None:
    def open_and_migrate(_: int) -> None:
        engine = create_engine(empty_database)
        migrate(engine)
        engine.dispose()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(open_and_migrate, range(6)))
    assert differences(empty_database) == []


def test_the_ledger_leaves_the_public_schema_to_optuna(empty_database: str) -> None:
    engine = create_engine(empty_database)
    migrate(engine)
    assert inspect(engine).get_table_names(schema="public") == []
    assert "events" in inspect(engine).get_table_names(schema=SCHEMA)
    engine.dispose()
