"""What counts as left behind, and that its repair leaves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hpo_ops.core.leftovers import (
    Finding,
    LedgerPart,
    LedgerSegment,
    LedgerStudy,
    Repair,
    RunState,
    StrayLease,
    find_leftovers,
)
from hpo_ops.core.runner_resources import ResourceList, RunnerResource

OLD = 3600.0


def study(**changes: Any) -> LedgerStudy:
    values = {
        "id": 1,
        "key": "digits/run",
        "dag_id": "digits",
        "run_id": "run",
        "state": "running",
        "seconds": OLD,
    }
    return LedgerStudy(**{**values, **changes})


def segment(**changes: Any) -> LedgerSegment:
    values = {
        "id": "s",
        "study_id": 1,
        "study": "digits/run",
        "study_state": "running",
        "trial": 3,
        "runner": "kubernetes",
        "seconds": OLD,
        "has_lease": True,
    }
    return LedgerSegment(**{**values, **changes})


Resources = dict[str, ResourceList]
"""The resources of each runner that could be seen."""


def pod(**changes: Any) -> RunnerResource:
    values = {"kind": "pod", "name": "p", "namespace": "default", "segment": "s", "seconds": OLD}
    return RunnerResource(**{**values, **changes})


def secret(**changes: Any) -> RunnerResource:
    return pod(**{"kind": "secret", "name": "x", "is_training": False, **changes})


def cluster(*found: RunnerResource, namespaces: set[str] | None = None) -> Resources:
    return {
        "kubernetes": ResourceList(
            default_namespace="default",
            training_kind="pod",
            namespaces=frozenset({"default"} if namespaces is None else namespaces),
            resources=found,
        )
    }


def ledger(*known: LedgerStudy | LedgerSegment | StrayLease, **changes: Any) -> LedgerPart:
    return LedgerPart(
        studies=[item for item in known if isinstance(item, LedgerStudy)],
        segments=[item for item in known if isinstance(item, LedgerSegment)],
        leases=[item for item in known if isinstance(item, StrayLease)],
        **changes,
    )


GOING = {1: RunState.GOING}
GONE = {1: RunState.MISSING}
OVER = segment(ended_seconds=OLD, has_lease=False)
SILENT = segment(has_lease=False)
LEASE = StrayLease(segment="s", study_id=1, study="digits/run", trial=3)

CASES: dict[str, tuple[LedgerPart, dict[int, RunState], Resources, list[Repair]]] = {
    "nothing": (ledger(), {}, cluster(), []),
    "a pod at work": (ledger(study(), segment()), GOING, cluster(pod(), secret()), []),
    "a pod at work that nobody renews": (ledger(study(), SILENT), GOING, cluster(pod()), []),
    "a pod of a segment that is over": (
        ledger(study(), OVER),
        GOING,
        cluster(pod()),
        [Repair.DELETE_RESOURCE],
    ),
    "a pod of a segment that is over, in a study that is closed": (
        ledger(OVER),
        {},
        cluster(pod(), secret()),
        [Repair.DELETE_RESOURCE],
    ),
    "a pod of a segment that was over a moment ago": (
        ledger(study(), segment(ended_seconds=5.0)),
        GOING,
        cluster(pod()),
        [],
    ),
    "a pod that takes its leave": (ledger(OVER), {}, cluster(pod(is_leaving=True)), []),
    "a pod on a node that is gone": (
        ledger(OVER),
        {},
        cluster(pod(is_leaving=True, is_lost=True)),
        [Repair.DELETE_RESOURCE],
    ),
    "a pod that nobody knows": (ledger(), {}, cluster(pod()), [Repair.DELETE_RESOURCE]),
    "a new pod that nobody knows yet": (ledger(), {}, cluster(pod(seconds=5.0)), []),
    "a pod of somebody else's study": (ledger(hidden=["s"]), {}, cluster(pod(), secret()), []),
    "a secret without a pod": (ledger(OVER), {}, cluster(secret()), [Repair.DELETE_RESOURCE]),
    "a new secret without a pod": (ledger(OVER), {}, cluster(secret(seconds=60.0)), []),
    "a secret whose task comes again": (
        ledger(study(), segment()),
        GOING,
        cluster(secret()),
        [],
    ),
    "a segment that has lost its pod": (
        ledger(study(), SILENT),
        GOING,
        cluster(secret()),
        [Repair.FINISH_SEGMENT, Repair.DELETE_RESOURCE],
    ),
    "a segment whose pod is not there yet": (ledger(study(), segment()), GOING, cluster(), []),
    "a segment of which no pod could be seen": (ledger(study(), SILENT), GOING, {}, []),
    "a segment in a namespace that could not be seen": (
        ledger(study(), segment(has_lease=False, namespace="far")),
        GOING,
        cluster(),
        [],
    ),
    "a segment that is a process": (
        ledger(study(), segment(has_lease=False, runner="local")),
        GOING,
        cluster(),
        [],
    ),
    "a segment of a study that is closed": (
        ledger(segment(study_state="ended")),
        {},
        {},
        [Repair.FINISH_SEGMENT],
    ),
    "a study whose run is gone": (
        ledger(study(), segment()),
        GONE,
        cluster(pod(), secret()),
        [Repair.END_STUDY, Repair.DELETE_RESOURCE],
    ),
    "a paused study whose run has failed": (
        ledger(study(state="paused")),
        {1: RunState.FAILED},
        {},
        [Repair.END_STUDY],
    ),
    "a study whose run ended without closing it": (
        ledger(study()),
        {1: RunState.SUCCESS},
        {},
        [Repair.END_STUDY],
    ),
    "a study that was just entered": (ledger(study(seconds=3.0)), GONE, {}, []),
    "a study whose run could not be seen": (ledger(study(), segment()), {}, {}, []),
    "a lease of a segment that is over": (
        ledger(study(), LEASE),
        GOING,
        {},
        [Repair.FREE_LEASE],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_behind_is_found_and_what_is_not_is_left_alone(name: str) -> None:
    known, runs, there, repairs = CASES[name]
    assert [finding.repair for finding in find_leftovers(known, runs, there)] == repairs


def test_a_finding_is_a_sentence() -> None:
    known, runs, there, _ = CASES["a study whose run is gone"]
    first, second = find_leftovers(known, runs, there)
    assert first.text == ("study digits/run is running, but its DAG run does not exist any more")
    assert first.reason == "its DAG run does not exist any more"
    assert second.text == (
        "pod p of trial 3 of digits/run in default exists, but its segment ends now"
    )


def test_a_segment_is_judged_by_the_resources_of_its_own_runner() -> None:
    containers = ResourceList(
        default_namespace="here",
        training_kind="container",
        namespaces=frozenset({"here"}),
        resources=[pod(kind="container", name="c", namespace="here", segment="t")],
    )
    there = {**cluster(pod()), "docker": containers}
    known = ledger(
        study(),
        segment(id="s", runner="docker", has_lease=False),
        segment(id="t", runner="docker"),
    )
    lost, *_ = find_leftovers(known, GOING, there)
    assert lost.segment == "s"
    assert lost.reason == "it has no container, and its lease has expired"
    unwanted = find_leftovers(ledger(segment(id="t", ended_seconds=OLD), OVER), {}, there)
    assert [(item.runner, item.repair_text, item.name) for item in unwanted] == [
        ("kubernetes", "delete pod", "p"),
        ("docker", "delete container", "c"),
    ]


def test_what_the_ledger_never_heard_of_is_marked() -> None:
    (finding,) = find_leftovers(ledger(), {}, cluster(pod()))
    assert finding.is_unknown
    (finding,) = find_leftovers(ledger(OVER), {}, cluster(pod()))
    assert not finding.is_unknown


def test_a_pod_on_a_node_that_is_gone_is_not_waited_for() -> None:
    known, runs, there, _ = CASES["a pod on a node that is gone"]
    (finding,) = find_leftovers(known, runs, there)
    assert finding.is_forced


def test_who_may_not_change_a_study_is_told() -> None:
    (finding,) = find_leftovers(ledger(study(may_edit=False)), GONE, {})
    assert not finding.may_repair


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, RunState.MISSING),
        ("queued", RunState.GOING),
        ("running", RunState.GOING),
        ("success", RunState.SUCCESS),
        ("failed", RunState.FAILED),
    ],
)
def test_airflows_words_are_understood(state: str | None, expected: RunState) -> None:
    assert RunState.of(state) is expected


def test_the_ledgers_part_goes_over_the_wire() -> None:
    part = ledger(study(), segment(), LEASE, namespaces=["far"], hidden=["h"])
    assert LedgerPart.from_json(part.to_json()) == part


# -- a world -----------------------------------------------------------------------------------

AGES = some.sampled_from([5.0, 100.0, OLD])
IDS = ["a", "b", "c", "d"]


@some.composite
def worlds(draw: Any) -> tuple[LedgerPart, dict[int, RunState], Resources]:
    """Anything that ledger, Airflow and cluster could say, whether or not it makes sense."""
    studies = [
        study(
            id=number,
            state=draw(some.sampled_from(["running", "paused", "stopping"])),
            seconds=draw(AGES),
        )
        for number in draw(some.sets(some.sampled_from([1, 2])))
    ]
    is_open = {item.id for item in studies}
    segments = [
        segment(
            id=name,
            study_id=number,
            study_state="running" if number in is_open else "ended",
            runner=draw(some.sampled_from(["kubernetes", "local"])),
            namespace=draw(some.sampled_from([None, "far"])),
            seconds=draw(AGES),
            ended_seconds=draw(some.none() | AGES),
            has_lease=draw(some.booleans()),
        )
        for name in draw(some.sets(some.sampled_from(IDS)))
        for number in [draw(some.sampled_from([1, 2]))]
    ]
    leases = [replace(LEASE, segment=name) for name in draw(some.sets(some.just("z")))]
    runs = draw(some.dictionaries(some.sampled_from([1, 2]), some.sampled_from(RunState)))
    there = cluster(
        *(
            pod(name=name, segment=name, seconds=draw(AGES), is_leaving=draw(some.booleans()))
            for name in draw(some.sets(some.sampled_from(IDS)))
        ),
        *(
            secret(name=name, segment=name, seconds=draw(AGES))
            for name in draw(some.sets(some.sampled_from(IDS)))
        ),
        namespaces=draw(some.sets(some.sampled_from(["default", "far"]))),
    )
    known = ledger(*studies, *segments, *leases, hidden=draw(some.sampled_from([[], ["d"]])))
    return known, runs, draw(some.sampled_from([there, {}]))


def repair(
    known: LedgerPart, there: Resources, findings: list[Finding]
) -> tuple[LedgerPart, Resources]:
    """The world after all repairs; what ended did so just now, and a secret goes with its pod."""

    def of(repair: Repair, name: str) -> set[Any]:
        return {getattr(item, name) for item in findings if item.repair is repair}

    ended, lost = of(Repair.END_STUDY, "study_id"), of(Repair.FINISH_SEGMENT, "segment")
    freed = of(Repair.FREE_LEASE, "segment")
    deleted = {(item.kind, item.name) for item in findings if item.kind}
    known = replace(
        known,
        studies=[item for item in known.studies if item.id not in ended],
        segments=[
            replace(item, ended_seconds=0.0, has_lease=False)
            if item.ended_seconds is None and (item.study_id in ended or item.id in lost)
            else item
            for item in known.segments
        ],
        leases=[item for item in known.leases if item.segment not in freed],
    )
    if not there:
        return known, {}
    found = there["kubernetes"]
    gone = {
        item.segment
        for item in found.resources
        if item.is_training and (item.kind, item.name) in deleted
    }
    left = [
        item
        for item in found.resources
        if (item.kind, item.name) not in deleted and (item.is_training or item.segment not in gone)
    ]
    return known, {"kubernetes": replace(found, resources=left)}


@given(worlds())
def test_after_the_repairs_nothing_is_left(
    world: tuple[LedgerPart, dict[int, RunState], Resources],
) -> None:
    known, runs, there = world
    findings = find_leftovers(known, runs, there)
    known, there = repair(known, there, findings)
    assert find_leftovers(known, runs, there) == []


@given(worlds())
def test_a_pod_of_a_segment_that_goes_on_is_never_touched(
    world: tuple[LedgerPart, dict[int, RunState], Resources],
) -> None:
    known, runs, there = world
    deleted = {
        finding.segment
        for finding in find_leftovers(known, runs, there)
        if finding.repair is Repair.DELETE_RESOURCE
    }
    at_work = {
        item.id
        for item in known.segments
        if item.ended_seconds is None
        and item.has_lease
        and item.study_state != "ended"
        and runs.get(item.study_id, RunState.GOING) is RunState.GOING
    }
    assert not deleted & at_work
