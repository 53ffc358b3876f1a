"""The score cache on a real ledger, as tasks and agents meet it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import optuna
import pytest

from hpo_ops.client import NextAction, NextActionKind, Served, StudyRequest, TrialSummary, Waiter
from hpo_ops.core import TrialState
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.gateway.queries.best_trial import find_best
from hpo_ops.gateway.queries.kept_checkpoints import list_kept
from hpo_ops.gateway.queries.study_overview import read_progress
from hpo_ops.gateway.queries.trial_lists import list_trials, read_learning_curve
from hpo_ops.ledger._schema import leases
from hpo_ops.ledger.learning_curves import RecordedReport
from hpo_ops.protocol import Action, Checkpoint, Outcome, Provenance, Report, SegmentResult
from tests.studies import study_data

STORE = "s3://hpo"
SAMPLE_SPACE = {
    "optimizer": ["adam", "sgd", "rmsprop"],
    "pca_components": [50, 51, 52],
    "num_layers": [1, 2, 3, 4],
    "lr": [1e-3, 5e-3, 1e-4],
}
ONE_POINT = {"width": [8]}
DEFAULT = {"name": "default", "max_steps": 3}


def start(services: Gateway, name: str = "small", *, code: str = "abc", **changes: Any) -> int:
    data = study_data(
        name=name,
        **{
            "space": ONE_POINT,
            "scheduler": DEFAULT,
            "flow": "rolling",
            "checkpoints": {"store": STORE},
            **changes,
        },
    )
    request = StudyRequest(
        config=data, dag_id=name, run_id="run-1", owner="ann", origin=Provenance(code_hash=code)
    )
    return services.studies.start(request).id


class Lab:
    """Runs studies as tasks and agents would, and counts trainings."""

    def __init__(self, services: Gateway) -> None:
        self.services = services
        self.trainings: list[tuple[int, int | None]] = []
        self.points: list[tuple[object, ...]] = []

    def turn(self, study_id: int, trial: int, key: str = "a") -> NextAction:
        return self.services.next_actions.next_action(study_id, trial, key=key)

    def train(self, turn: NextAction, *, until: int | None = None) -> None:
        """Trains a segment to its end, or says so little that it is in the middle of it."""
        assignment = turn.assignment
        assert assignment is not None
        self.trainings.append((assignment.from_step, assignment.until_step))
        self.points.append(tuple(assignment.params.values()))
        last = until or assignment.until_step or 3
        action = Action.CONTINUE
        step = assignment.from_step
        while step < last and action is Action.CONTINUE:
            step += 1
            report = Report(step=step, metrics={"accuracy": score(assignment.params, step)})
            action = self.services.segments.report(assignment.segment, [report]).action
            uri = f"{STORE}/{assignment.study}/trials/{assignment.trial}/{step}"
            saved = Checkpoint(step=step, uri=uri, files=1, bytes=9, digest=f"{step:064x}")
            self.services.segments.checkpoint(assignment.segment, saved)
        if until is None:
            outcome = {Action.CONTINUE: Outcome.COMPLETED, Action.PAUSE: Outcome.PAUSED}.get(
                action, Outcome.STOPPED
            )
            self.services.segments.finish(
                assignment.segment, SegmentResult(outcome=outcome, step=step)
            )

    def finish_trial(self, study_id: int, trial: int) -> TrialSummary:
        turn = self.turn(study_id, trial)
        while turn.kind is NextActionKind.RUN:
            self.train(turn)
            turn = self.turn(study_id, trial, key="again")
        assert turn.kind is NextActionKind.DONE, turn.reason
        return self.summaries(study_id)[trial]

    def summaries(self, study_id: int) -> list[TrialSummary]:
        return list_trials(self.services.ledger, self.services.ledger.get(study_id))

    def curve(self, study_id: int, trial: int) -> list[RecordedReport]:
        return read_learning_curve(self.services.ledger, self.services.ledger.get(study_id), trial)


def score(params: dict[str, Any], step: int) -> float:
    return sum(hash_of(value) for value in params.values()) / 100 + step / 1000


def hash_of(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else len(str(value))


@pytest.fixture
def lab(services: Gateway) -> Lab:
    return Lab(services)


# -- the sample job of the paper -------------------------------------------------------------


def run_rolling(lab: Lab, study_id: int, trials: int) -> int:
    """Keeps every place busy; the oldest training ends next. Returns the most that waited."""
    running: dict[int, NextAction] = {}
    over: set[int] = set()
    waited: set[int] = set()
    for turns in range(10 * trials):
        for number in range(trials):
            if number in over or number in running:
                continue
            turn = lab.turn(study_id, number, key=f"{number}/{turns}")
            if turn.kind is NextActionKind.RUN:
                running[number] = turn
            elif turn.kind is NextActionKind.DONE:
                over.add(number)
            elif turn.is_next:
                break
            elif "is identical" in turn.reason:
                waited.add(number)
        if len(over) == trials:
            return len(waited)
        number, turn = next(iter(running.items()))
        lab.train(turn)
        del running[number]
    raise AssertionError("the study does not end")


def run_rounds(lab: Lab, study_id: int, trials: int) -> int:
    waited = 0
    for number in range(trials):
        group = lab.services.rounds.sample(study_id, number)
        left = [member.trial for member in group.trials]
        while left:
            turns = {
                trial: lab.turn(study_id, trial, key=f"{number}/{len(left)}") for trial in left
            }
            waited += sum(turn.kind is NextActionKind.WAIT for turn in turns.values())
            for trial, turn in turns.items():
                if turn.kind is NextActionKind.RUN:
                    lab.train(turn)
                elif turn.kind is NextActionKind.DONE:
                    left.remove(trial)
        lab.services.rounds.collect(study_id, number, [])
        if all(item.state.is_finished for item in lab.summaries(study_id)[:trials]) and (
            len(lab.summaries(study_id)) == trials
        ):
            return waited
    raise AssertionError("the study does not end")


@pytest.mark.parametrize(("flow", "run"), [("rolling", run_rolling), ("rounds", run_rounds)])
def test_the_sample_job_of_108_points_and_150_iterations_trains_each_point_once(
    lab: Lab, database: str, flow: str, run: Callable[[Lab, int, int], int]
) -> None:
    study_id = start(
        lab.services,
        flow=flow,
        space=SAMPLE_SPACE,
        sampler="random",
        trials=150,
        parallelism=8,
        scheduler={"name": "default", "max_steps": 1},
    )
    waited = run(lab, study_id, 150)
    summaries = lab.summaries(study_id)
    assert [item.state for item in summaries] == [TrialState.COMPLETED] * 150
    assert len(lab.trainings) == len(set(lab.points)) <= 108
    served = [item for item in summaries if item.served]
    assert len(served) == 150 - len(lab.trainings) >= 42
    assert waited > 0  # two of a kind came at the same time, and the second waited
    for item in summaries:
        assert item.value == pytest.approx(score(dict(item.params), 1))
    for item in served:
        assert item.served is not None
        assert item.params == summaries[item.served.trial].params
        assert item.reason == f"1 steps from the cache: trial {item.served.trial} of small/run-1"
    lab.services.proposals.tell(study_id)
    seen = optuna.load_study(study_name="small/run-1", storage=database).trials
    assert [trial.value for trial in seen] == [item.value for item in summaries]


# -- inside of a study -----------------------------------------------------------------------


def test_a_duplicate_has_the_curve_of_the_one_that_trained(lab: Lab, database: str) -> None:
    study_id = start(lab.services, trials=2, parallelism=1)
    lab.finish_trial(study_id, 0)
    again = lab.finish_trial(study_id, 1)
    assert lab.trainings == [(0, 3)]
    assert again.served == Served(study="small/run-1", trial=0, step=3)
    assert lab.curve(study_id, 1) == lab.curve(study_id, 0)
    progress = read_progress(lab.services.ledger, lab.services.ledger.get(study_id))
    assert progress.served == 1
    lab.services.proposals.tell(study_id)
    first, second = optuna.load_study(study_name="small/run-1", storage=database).trials
    assert first.intermediate_values == second.intermediate_values
    with lab.services.ledger.study(study_id) as session:
        rows = session.trials.select([0, 1])
    assert rows[0].seed == rows[1].seed


def test_a_study_without_the_cache_trains_duplicates_with_seeds_of_their_own(lab: Lab) -> None:
    study_id = start(lab.services, trials=2, parallelism=1, cache=False)
    seeds = set()
    for trial in range(2):
        turn = lab.turn(study_id, trial)
        assert turn.assignment is not None
        seeds.add(turn.assignment.seed)
        lab.train(turn)
    assert lab.trainings == [(0, 3), (0, 3)]
    assert len(seeds) == 2


def test_the_second_of_two_at_the_same_time_waits_and_is_woken(lab: Lab) -> None:
    study_id = start(lab.services, trials=2, parallelism=2)
    first = lab.turn(study_id, 0)
    second = lab.turn(study_id, 1)
    assert (second.kind, second.reason) == (
        NextActionKind.WAIT,
        "trial 0 of small/run-1 is identical and is being trained: waiting for its reports",
    )
    wait = [Waiter(study_id=study_id, trial=1)]
    assert lab.services.next_actions.ready(wait) == []
    lab.train(first)
    assert [answer.trial for answer in lab.services.next_actions.ready(wait)] == [1]
    assert lab.turn(study_id, 1).kind is NextActionKind.DONE
    assert len(lab.trainings) == 1


@pytest.mark.parametrize("end", ["fails", "is killed"])
def test_the_second_trains_where_the_first_gave_no_result(lab: Lab, end: str) -> None:
    study_id = start(lab.services, trials=2, parallelism=2)
    first = lab.turn(study_id, 0)
    assert lab.turn(study_id, 1).kind is NextActionKind.WAIT
    assert first.assignment is not None
    if end == "fails":
        lab.services.segments.finish(
            first.assignment.segment, SegmentResult(outcome=Outcome.FAILED, reason="boom")
        )
    else:  # nobody tells, and nobody renews its lease
        with lab.services.ledger.engine.begin() as connection:
            connection.execute(leases.update().values(expires_at="2020-01-01"))
    assert [
        one.trial for one in lab.services.next_actions.ready([Waiter(study_id=study_id, trial=1)])
    ] == [1]
    assert lab.turn(study_id, 1).kind is NextActionKind.RUN


def test_the_second_goes_on_from_the_checkpoint_of_a_first_that_failed(lab: Lab) -> None:
    study_id = start(lab.services, trials=2, parallelism=1)
    turn = lab.turn(study_id, 0)
    lab.train(turn, until=2)
    assert turn.assignment is not None
    lab.services.segments.finish(
        turn.assignment.segment, SegmentResult(outcome=Outcome.FAILED, reason="boom")
    )
    second = lab.finish_trial(study_id, 1)
    assert lab.trainings == [(0, 3), (2, 3)]
    assert (second.state, second.served) == (
        TrialState.COMPLETED,
        Served(study="small/run-1", trial=0, step=2),
    )


def test_the_best_of_two_of_a_kind_has_the_checkpoint_of_the_one_that_trained(lab: Lab) -> None:
    study_id = start(lab.services, flow="rounds", trials=2, parallelism=2)
    lab.services.rounds.sample(study_id, 0)
    lab.train(lab.turn(study_id, 1))  # the second came first
    assert lab.finish_trial(study_id, 0).served == Served(study="small/run-1", trial=1, step=3)
    uri = f"{STORE}/small/run-1/trials/1/3"
    record = lab.services.ledger.get(study_id)
    for _ in range(2):
        best = find_best(lab.services.ledger, record)
        assert best is not None
        assert (best.trial, best.checkpoint_uri, best.checkpoint_step) == (0, uri, 3)
        assert list_kept(lab.services.ledger, record) == [(1, 3)]
        lab.services.studies.end(study_id, {})


def test_schedulers_judge_what_is_served_as_if_it_were_trained(lab: Lab) -> None:
    """Of four points three are good; a bad one is stopped at the rung, trained or served."""
    study_id = start(
        lab.services,
        space={"width": [4, 64]},
        enqueue=[{"width": 64}, {"width": 64}, {"width": 64}, {"width": 4}, {"width": 4}],
        trials=5,
        parallelism=1,
        scheduler={"name": "asha", "min_steps": 1, "max_steps": 9, "eta": 3},
    )
    found = [lab.finish_trial(study_id, trial) for trial in range(5)]
    assert lab.trainings == [(0, 9), (0, 9)]
    assert [item.state for item in found[3:]] == [TrialState.PRUNED, TrialState.PRUNED]
    assert [item.step for item in found] == [9, 9, 9, 1, 1]
    assert found[4].reason.endswith("(from the cache: trial 3 of small/run-1)")


# -- across studies --------------------------------------------------------------------------

DATA = {"version": "2026-01"}


def test_another_study_of_the_same_code_and_data_is_served(lab: Lab) -> None:
    first = start(lab.services, trials=1, data=DATA)
    lab.finish_trial(first, 0)
    second = start(lab.services, "other", trials=1, data=DATA)
    served = lab.finish_trial(second, 0)
    assert len(lab.trainings) == 1
    assert served.served == Served(study="small/run-1", trial=0, step=3)
    assert served.reason == "3 steps from the cache: trial 0 of small/run-1"
    best = find_best(lab.services.ledger, lab.services.ledger.get(second))
    assert best is not None
    assert best.checkpoint_uri == f"{STORE}/small/run-1/trials/0/3"


@pytest.mark.parametrize(
    "change",
    [
        {"code": "def"},
        {"data": {"version": "2026-02"}},
        {"data": {}},
        {"seed": 8},
        {"command": "python train.py --fast"},
        {"env": {"FAST": "1"}},
        {"space": {"width": [9]}},
        {"cache": False},
        {"metric": {"name": "loss", "direction": "minimize"}},
    ],
    ids=str,
)
def test_what_differs_in_anything_that_counts_is_trained(lab: Lab, change: dict[str, Any]) -> None:
    first = start(lab.services, trials=1, data=DATA)
    lab.finish_trial(first, 0)
    second = start(lab.services, "other", **{"trials": 1, "data": DATA, **change})
    assert lab.turn(second, 0).kind is NextActionKind.RUN


def test_of_two_studies_that_start_the_same_at_once_only_one_trains(lab: Lab) -> None:
    study_ids = [start(lab.services, name, trials=1, data=DATA) for name in ("one", "two")]
    together = Barrier(2)

    def ask(study_id: int) -> NextAction:
        together.wait()
        return lab.turn(study_id, 0)

    with ThreadPoolExecutor(2) as pool:
        turns = list(pool.map(ask, study_ids))
    assert sorted(turn.kind for turn in turns) == [NextActionKind.RUN, NextActionKind.WAIT]
    for study_id, turn in zip(study_ids, turns, strict=True):
        if turn.kind is NextActionKind.RUN:
            lab.train(turn)
        else:
            waits = study_id
    assert lab.finish_trial(waits, 0).served is not None
    assert len(lab.trainings) == 1


def test_ten_steps_serve_ten_and_are_the_beginning_of_twenty(lab: Lab) -> None:
    ten = {"name": "default", "max_steps": 10}
    lab.finish_trial(start(lab.services, trials=1, data=DATA, scheduler=ten), 0)
    same = lab.finish_trial(start(lab.services, "same", trials=1, data=DATA, scheduler=ten), 0)
    assert same.step == 10
    twenty = {"name": "default", "max_steps": 20}
    longer = start(lab.services, "longer", trials=1, data=DATA, scheduler=twenty)
    turn = lab.turn(longer, 0)
    assert turn.assignment is not None
    assert (turn.assignment.from_step, turn.assignment.until_step) == (10, 20)
    assert turn.assignment.restore_from == "small/run-1/trials/0"
    assert turn.assignment.saved is not None
    newest = turn.assignment.saved[0]
    assert (newest.path, newest.digest) == ("small/run-1/trials/0/10", f"{10:064x}")
    # A worker that dies before its first checkpoint goes on from the same place.
    again = lab.turn(longer, 0, key="another worker").assignment
    assert again is not None
    assert (again.from_step, again.restore_from) == (10, "small/run-1/trials/0")
    turn = lab.turn(longer, 0, key="a third")
    lab.train(turn, until=11)
    own = lab.turn(longer, 0, key="a fourth").assignment
    assert own is not None
    assert (own.from_step, own.restore_from) == (11, None)
    lab.train(lab.turn(longer, 0, key="a fourth"))
    done = lab.summaries(longer)[0]
    assert (done.state, done.step, done.served) == (
        TrialState.COMPLETED,
        20,
        Served(study="small/run-1", trial=0, step=10),
    )
    assert [point.step for point in lab.curve(longer, 0)] == list(range(1, 21))
    five = start(lab.services, "five", trials=1, data=DATA, scheduler={**ten, "max_steps": 5})
    assert lab.finish_trial(five, 0).step == 5
    assert len(lab.trainings) == 3


def test_a_checkpoint_that_was_collected_is_no_place_to_go_on_from(lab: Lab) -> None:
    first = start(
        lab.services,
        trials=2,
        parallelism=1,
        data=DATA,
        space={"width": [8, 64]},
        enqueue=[{"width": 8}, {"width": 64}],
        checkpoints={"store": STORE, "keep": 1},
    )
    for trial in range(2):
        lab.finish_trial(first, trial)
    lab.services.studies.end(first, {})
    nine = {"name": "default", "max_steps": 9}
    second = start(lab.services, "longer", trials=1, data=DATA, scheduler=nine)
    turn = lab.turn(second, 0)
    assert turn.assignment is not None
    assert (turn.assignment.params, turn.assignment.from_step) == ({"width": 8}, 0)


def test_a_training_that_decides_when_it_ends_serves_only_when_it_has(lab: Lab) -> None:
    open_end = {"name": "default"}
    first = start(lab.services, trials=1, data=DATA, scheduler=open_end)
    turn = lab.turn(first, 0)
    lab.train(turn, until=2)
    second = start(lab.services, "other", trials=1, data=DATA, scheduler=open_end)
    assert lab.turn(second, 0).kind is NextActionKind.WAIT
    assert turn.assignment is not None
    last = Report(step=3, metrics={"accuracy": 0.5})
    lab.services.segments.report(turn.assignment.segment, [last])
    lab.services.segments.finish(
        turn.assignment.segment, SegmentResult(outcome=Outcome.COMPLETED, step=3)
    )
    assert lab.finish_trial(second, 0).step == 3
    assert len(lab.trainings) == 1


def test_a_target_that_a_served_trial_reaches_ends_the_study(lab: Lab) -> None:
    lab.finish_trial(start(lab.services, trials=1, data=DATA), 0)
    target = {"name": "accuracy", "direction": "maximize", "target": 0.082}
    second = start(lab.services, "other", trials=4, data=DATA, metric=target)
    done = lab.finish_trial(second, 0)
    assert (done.state, done.step) == (TrialState.COMPLETED, 2)
    assert "target 0.082 reached" in lab.services.ledger.get(second).reason
    assert len(lab.trainings) == 1
