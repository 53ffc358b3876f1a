"""Attacks on the PostgreSQL of a stack by another user of the machine."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest

from hpo_ops.stack._postgres import Postgres
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Started:
    """A server that was started for the first time, below a folder closed to others."""

    server: Postgres
    layout: Layout
    closed: Path
    intrusions: list[str]


@pytest.fixture(scope="module")
def started() -> Iterator[Started]:
    closed = Path(tempfile.mkdtemp(prefix="hpo-pg-"))  # mode 0700
    layout = Layout(closed / ".hpo")
    layout.make()
    server, is_over, intrusions = Postgres(layout, Secrets()), threading.Event(), list[str]()

    def intrude() -> None:
        while not is_over.wait(0.01):
            try:
                psycopg2.connect(host=str(layout.postgres), user="postgres").close()
                intrusions.append("in without a password")
            except psycopg2.OperationalError:
                continue

    intruder = threading.Thread(target=intrude)
    intruder.start()
    try:
        server.start()
        is_over.set()
        intruder.join()
        yield Started(server, layout, closed, intrusions)
    finally:
        is_over.set()
        server.stop()
        shutil.rmtree(closed, ignore_errors=True)


def test_nobody_gets_in_without_a_password_not_even_during_the_set_up(started: Started) -> None:
    assert started.server.is_healthy()
    assert started.intrusions == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's stack has PostgreSQL run by another")
def test_folders_above_the_data_stay_closed_to_reading(started: Started) -> None:
    for folder in (started.closed, started.layout.root):
        assert stat.S_IMODE(folder.stat().st_mode) & ~stat.S_IXOTH == 0o700
    assert stat.S_IMODE(started.layout.postgres.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's stack has PostgreSQL run by another")
def test_the_server_has_none_of_root_s_groups(started: Started) -> None:
    process = started.server.find()

    assert process is not None
    assert 0 not in {*process.uids(), *process.gids()}
