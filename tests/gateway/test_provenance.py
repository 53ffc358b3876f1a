"""What trials were trained with, and that a seed repeats a study."""

from __future__ import annotations

from random import Random

import pytest

from hpo_ops.client import NextActionKind, StudyRequest, VerdictKind
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.trial_detail import read_trial_detail
from hpo_ops.gateway.queries.trial_lists import list_trials
from hpo_ops.protocol import Outcome, Provenance, Report, SegmentResult
from tests.studies import study_data


def test_a_segment_keeps_what_it_was_trained_with(services: Gateway) -> None:
    data = study_data(flow="rolling", data={"version": "7"})
    origin = Provenance(code_hash="prepared", commit="c0ffee")
    request = StudyRequest(config=data, dag_id="small", run_id="run-1", origin=origin)
    study_id = services.studies.start(request).id
    turn = services.next_actions.next_action(study_id, 0, key="a")
    assert turn.assignment is not None
    record = services.ledger.get(study_id)
    before = read_trial_detail(services.ledger, record, 0)
    assert before.provenance == origin
    assert (before.seed, before.data_version) == (turn.assignment.seed, "7")

    segment = turn.assignment.segment
    found = Provenance(code_hash="edited since", packages={"torch": "2.9"})
    failed = SegmentResult(outcome=Outcome.FAILED, step=0, reason="boom")
    services.segments.finish(segment, failed, provenance=found)
    again = Provenance(image_digest="sha256:12")  # the pod says it when it has ended
    services.segments.finish(segment, failed, provenance=again)
    detail = read_trial_detail(services.ledger, record, 0)
    assert detail.provenance == Provenance(
        code_hash="edited since",
        commit="c0ffee",
        packages={"torch": "2.9"},
        image_digest="sha256:12",
    )
    assert (detail.segments[0].outcome, detail.segments[0].reason) == ("failed", "boom")
    with pytest.raises(LookupError, match="study small/run-1 has no trial 5"):
        read_trial_detail(services.ledger, record, 5)


def test_every_trial_gets_the_seed_that_the_study_sets(services: Gateway) -> None:
    for run_id, cache in (("one", True), ("two", False)):
        data = study_data(flow="rolling", trial_seed=99, cache=cache)
        request = StudyRequest(config=data, dag_id="small", run_id=run_id)
        study_id = services.studies.start(request).id
        for trial in range(2):
            turn = services.next_actions.next_action(study_id, trial, key="a")
            assert turn.assignment is not None
            assert turn.assignment.seed == 99


# -- the same seed ---------------------------------------------------------------------------


def run(services: Gateway, run_id: str, *, order: int, seed: int = 7) -> list[tuple[object, ...]]:
    """Runs a study whose trials train side by side; each next report is one at random's."""
    data = study_data(
        reproducible=True,
        sampler="tpe",
        trials=12,
        parallelism=4,
        seed=seed,
        space={"lr": {"float": [1e-4, 1e-1], "log": True}, "width": {"int": [4, 6]}},
    )
    request = StudyRequest(config=data, dag_id="small", run_id=run_id)
    study_id = services.studies.start(request).id
    chance = Random(order)  # noqa: S311 (no secret)
    for number in range(100):
        group = services.rounds.sample(study_id, number)
        waiting = [member.trial for member in group.trials]
        chance.shuffle(waiting)
        running: dict[str, tuple[int, int, float]] = {}
        for trial in waiting:
            turn = services.next_actions.next_action(study_id, trial, key=f"{number}")
            if turn.kind is NextActionKind.RUN:
                assert turn.assignment is not None
                assert turn.assignment.until_step is not None
                one = turn.assignment
                level = float(one.params["lr"] or 0) + one.seed / 2**34
                running[one.segment] = (one.from_step + 1, turn.assignment.until_step, level)
        while running:
            segment = chance.choice(sorted(running))
            step, last, level = running.pop(segment)
            services.segments.report(
                segment, [Report(step=step, metrics={"accuracy": level + step / 100})]
            )
            if step < last:
                running[segment] = (step + 1, last, level)
            else:
                services.segments.finish(
                    segment, SegmentResult(outcome=Outcome.COMPLETED, step=step)
                )
        services.rounds.collect(study_id, number, [])
        if services.studies.verdict(study_id).kind is VerdictKind.STOP:
            break
    record = services.ledger.get(study_id)
    return [
        (item.params, item.value, item.state, item.reason)
        for item in list_trials(services.ledger, record)
    ]


def test_a_seed_gives_the_same_study_in_whatever_order_trials_finish(services: Gateway) -> None:
    first = run(services, "one", order=1)
    assert len(first) == 12
    assert {state for _, _, state, _ in first} == {TrialState.COMPLETED, TrialState.PRUNED}
    assert run(services, "two", order=2) == first
    assert run(services, "three", order=3) == first
    other = run(services, "four", order=1, seed=8)
    assert [params for params, *_ in other] != [params for params, *_ in first]
