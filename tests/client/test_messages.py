"""Messages of the client: there and back, and clear about what is missing."""

from __future__ import annotations

import pytest

from hpo_ops.client import (
    Best,
    NextAction,
    NextActionKind,
    Progress,
    StudyVerdict,
    TrialResult,
    VerdictKind,
)
from hpo_ops.core import TrialState
from hpo_ops.protocol import Assignment, ProtocolError

ASSIGNMENT = Assignment(study="s", trial=3, segment="x", params={"lr": 0.1}, metrics=["loss"])
SCORE = TrialResult(trial=3, state=TrialState.PRUNED, reason="rank 9 of 9", step=4, value=0.5)
BEST = Best(trial=3, value=0.5, step=4, params={"lr": 0.1}, checkpoint_uri="s3://x")


@pytest.mark.parametrize(
    "message",
    [
        NextAction(kind=NextActionKind.RUN, reason="its turn", assignment=ASSIGNMENT, token="t"),  # noqa: S106
        NextAction(kind=NextActionKind.DONE, reason="done", score=SCORE),
        NextAction(kind=NextActionKind.WAIT, reason="2 of 2 are taken"),
        SCORE,
        BEST,
        StudyVerdict(kind=VerdictKind.STOP, reason="target reached"),
    ],
)
def test_a_message_comes_back_as_it_was(
    message: NextAction | TrialResult | Best | StudyVerdict,
) -> None:
    assert type(message).from_json(message.to_json()) == message


def test_words_of_the_wire_become_enums() -> None:
    turn = NextAction.from_dict({"kind": "done", "reason": "x", "score": SCORE.to_dict()})
    assert turn.kind is NextActionKind.DONE
    assert turn.score is not None
    assert turn.score.state is TrialState.PRUNED


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"reason": "x"}, "NextAction: kind is missing"),
        ({"kind": "dance", "reason": "x"}, "dance"),
        (None, "NextAction: is NoneType, but must be an object"),
        ({"kind": "run", "reason": "x", "assignment": {"trial": 1}}, "study is missing"),
    ],
)
def test_a_message_that_lacks_something_says_what(data: object, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        NextAction.from_dict(data)


def test_what_a_newer_gateway_adds_is_ignored() -> None:
    data = {**BEST.to_dict(), "from_the_future": 1}
    assert Best.from_dict(data) == BEST


def test_progress_without_a_best_trial_has_none() -> None:
    known = {"id": 1, "name": "s", "run_id": "r", "dag_id": "d", "state": "running", "reason": ""}
    more = {"metric": "loss", "direction": "minimize", "trials": 4, "counts": {}, "seconds": 1.0}
    extra = {"key": "s/r", "mapped_trials": 4}
    assert Progress.from_dict({**known, **more, **extra}).best is None
    with_best = {**known, **more, **extra, "best": BEST.to_dict()}
    assert Progress.from_dict(with_best).best == BEST
