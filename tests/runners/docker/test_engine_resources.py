"""Containers that tasks have left on an engine, as the reconciler sees them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpo_ops.core.leftovers import LedgerPart, LedgerSegment, Repair, find_leftovers
from hpo_ops.core.runner_resources import ResourcesUnavailableError, RunnerResource
from hpo_ops.runners.docker._engine_api import DockerEngine
from hpo_ops.runners.docker._engine_resources import connect
from tests.docker_engine import IMAGE, TestEngine


@pytest.mark.e2e
def test_containers_of_segments_are_listed_and_deleted(
    docker_engine: TestEngine, engine: DockerEngine
) -> None:
    own = {"hpo-ops/managed": "true", "hpo-ops/segment": "s-1"}
    for name, labels in (("ours", own), ("theirs", {"hpo-ops/segment": "s-2"})):
        host = {"NetworkMode": "none"}
        spec = {"Image": IMAGE, "Cmd": ["x"], "Labels": labels, "HostConfig": host}
        engine.create(spec, name=name)
    (ours,) = engine.list_containers({"hpo-ops/managed": "true"})
    made = connect({"DOCKER_HOST": docker_engine.host})
    assert made is not None
    made.clock = lambda: ours.created_at + 90
    seen = made.look([])
    host = docker_engine.host
    assert seen.resources == [
        RunnerResource(kind="container", name="ours", namespace=host, segment="s-1", seconds=90.0)
    ]
    assert (seen.default_namespace, seen.namespaces) == (host, frozenset({host}))
    made.delete("container", "ours", host, is_forced=False)
    made.delete("container", "ours", host, is_forced=False)
    assert made.look([]).resources == []
    assert [item.name for item in engine.list_containers({})] == ["theirs"]


@pytest.mark.e2e
def test_the_reconciler_deletes_the_container_of_a_segment_that_has_ended(
    docker_engine: TestEngine, engine: DockerEngine
) -> None:
    for segment in ("ended", "open"):
        labels = {"hpo-ops/managed": "true", "hpo-ops/segment": segment}
        host = {"NetworkMode": "none"}
        spec = {"Image": IMAGE, "Cmd": ["x"], "Labels": labels, "HostConfig": host}
        engine.create(spec, name=segment)
    made = connect({"DOCKER_HOST": docker_engine.host})
    assert made is not None
    made.clock = lambda: time.time() + 90
    common = {"study_id": 1, "study": "s/1", "study_state": "running", "trial": 0}
    segments = [
        LedgerSegment(id="ended", runner="docker", seconds=95, ended_seconds=80, **common),
        LedgerSegment(id="open", runner="docker", seconds=95, has_lease=True, **common),
    ]
    found = find_leftovers(LedgerPart(segments=segments), {}, {"docker": made.look([])})
    assert [(item.repair, item.name) for item in found] == [(Repair.DELETE_RESOURCE, "ended")]
    made.delete("container", found[0].name or "", docker_engine.host, is_forced=False)
    assert [item.name for item in engine.list_containers({})] == ["open"]


def test_an_engine_that_does_not_answer_is_noted_and_nothing_is_judged(tmp_path: Path) -> None:
    made = connect({"DOCKER_HOST": f"unix://{tmp_path}/nothing"})
    assert made is not None
    assert made.look([]).namespaces == frozenset()
    assert "no Docker Engine answers" in made.notes[0]


def test_a_machine_without_an_engine_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setattr("hpo_ops.runners.docker._engine_resources.DEFAULT_HOST", missing)
    assert connect({}) is None


def test_an_address_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(ResourcesUnavailableError, match="DOCKER_HOST is 'ssh://there'"):
        connect({"DOCKER_HOST": "ssh://there"})
