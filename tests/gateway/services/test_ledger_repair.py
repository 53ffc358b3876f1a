"""The ledger's side of reconciling, over HTTP: what it tells, what it repairs, and to whom."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from hpo_ops.client import GatewayClient, GatewayRefusedError, StudyRequest
from hpo_ops.client.transport import API, Transport
from hpo_ops.core import TrialState
from hpo_ops.core.leftovers import LedgerPart, LedgerSegment, Repair, RunState, find_leftovers
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.tokens import issue_segment_token, issue_service_token
from hpo_ops.ledger import StudyState
from hpo_ops.ledger.leases import set_capacity
from tests.gateway.web import SECRET, bearer, begin, fresh, mounted, person, segment_of
from tests.studies import study_data


@pytest.fixture
def gateway(services: Gateway) -> GatewayClient:
    return client_of(services, issue_service_token(SECRET))


def client_of(services: Gateway, token: str) -> GatewayClient:
    client = GatewayClient("http://gateway", token)
    client._transport = Transport("http://gateway", token, client=fresh(mounted(services)))
    return client


def begin_pods(services: Gateway, **changes: Any) -> tuple[int, str]:
    """A study of pods with its first trial running; its id and the segment's."""
    with services.ledger.engine.begin() as connection:
        set_capacity(connection, "cpu", 100)
    config = study_data(runner="kubernetes", **changes)
    study_id = services.studies.start(StudyRequest(config=config, dag_id="small", run_id="r")).id
    services.rounds.sample(study_id, 0)
    return study_id, segment_of(services.next_actions.next_action(study_id, 0, "pod"))


def expire_leases(services: Gateway) -> None:
    with services.ledger.engine.begin() as connection:
        connection.execute(text("UPDATE ledger.leases SET expires_at = now() - interval '1 s'"))


def add_stray_lease(services: Gateway, study_id: int) -> None:
    """A lease of a segment that does not exist."""
    with services.ledger.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO ledger.leases (segment_id, study_id, trial, pool, amount, expires_at)"
                " VALUES ('stray', :study, 0, 'cpu', 1, now() + interval '1 h')"
            ),
            {"study": study_id},
        )


def leases(services: Gateway) -> list[str]:
    with services.ledger.engine.connect() as connection:
        return list(connection.execute(text("SELECT segment_id FROM ledger.leases")).scalars())


def state_of(services: Gateway, study_id: int, trial: int = 0) -> TrialState:
    with services.ledger.study(study_id) as session:
        return session.view.trials[trial].state


def open_segments(part: LedgerPart) -> list[LedgerSegment]:
    return [item for item in part.segments if item.ended_seconds is None]


# -- what it tells ---------------------------------------------------------------------------


def test_an_empty_ledger_has_nothing_open(gateway: GatewayClient) -> None:
    assert gateway.ledger_part() == LedgerPart.from_dict({})


def test_it_tells_what_is_open(services: Gateway, gateway: GatewayClient) -> None:
    study_id, segment = begin_pods(services, pod={"namespace": "far"})
    part = gateway.ledger_part(["never heard of"])
    (study,) = part.studies
    assert (study.id, study.key, study.dag_id, study.run_id) == (study_id, "small/r", "small", "r")
    assert study.state == "running"
    assert 0 <= study.seconds < 60
    (item,) = part.segments
    assert (item.id, item.study_id, item.trial, item.runner) == (
        segment,
        study_id,
        0,
        "kubernetes",
    )
    assert item.namespace == "far"
    assert item.has_lease
    assert item.ended_seconds is None
    assert part.namespaces == ["far"]
    assert part.leases == []
    assert part.hidden == []


def test_every_finding_names_a_study_by_its_own_key(
    services: Gateway, gateway: GatewayClient
) -> None:
    """The key of a study of a generic DAG is not its name and run id, as it has a hash."""
    request = StudyRequest(config=study_data(), dag_id="hpo_study", run_id="r 1")
    study_id = services.studies.start(request).id
    services.rounds.sample(study_id, 0)
    segment = segment_of(services.next_actions.next_action(study_id, 0, "a"))
    add_stray_lease(services, study_id)
    key = services.ledger.get(study_id).key
    assert key.startswith("small/r-1-")
    assert gateway.progress(study_id).key == key
    part = gateway.ledger_part([segment])
    assert [item.key for item in part.studies] == [key]
    assert [item.study for item in part.segments] == [key]
    assert [item.study for item in part.leases] == [key]


def test_a_lease_that_has_expired_is_none(services: Gateway, gateway: GatewayClient) -> None:
    begin_pods(services)
    expire_leases(services)
    (item,) = gateway.ledger_part().segments
    assert not item.has_lease


def test_a_segment_that_is_over_is_told_of_when_asked(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, segment = begin_pods(services)
    services.studies.end(study_id, {})
    assert gateway.ledger_part().segments == []
    assert gateway.ledger_part().studies == []
    (item,) = gateway.ledger_part([segment]).segments
    assert item.ended_seconds is not None
    assert item.study_state == "ended"


# -- what it repairs -------------------------------------------------------------------------


def test_a_study_whose_run_is_gone_is_closed(services: Gateway, gateway: GatewayClient) -> None:
    study_id, segment = begin_pods(services)
    gateway.close_study(study_id, "its DAG run does not exist any more")
    record = services.ledger.get(study_id)
    assert record.state is StudyState.ENDED
    assert record.reason == "its DAG run does not exist any more"
    assert open_segments(gateway.ledger_part([segment])) == []
    assert leases(services) == []
    assert state_of(services, study_id) is TrialState.PRUNED
    gateway.close_study(study_id, "again")
    assert services.ledger.get(study_id) == record


def test_a_study_that_was_stopped_keeps_its_reason(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, _ = begin_pods(services)
    services.studies.stop(study_id, "good enough")
    gateway.close_study(study_id, "its DAG run has failed")
    assert services.ledger.get(study_id).reason == "good enough"


def test_a_segment_without_a_pod_is_preempted(services: Gateway, gateway: GatewayClient) -> None:
    study_id, segment = begin_pods(services)
    expire_leases(services)
    assert gateway.lose_segment(study_id, segment, "it has no pod")
    assert gateway.lose_segment(study_id, segment, "it has no pod")
    assert open_segments(gateway.ledger_part()) == []
    assert state_of(services, study_id) is TrialState.RUNNING
    again = services.next_actions.next_action(study_id, 0, "pod")
    assert segment_of(again) != segment
    assert again.preemptions == 1


def test_a_segment_with_a_sign_of_life_is_left_alone(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, segment = begin_pods(services)
    expire_leases(services)
    services.segments.keep_alive([segment])
    assert not gateway.lose_segment(study_id, segment, "it has no pod")
    assert [item.id for item in open_segments(gateway.ledger_part())] == [segment]


def test_a_segment_is_looked_for_in_its_study_only(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, _ = begin_pods(services)
    _, other = begin(services, "other")
    expire_leases(services)
    with pytest.raises(LookupError, match="has no segment"):
        gateway.lose_segment(study_id, segment_of(other), "it has no pod")


def test_leases_of_segments_that_are_over_are_freed(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, segment = begin_pods(services)
    add_stray_lease(services, study_id)
    (lease,) = gateway.ledger_part().leases
    assert (lease.segment, lease.study_id, lease.study) == ("stray", study_id, "small/r")
    assert gateway.free_leases(study_id) == ["stray"]
    assert gateway.free_leases(study_id) == []
    assert leases(services) == [segment]


def test_what_was_found_is_gone_after_its_repair(
    services: Gateway, gateway: GatewayClient
) -> None:
    study_id, _ = begin_pods(services)
    with services.ledger.engine.begin() as connection:
        connection.execute(text("UPDATE ledger.studies SET at = at - interval '1 h'"))
    gone = {study_id: RunState.MISSING}
    (finding,) = find_leftovers(gateway.ledger_part(), gone, {})
    assert finding.repair is Repair.END_STUDY
    gateway.close_study(study_id, finding.reason)
    assert find_leftovers(gateway.ledger_part(), gone, {}) == []


# -- to whom ---------------------------------------------------------------------------------


def test_a_reader_is_told_but_may_not_repair(services: Gateway) -> None:
    study_id, segment = begin_pods(services)
    bob = client_of(services, "person bob")
    part = bob.ledger_part([segment])
    assert not part.studies[0].may_edit
    assert not part.segments[0].may_edit
    for repair in (
        lambda: bob.close_study(study_id, "mine"),
        lambda: bob.lose_segment(study_id, segment, "mine"),
        lambda: bob.free_leases(study_id),
    ):
        with pytest.raises(GatewayRefusedError, match="no right to change small"):
            repair()


def test_a_stranger_does_not_learn_which_segments_exist(services: Gateway) -> None:
    _, segment = begin_pods(services, pod={"namespace": "far"})
    eve = client_of(services, "person eve")
    asked = sorted([segment, "never heard of"])
    assert eve.ledger_part(asked) == LedgerPart.from_dict({"hidden": asked})
    assert eve.ledger_part() == LedgerPart.from_dict({})


def test_an_editor_may_repair(services: Gateway) -> None:
    study_id, _ = begin_pods(services)
    ann = client_of(services, "person ann")
    assert ann.ledger_part().studies[0].may_edit
    ann.close_study(study_id, "")
    assert services.ledger.get(study_id).reason == "closed by ann"


def test_an_agent_is_told_nothing(services: Gateway) -> None:
    web = mounted(services)
    answer = web.post(f"{API}/reconcile", headers=bearer(issue_segment_token(SECRET, "s")))
    assert answer.status_code == 403


def test_no_body_asks_about_nothing_in_particular(web: TestClient) -> None:
    answer = web.post(f"{API}/reconcile", headers=person("ann"))
    assert answer.status_code == 200


@pytest.fixture
def web(services: Gateway) -> TestClient:
    return mounted(services)
