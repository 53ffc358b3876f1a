"""Schema changes: migrations and metadata are the same, and migrating is safe to repeat."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, select, text

import hpo_ops.ledger._migrating
from hpo_ops.ledger._migrating import migrate
from hpo_ops.ledger._schema import SCHEMA, metadata, segments, trials
from hpo_ops.ledger.rows import read_segment, read_trial
from hpo_ops.protocol import Action, Cause


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


def _migrate_to(engine: Engine, revision: str) -> None:
    """Brings a database to an older schema."""
    config = Config()
    folder = Path(hpo_ops.ledger._migrating.__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder))
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def test_old_studies_keep_their_keys_and_old_jobs_their_owners(empty_database: str) -> None:
    engine = create_engine(empty_database)
    _migrate_to(engine, "0001")
    study = "INSERT INTO ledger.studies (name, run_id, dag_id, config, pool, origin) VALUES "
    job = (
        'INSERT INTO ledger.jobs (key, name, dag_id, run_id, job, code, "user") VALUES '
        "(:key, 'model', 'hpo_study', :run, '{}', 'c', :user)"
    )
    with engine.begin() as connection:
        for name, run_id, dag_id in (
            ("digits", "manual", "digits"),
            ("digits", "a:b", "digits"),
            ("model", "job__model", "hpo_study"),
            ("older", "twice", "hpo_study"),
            ("newer", "twice", "hpo_study"),
        ):
            values = {"name": name, "run": run_id, "dag": dag_id}
            # Names that studies took before they were told apart by their DAG runs.
            connection.execute(
                text(f"{study} (:name, :run, :dag, '{{}}', 'local', '{{}}')"),
                values,
            )
        connection.execute(text(job), {"key": "model", "run": "job__model", "user": "ann"})
        connection.execute(text(job), {"key": "build", "run": "job__model__1", "user": "bob"})
    migrate(engine)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT name, key, task_group, owner FROM ledger.studies ORDER BY id")
        ).all()
        jobs = connection.execute(text('SELECT key, "user" FROM ledger.jobs ORDER BY id')).all()
    engine.dispose()
    digest = hashlib.sha256(b"a:b").hexdigest()[:6]
    assert [tuple(row) for row in found] == [
        ("digits", "digits/manual", "", None),
        ("digits", f"digits/a-b-{digest}", "", None),
        ("model", "model/job__model", "", "ann"),
        ("older", "older/twice", "superseded-4", None),
        ("newer", "newer/twice", "", None),
    ]
    assert sorted(tuple(row) for row in jobs if row.key) == [("build", "bob")]
    assert [row.user for row in jobs if row.key is None] == ["ann"]


def test_old_segments_get_their_cause_and_old_studies_their_lease(empty_database: str) -> None:
    engine = create_engine(empty_database)
    _migrate_to(engine, "0003")
    study = (
        "INSERT INTO ledger.studies (name, run_id, dag_id, key, config, pool, origin) VALUES "
        "(:name, 'run', :name, :name, :config, 'gpu', '{}')"
    )
    trial = (
        "INSERT INTO ledger.trials (study_id, number, state, seed, wanted, asked_at) VALUES "
        "(1, 0, 'running', 7, '{\"lr\": 0.5}', now())"
    )
    segment = (
        "INSERT INTO ledger.segments (id, study_id, trial, key, from_step, runner, asked, "
        "asked_reason, outcome, reason) VALUES "
        "(:id, 1, 0, 'key', 0, 'kubernetes', 'pause', 'rank 2', 'preempted', :reason)"
    )
    configs = {
        "whole": {"runner": "kubernetes", "resources": {"gpu": 2}},
        "part": {"runner": "kubernetes", "resources": {"gpu": 0.5}},
        "cores": {"runner": "kubernetes", "resources": {"gpu": 0}},
        "local": {"runner": "local", "resources": {"gpu": 4}},
        "bare": {},
    }
    with engine.begin() as connection:
        for name, config in configs.items():
            values = {"name": name, "config": json.dumps(config)}
            connection.execute(text(study), values)
        connection.execute(text(trial))
        for number, reason in enumerate(("out of memory: 2 GiB", "its node was drained")):
            connection.execute(text(segment), {"id": str(number), "reason": reason})
    migrate(engine)
    with engine.connect() as connection:
        leases = connection.execute(text("SELECT name, lease FROM ledger.studies ORDER BY id"))
        assert [tuple(row) for row in leases] == [
            ("whole", 2.0),
            ("part", 0.5),
            ("cores", 1.0),
            ("local", 1.0),
            ("bare", 1.0),
        ]
        rows = connection.execute(select(segments).order_by(segments.c.id)).all()
        found = [read_segment(row) for row in rows]
        (waiting,) = [read_trial(row) for row in connection.execute(select(trials))]
    engine.dispose()
    assert [row.cause for row in found] == [Cause.OUT_OF_MEMORY, None]
    assert [row.requested_action for row in found] == [Action.PAUSE, Action.PAUSE]
    assert [row.requested_reason for row in found] == ["rank 2", "rank 2"]
    assert waiting.requested_params == {"lr": 0.5}
    assert waiting.queued_at is not None
