"""REINFORCE: what it learns, what it follows from, and that it beats chance."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from optuna.storages import InMemoryStorage
from scipy.stats import wilcoxon

from hpo_ops.core import Direction, TrialState
from hpo_ops.core.param_fitting import fit
from hpo_ops.core.search_space import Categorical, Float, Int, Space
from hpo_ops.samplers import reinforce
from hpo_ops.samplers._parameter_bins import ABSENT, to_axis
from hpo_ops.samplers._sampler_registry import check_sampler
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.reinforce import Learner, advantages, forget_learners
from hpo_ops.samplers.reinforce_policy import Policy

SPACE = Space(
    {
        "lr": Float(low=1e-4, high=1e-1, log=True),
        "width": Int(low=4, high=64, step=4),
        "depth": Int(low=1, high=8, log=True),
        "beta": Float(low=0.5, high=0.95, step=0.05),
        "optimizer": Categorical(choices=("adam", "sgd", None)),
        "momentum": Float(low=0.0, high=0.99, when={"optimizer": ("sgd",)}),
        "nesterov": Categorical(choices=(True, False), when={"optimizer": ("sgd",)}),
    }
)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget_learners()
    yield
    forget_learners()


def policy(space: Space = SPACE, **changes: Any) -> Policy:
    options = {"width": 16, "learning_rate": 0.05, "entropy": 0.0, **changes}
    return Policy([to_axis(each, 8) for each in space.values()], seed=1, **options)


def search(name: str = "study", storage: Any = None, **changes: Any) -> Search:
    arguments: dict[str, Any] = {
        "space": SPACE,
        "directions": [Direction.MINIMIZE],
        "sampler": "reinforce",
        "options": {"batch": 4},
        "seed": 7,
        **changes,
    }
    return Search(storage=storage or InMemoryStorage(), name=name, **arguments)


def loss(params: dict[str, Any]) -> float:
    """Small for sgd with momentum near 0.9, a middling rate and a width that fits the depth."""
    value: float = abs(params["width"] / 64 - params["depth"] / 8) + abs(params["lr"] - 0.01)
    if params["optimizer"] == "sgd":
        value += abs(params["momentum"] - 0.9) + 0.3 * (not params["nesterov"])
    else:
        value += 1.0
    return value


def story(asking: Search, count: int, start: int = 0) -> list[dict[str, Any]]:
    found = []
    for number in range(start, count):
        found.append(asking.ask(number))
        asking.tell(number, TrialState.COMPLETED, values=[loss(found[-1])])
    return found


# -- the policy ------------------------------------------------------------------------------


def test_it_starts_as_the_space_itself() -> None:
    fresh = policy()
    taken: list[int] = []
    for parameter in SPACE.values():
        axis = to_axis(parameter, 8)
        assert fresh.probabilities(taken) == pytest.approx(list(axis.priors))
        taken.append(ABSENT if parameter.when else 0)


def test_it_learns_what_goes_together() -> None:
    """Two switches that should be equal: neither alone says anything."""
    pair = Space({name: Categorical(choices=(0, 1)) for name in ("one", "two")})
    learner = policy(pair)
    points = [(0, 0), (1, 1), (0, 1), (1, 0)]
    for _ in range(60):
        learner.learn(points, [1.0, 1.0, -1.0, -1.0])
    assert learner.probabilities([]) == pytest.approx([0.5, 0.5], abs=0.1)
    assert learner.probabilities([0])[0] > 0.9
    assert learner.probabilities([1])[1] > 0.9


def test_a_parameter_knows_nothing_of_those_after_it() -> None:
    learner = policy()
    before = learner.probabilities([3])
    for index in range(2, 8):
        learner.learn([[3, 1, *[0] * 5], [3, 1, *[1] * 5]], [1.0, -1.0 * index])
    assert learner.probabilities([3]) != before
    logs = learner._logs(torch.tensor([[3, 1, 0, 0, 0, 0, 0], [3, 1, 2, 5, 1, ABSENT, ABSENT]]))
    assert torch.allclose(logs[0, :3], logs[1, :3])
    assert not torch.allclose(logs[0, 3], logs[1, 3])


def test_neighbours_of_a_good_number_gain_too() -> None:
    line = Space({"x": Float(low=0, high=1)})
    learner = policy(line)
    for _ in range(3):
        learner.learn([[5], [1]], [1.0, -1.0])
    chances = learner.probabilities([])
    assert max(chances) == chances[5]
    assert (chances[4] + chances[6]) / 2 > 1 / 8 > max(chances[0:3])


def test_what_does_not_exist_teaches_nothing() -> None:
    pair = Space(
        {
            "one": Categorical(choices=(0, 1)),
            "two": Categorical(choices=("a", "b"), when={"one": (1,)}),
        }
    )
    learner = policy(pair, entropy=0.5)
    for _ in range(10):
        learner.learn([[0, ABSENT], [0, ABSENT]], [1.0, 1.0])
    assert learner.probabilities([])[0] > 0.6
    assert learner.probabilities([1]) == pytest.approx([0.5, 0.5])


def test_entropy_keeps_it_undecided() -> None:
    one = Space({"x": Categorical(choices=(0, 1, 2))})
    decided, undecided = policy(one), policy(one, entropy=2.0)
    for _ in range(40):
        for each in (decided, undecided):
            each.learn([[0], [1]], [1.0, -1.0])
    assert max(decided.probabilities([])) > 0.95 > 0.8 > max(undecided.probabilities([]))


def test_advantages_lift_the_better_half_and_sum_to_nothing() -> None:
    ranks = list(range(1, 11))
    found = advantages(ranks, 10)
    assert found == sorted(found, reverse=True)
    assert sum(found) == pytest.approx(0)
    assert sum(each**2 for each in found) / 10 == pytest.approx(1)
    assert found[6:] == [found[6]] * 4
    assert advantages([1, 2.5], 1000)[0] > advantages([1], 10)[0]


def test_the_same_scores_have_the_same_rank() -> None:
    worths = sorted([(2, 1.0, 0.0), (2, 3.0, 0.0), (2, 1.0, 0.0), (1, 9.0, 5.0)])
    assert [reinforce._rank(worths, each) for each in worths] == [4, 2.5, 2.5, 1]


# -- the sampler -----------------------------------------------------------------------------


def test_every_draw_is_a_point_of_the_space() -> None:
    for params in story(search(), 40):
        assert fit(SPACE, params) == (params, [])


def test_a_process_that_starts_cold_proposes_the_same() -> None:
    storage = InMemoryStorage()
    warm = story(search(storage=storage), 24)
    again = search("again")
    cold = []
    for number in range(24):
        forget_learners()
        cold += story(again, number + 1, number)
    assert cold == warm


def test_an_ask_learns_from_what_is_new_only(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    tell = Learner.tell

    def note(learner: Learner, mark: Any, *rest: Any) -> None:
        told.append(mark[0])
        tell(learner, mark, *rest)

    monkeypatch.setattr(Learner, "tell", note)
    asking = search()
    story(asking, 20)
    assert told == list(range(19))


def test_studies_of_the_same_name_and_seed_do_not_mix() -> None:
    one, two = search(), search()
    found = [one.ask(0), two.ask(0)]
    assert found[0] == found[1]
    for number in range(12):
        one.ask(number)
        two.ask(number)
        one.tell(number, TrialState.COMPLETED, values=[float(number)])
        two.tell(number, TrialState.COMPLETED, values=[float(-number)])
    alone = search()
    for number in range(12):
        alone.ask(number)
        alone.tell(number, TrialState.COMPLETED, values=[float(number)])
    expected = alone.ask(12)
    assert two.ask(12) != expected
    assert one.ask(12) == expected


def test_the_seed_decides() -> None:
    one = story(search("one"), 12)
    assert story(search("two"), 12) == one
    assert story(search("three", seed=8), 12) != one


def test_what_is_fixed_stays_and_the_rest_knows_of_it() -> None:
    sampler = reinforce.ReinforceSampler(space=SPACE, seed=3)
    drawn = sampler._draw(sampler._new_learner().policy, 0, {"optimizer": "sgd", "width": 8})
    assert (drawn["optimizer"], drawn["width"]) == ("sgd", 8)
    assert "momentum" in drawn
    free = sampler._draw(sampler._new_learner().policy, 0, {})
    assert drawn["lr"] == free["lr"]


def test_a_trial_is_worth_less_pruned_and_least_impossible() -> None:
    storage = InMemoryStorage()
    asking = search(storage=storage, has_constraints=True)
    for number in range(6):
        asking.ask(number)
    asking.tell(0, TrialState.COMPLETED, values=[0.9])
    asking.tell(1, TrialState.COMPLETED, values=[0.1])
    asking.tell(2, TrialState.PRUNED, values=None, curve=[(1, 0.01)])
    asking.tell(3, TrialState.PRUNED, values=None, curve=[(1, 0.5), (4, 0.5)])
    asking.tell(4, TrialState.PRUNED, values=None, violations=[0.5, -1.0])
    asking.tell(5, TrialState.PRUNED, values=None)
    study = asking._study(0)
    sampler: Any = study.sampler
    worth = {trial.number: sampler._worth(study, trial) for _, trial in sampler._finished(study)}
    assert sorted(worth, key=lambda number: worth[number], reverse=True) == [1, 0, 3, 2, 5, 4]


SEEDS = range(100, 112)


def test_it_beats_random_on_a_space_with_structure() -> None:
    """The best loss of 80 trials, pairs of the same seed, a one-sided signed-rank test."""

    def best(sampler: str, seed: int) -> float:
        options: dict[str, Any] = {}
        asking = search(f"{sampler}-{seed}", sampler=sampler, options=options, seed=seed)
        return min(map(loss, story(asking, 80)))

    ours = [best("reinforce", seed) for seed in SEEDS]
    chance = [best("random", seed) for seed in SEEDS]
    assert wilcoxon(ours, chance, alternative="less").pvalue < 0.01


# -- torch -----------------------------------------------------------------------------------


def test_torch_is_loaded_when_the_sampler_is_used_only() -> None:
    code = (
        "import sys\n"
        "from hpo_ops.config import parse_study\n"
        "from tests.studies import study_data\n"
        "parse_study(study_data(sampler='reinforce'), source='x')\n"
        "parse_study(study_data(sampler='tpe'), source='x')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_without_torch_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else found(name)
    )
    with pytest.raises(ValueError, match="'reinforce', but it needs torch, which is not inst"):
        check_sampler("reinforce", {}, SPACE)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"batch": 1}, "batch is 1, but must be from 2 to 1000"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0, but must be from"),
        ({"entropy": -0.1}, "entropy is -0.1, but must be 0 or more"),
        ({"bins": 1000}, "bins is 1000, but must be from 2 to 256"),
        ({"bins": "x"}, r"sampler\.bins is 'x', but must be an integer"),
        ({"beta": 1}, r"sampler\.beta is not an option of reinforce; options: batch, bins"),
    ],
)
def test_a_wrong_option_says_what_is_allowed(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_sampler("reinforce", option, SPACE)
