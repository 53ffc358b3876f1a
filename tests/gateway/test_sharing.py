"""Which studies may use the scores and trials of another: by warm start and score cache."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hpo_ops.client import NextAction, NextActionKind
from hpo_ops.client.transport import API
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.protocol import Outcome, Report, SegmentResult
from tests.gateway.entering import GENERIC, enter, entered
from tests.gateway.web import SECRET, mounted, task

ORIGIN = {"origin": {"code_hash": "abc"}}
SHARING = [
    pytest.param(("small", "ann"), ("small", "bob"), {}, {}, True, id="one DAG"),
    pytest.param(("small", None), ("small", None), {}, {}, True, id="one DAG by schedule"),
    pytest.param((GENERIC, "mia"), (GENERIC, "mia"), {}, {}, True, id="one person"),
    pytest.param(("small", "mia"), (GENERIC, "mia"), {}, {}, True, id="one person, two DAGs"),
    pytest.param((GENERIC, "mia"), (GENERIC, "max"), {}, {}, False, id="two people"),
    pytest.param((GENERIC, "mia"), (GENERIC, None), {}, {}, False, id="a person and nobody"),
    pytest.param(("small", "ann"), ("other", "bob"), {}, {}, False, id="two DAGs"),
    pytest.param(("small", None), ("other", None), {}, {}, False, id="two DAGs by schedule"),
    pytest.param(
        ("small", "ann"),
        ("other", "bob"),
        {"share": ["other"]},
        {"share": ["small"]},
        True,
        id="two DAGs that name each other",
    ),
    pytest.param(
        ("small", "ann"), ("other", "bob"), {}, {"share": ["*"]}, False, id="a DAG that asks"
    ),
    pytest.param(
        ("small", "ann"), ("other", "bob"), {"share": ["*"]}, {}, False, id="a DAG that offers"
    ),
]
"""Two studies as (DAG, owner), what each says about sharing, and whether they share."""

By = tuple[str, str | None]


@pytest.fixture
def same() -> dict[str, Any]:
    """Studies whose one trial is the same; in other tests it is another one."""
    return {
        "space": {"width": [8]},
        "trials": 1,
        "scheduler": {"name": "default", "max_steps": 2},
        "data": {"version": uuid.uuid4().hex},
    }


def runs() -> tuple[str, str]:
    """Two new run ids."""
    unique = uuid.uuid4().hex
    return f"one-{unique}", f"two-{unique}"


def ask(web: TestClient, dag_id: str, run_id: str) -> NextAction:
    where = {"dag_id": dag_id, "run_id": run_id, "key": "a"}
    return NextAction.from_dict(
        web.post(f"{API}/trials/0/next_action", headers=task(), params=where).json()
    )


def train(services: Gateway, turn: NextAction) -> None:
    assert turn.assignment is not None
    reports = [Report(step=step, metrics={"accuracy": 0.5}, seconds=1.0) for step in (1, 2)]
    result = SegmentResult(outcome=Outcome.COMPLETED, step=2)
    services.segments.finish(turn.assignment.segment, result, reports)


@pytest.mark.parametrize(("first", "second", "offers", "asks", "is_shared"), SHARING)
def test_scores_go_to_studies_that_may_have_them(
    lasting_web: TestClient,
    lasting: Gateway,
    same: dict[str, Any],
    first: By,
    second: By,
    offers: dict[str, Any],
    asks: dict[str, Any],
    is_shared: bool,
) -> None:
    one, two = runs()
    web = lasting_web
    made = entered(web, first[0], one, owner=first[1], request=ORIGIN, **same, **offers)
    training = ask(web, first[0], one)
    entered(web, second[0], two, owner=second[1], request=ORIGIN, **same, **asks)
    meanwhile = ask(web, second[0], two)
    if not is_shared:  # it neither waits for the other one nor hears of it
        assert meanwhile.kind is NextActionKind.RUN
        assert made["key"] not in meanwhile.reason
        return
    assert meanwhile.kind is NextActionKind.WAIT
    train(lasting, training)
    served = ask(web, second[0], two)
    assert served.kind is NextActionKind.DONE
    assert served.score is not None
    assert served.score.served is not None
    assert served.score.served.study == made["key"]


@pytest.mark.parametrize(("first", "second", "offers", "asks", "is_shared"), SHARING)
def test_a_study_starts_from_those_that_it_may_read(
    lasting_web: TestClient,
    lasting: Gateway,
    same: dict[str, Any],
    first: By,
    second: By,
    offers: dict[str, Any],
    asks: dict[str, Any],
    is_shared: bool,
) -> None:
    one, two = runs()
    web = lasting_web
    made = entered(web, first[0], one, owner=first[1], name=f"first-{one}", **same, **offers)
    train(lasting, ask(web, first[0], one))
    services = len(list(lasting.ledger.recent()))
    for run in (None, one, "never"):
        wanted = {"study": f"first-{one}", **({"run": run} if run else {})}
        answer = enter(
            web, second[0], f"{two}-{run}", owner=second[1], warm_start=wanted, **same, **asks
        )
        if is_shared and run != "never":
            assert answer.status_code == 200, answer.text
            assert f"trials of {made['key']} are known" in answer.json()["notes"][0]
        else:  # whether it is not there, or not for them
            assert answer.status_code == 422
            assert "no such study that this one may start from" in answer.json()["detail"]
    assert (len(list(lasting.ledger.recent())) > services) is is_shared


def test_a_study_that_only_shares_does_not_take_the_place_of_ones_own(
    lasting_web: TestClient, lasting: Gateway, same: dict[str, Any]
) -> None:
    one, two = runs()
    mine = entered(lasting_web, "small", one, name=f"n-{one}", owner="ann", share=["*"], **same)
    train(lasting, ask(lasting_web, "small", one))
    entered(lasting_web, GENERIC, one, name=f"n-{one}", owner="mia", share=["*"], **same)
    train(lasting, ask(lasting_web, GENERIC, one))
    wanted = {"study": f"n-{one}"}
    given = {"share": ["*"], "warm_start": wanted, **same}
    answer = enter(lasting_web, "small", two, owner="ann", **given)
    assert mine["key"] in answer.json()["notes"][0]


def test_an_operator_may_let_all_studies_share(lasting: Gateway, same: dict[str, Any]) -> None:
    one, two = runs()
    web = mounted(Gateway.on_ledger(lasting.ledger, SECRET, share=("*",)))
    entered(web, "small", one, owner="ann", request=ORIGIN, **same)
    train(lasting, ask(web, "small", one))
    entered(web, GENERIC, two, owner="mia", request=ORIGIN, **same)
    assert ask(web, GENERIC, two).kind is NextActionKind.DONE


def test_what_is_trained_in_another_pod_is_another_score(
    lasting_web: TestClient, lasting: Gateway, same: dict[str, Any]
) -> None:
    one, two = runs()
    pods = {**same, "runner": "kubernetes", "image": "team/model:1"}
    entered(lasting_web, "small", one, request=ORIGIN, **pods)
    train(lasting, ask(lasting_web, "small", one))
    entered(lasting_web, "small", two, request=ORIGIN, **pods)
    assert ask(lasting_web, "small", two).kind is NextActionKind.DONE
    for number, changes in enumerate(
        (
            {"pod": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}},
            {"pod": {"namespace": "elsewhere"}},
            {"install": False},
        )
    ):
        entered(lasting_web, "small", f"{two}-{number}", request=ORIGIN, **pods, **changes)
        assert ask(lasting_web, "small", f"{two}-{number}").kind is NextActionKind.RUN
