"""Checkpoints as agents announce them and as the next segment is told of them, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from hpo_ops.agent.checkpoint_restore import restore_checkpoint
from hpo_ops.checkpoints import Checkpoints, open_store
from hpo_ops.client import StudyRequest
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.ledger import _schema
from hpo_ops.protocol import Assignment, Checkpoint, Outcome, Report, SegmentResult, Workspace
from tests.gateways import FakeGateway
from tests.studies import study_data

OTHERS = "s3://payroll/secrets/trials/0/1"


class Life:
    """A study with one trial, whose segments save to a store on disk."""

    def __init__(self, services: Gateway, root: Path) -> None:
        self.services = services
        self.root = root
        self.store = open_store(f"file://{root}/store")
        config = study_data(
            scheduler={"name": "default", "max_steps": 9},
            checkpoints={"store": f"file://{root}/store"},
        )
        request = StudyRequest(config=config, dag_id="small", run_id="run-1")
        self.study_id = services.studies.start(request).id
        services.rounds.sample(self.study_id, 0)
        self.checkpoints = Checkpoints(self.store, "small/run-1", uri=f"file://{root}/store")

    def begin(self, key: str) -> Assignment:
        assignment = self.services.next_actions.next_action(self.study_id, 0, key=key).assignment
        assert assignment is not None
        # As it comes by way of JSON, to the agent's environment.
        return Assignment.from_json(assignment.to_json())

    def save(self, step: int, model: bytes) -> Checkpoint:
        folder = self.root / "saved"
        folder.mkdir(exist_ok=True)
        (folder / "model").write_bytes(model)
        return self.checkpoints.upload(0, step, folder)

    def train(self, segment: Assignment, *steps: int) -> None:
        for step in steps:
            report = Report(step=step, metrics={"accuracy": step / 10})
            self.services.segments.report(segment.segment, [report])
            self.services.segments.checkpoint(segment.segment, self.save(step, b"%d" % step))

    def lose(self, segment: Assignment, step: int) -> None:
        self.services.segments.finish(
            segment.segment, SegmentResult(outcome=Outcome.PREEMPTED, step=step)
        )

    def restored(self, segment: Assignment, name: str) -> tuple[int, bytes]:
        workspace = Workspace(self.root / name)
        told = restore_checkpoint(segment, workspace, self.checkpoints, FakeGateway())
        step = told.from_step
        return step, (workspace.checkpoint(step) / "model").read_bytes()


@pytest.fixture
def life(services: Gateway, tmp_path: Path) -> Life:
    return Life(services, tmp_path)


def test_an_agent_cannot_say_that_its_checkpoint_is_somebody_elses(
    life: Life, web: TestClient
) -> None:
    turn = life.services.next_actions.next_action(life.study_id, 0, key="a")
    assert turn.assignment is not None
    life.services.segments.report(
        turn.assignment.segment, [Report(step=1, metrics={"accuracy": 0.5})]
    )
    answer = web.post(
        f"/hpo/api/v1/segments/{turn.assignment.segment}/checkpoints",
        json={"step": 1, "uri": OTHERS, "files": 1, "bytes": 1},
        headers={"Authorization": f"Bearer {turn.token}"},
    )
    assert answer.is_success, answer.text
    record = life.services.ledger.get(life.study_id)
    best = find_best(life.services.ledger, record)
    assert best is not None
    assert best.checkpoint_uri == f"file://{life.root}/store/small/run-1/trials/0/1"


@pytest.mark.parametrize("digest", ["", "x" * 64, "A" * 64, "0" * 63, 5, ["0" * 64]])
def test_a_digest_that_is_none_is_refused(life: Life, web: TestClient, digest: Any) -> None:
    turn = life.services.next_actions.next_action(life.study_id, 0, key="a")
    assert turn.assignment is not None
    answer = web.post(
        f"/hpo/api/v1/segments/{turn.assignment.segment}/checkpoints",
        json={"step": 1, "uri": "", "files": 1, "bytes": 1, "digest": digest},
        headers={"Authorization": f"Bearer {turn.token}"},
    )
    assert answer.status_code == 422, answer.text


def test_a_checkpoint_that_was_replaced_in_the_store_is_not_what_the_trial_goes_on_from(
    life: Life,
) -> None:
    segment = life.begin("a")
    life.train(segment, 1, 2, 3)
    life.lose(segment, 3)
    segment = life.begin("b")
    assert segment.from_step == 3
    assert life.restored(segment, "before") == (3, b"3")
    life.save(3, b"evil")
    assert life.restored(segment, "after") == (2, b"2")


def test_a_step_that_is_trained_and_saved_again_is_restored_as_it_was_saved_last(
    life: Life,
) -> None:
    segment = life.begin("a")
    life.train(segment, 1, 2)
    life.lose(segment, 2)
    segment = life.begin("b")
    # Its checkpoint was broken: it began at step 1, and came to another one.
    life.services.segments.checkpoint(segment.segment, life.save(2, b"two again"))
    life.lose(segment, 2)
    assert life.restored(life.begin("c"), "hpo") == (2, b"two again")


def test_checkpoints_from_before_the_migration_are_restored(life: Life) -> None:
    segment = life.begin("a")
    life.train(segment, 1)
    life.lose(segment, 1)
    with life.services.ledger.engine.begin() as connection:
        connection.execute(update(_schema.checkpoints).values(digest=None))
    assert life.restored(life.begin("b"), "hpo") == (1, b"1")


def test_an_address_that_an_agent_made_up_before_the_migration_is_not_restored_from(
    life: Life,
) -> None:
    segment = life.begin("a")
    life.train(segment, 1, 2)
    life.lose(segment, 2)
    for uri in (OTHERS, f"file://{life.root}/store/../elsewhere/2"):
        with life.services.ledger.engine.begin() as connection:
            connection.execute(
                update(_schema.checkpoints).where(_schema.checkpoints.c.step == 2).values(uri=uri)
            )
        assert life.restored(life.begin(uri), "hpo") == (1, b"1")
