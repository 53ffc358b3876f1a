"""REINFORCE: a policy that learns which configurations do well."""

from __future__ import annotations

import importlib
import math
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpo_ops.core.policy_options import check_at_least, check_between
from hpo_ops.core.search_space import Space
from hpo_ops.core.seeds import derive_seed
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers.distributions import to_distribution
from hpo_ops.samplers.parameter_bins import ABSENT, to_axis

if TYPE_CHECKING:
    from hpo_ops.samplers.reinforce_policy import Policy

Worth = tuple[int, float, float]
"""What a trial is worth, to be compared only."""
Mark = tuple[int, object, object]
"""Names a told trial and its score, whatever database it is in."""
MAX_LEARNERS = 8
"""Policies that stay in memory between asks; others are learnt again from the told trials."""


class ReinforceSampler(BaseSampler):
    """Draws configurations from an autoregressive policy that is trained by policy gradient.

    Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement
    learning", Machine Learning 8, 1992; with a policy of masked attention as in Krishna et al.,
    "Neural Architecture Search with Reinforce and Masked Attention Autoregressive Density
    Estimators", 2020 (https://arxiv.org/abs/2006.00939). docs/samplers.md has the formula, its
    symbols and where this departs from the papers.

    The policy follows from the seed, the options and the told trials in the order in which they
    ended. A process that has it in memory learns from what is new; another one from all of them.

    Args:
        space: The study's space; parameters are drawn in its order.
        seed: The same for every ask of a study.
        constraints_func: By how much a trial violates each constraint.
        batch: Told trials that make one step of learning (n).
        learning_rate: Step of Adam.
        entropy: Weight of the entropy in the objective (β).
        bins: Bins of a number at most.
        width: Numbers that stand for a parameter or a value in the policy.
    """

    def __init__(
        self,
        *,
        space: Space,
        seed: int,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        batch: int = 8,
        learning_rate: float = 0.02,
        entropy: float = 0.1,
        bins: int = 16,
        width: int = 32,
    ) -> None:
        check_between("batch", batch, 2, 1000)
        check_between("learning_rate", learning_rate, 1e-6, 1)
        check_at_least("entropy", entropy, 0)
        check_between("bins", bins, 2, 256)
        check_between("width", width, 2, 256)
        importlib.import_module("torch")
        self._space = space
        self._axes = {name: to_axis(parameter, bins) for name, parameter in space.items()}
        self._seed = seed
        self._constraints = constraints_func
        self._batch = batch
        self._options = {"learning_rate": learning_rate, "entropy": entropy, "width": width}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {name: to_distribution(parameter) for name, parameter in self._space.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        fixed = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        told = self._told(study)
        learner = _learners.take(self._identity(study), [mark for mark, _ in told])
        if learner is None:
            learner = self._new_learner()
        for mark, ended in told[len(learner.marks) :]:
            learner.tell(mark, self._encode(ended.params), self._worth(study, ended))
        drawn = self._draw(learner.policy, trial.number, fixed)
        _learners.give_back(self._identity(study), learner)
        return drawn

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        seed = derive_seed(self._seed, trial.number, param_name)
        return RandomSampler(seed).sample_independent(study, trial, param_name, param_distribution)

    def _identity(self, study: Study) -> str:
        return repr((study.study_name, self._seed, self._batch, self._options, self._axes))

    def _new_learner(self) -> Learner:
        policy = importlib.import_module("hpo_ops.samplers.reinforce_policy").Policy(
            list(self._axes.values()), seed=derive_seed(self._seed, "policy"), **self._options
        )
        return Learner(policy, self._batch)

    def _told(self, study: Study) -> list[tuple[Mark, FrozenTrial]]:
        """Trials that have ended with something to learn from, in the order in which they did."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        ended = study.get_trials(deepcopy=False, states=states)
        ended.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        return [((each.number, each.datetime_complete, each.values), each) for each in ended]

    def _worth(self, study: Study, trial: FrozenTrial) -> Worth:
        """Completed trials before pruned ones, and those before what violates a constraint."""
        sign = 1.0 if study.direction is StudyDirection.MAXIMIZE else -1.0
        violations = self._constraints(trial) if self._constraints is not None else ()
        if violation := sum(each for each in violations if each > 0):
            return (0, -violation, 0.0)
        if trial.value is not None and trial.state is TrialState.COMPLETE:
            return (2, sign * trial.value, 0.0)
        if not trial.intermediate_values:
            return (1, -math.inf, 0.0)
        step = max(trial.intermediate_values)
        return (1, step, sign * trial.intermediate_values[step])

    def _encode(self, params: dict[str, Any]) -> list[int]:
        return [
            axis.encode(params[name]) if name in params else ABSENT
            for name, axis in self._axes.items()
        ]

    def _draw(self, policy: Policy, number: int, fixed: dict[str, Any]) -> dict[str, Any]:
        """A configuration; what is fixed is as it is, and the rest knows of it."""
        params: dict[str, ParamValue] = {}
        taken: list[int] = []
        for name, axis in self._axes.items():
            if not self._space.exists(name, params):
                taken.append(ABSENT)
                continue
            if name in fixed:
                params[name] = fixed[name]
            else:
                # Each draw has a seed of its own, so that what is fixed moves no other.
                random = Random(derive_seed(self._seed, "draw", number, name))  # noqa: S311  no secret
                chances = policy.probabilities(taken)
                (index,) = random.choices(range(len(chances)), chances)
                params[name] = axis.decode(index, random)
            taken.append(axis.encode(params[name]))
        return params


class Learner:
    """A policy and what it has learnt from.

    Attributes:
        policy: The policy.
        marks: The trials that it was told of, in order.
    """

    def __init__(self, policy: Policy, batch: int) -> None:
        self.policy = policy
        self.marks: list[Mark] = []
        self._batch = batch
        self._worths: list[Worth] = []
        self._waiting: list[tuple[Sequence[int], Worth]] = []

    def tell(self, mark: Mark, point: Sequence[int], worth: Worth) -> None:
        """Takes a trial in; a whole batch makes one step of learning."""
        self.marks.append(mark)
        insort(self._worths, worth)
        self._waiting.append((point, worth))
        if len(self._waiting) == self._batch:
            ranks = [_rank(self._worths, each) for _, each in self._waiting]
            points = [point for point, _ in self._waiting]
            self.policy.learn(points, advantages(ranks, len(self._worths)))
            self._waiting = []


def advantages(ranks: Sequence[float], count: int) -> list[float]:
    """What trials are worth by their rank among all told ones, 1 for the best.

    Only the better half counts, the more the better: u(r) = max(0, log(n/2 + 1) - log r). Less its
    mean and divided by its deviation over all ranks, so that scores of any scale teach the same.

    Args:
        ranks: Their ranks; halves for ties.
        count: Told trials (n).
    """
    top = math.log(count / 2 + 1)
    every = [max(0.0, top - math.log(rank)) for rank in range(1, count + 1)]
    mean = math.fsum(every) / count
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in every) / count)
    return [(max(0.0, top - math.log(rank)) - mean) / (deviation or 1.0) for rank in ranks]


def _rank(worths: Sequence[Worth], worth: Worth) -> float:
    """The place among the sorted, 1 for the best; the mean place of those that are the same."""
    first, after = bisect_left(worths, worth), bisect_right(worths, worth)
    return len(worths) - (first + after - 1) / 2


class _Learners:
    """Learners in memory. One that is taken is nobody else's until it is given back."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, Learner] = OrderedDict()
        self._lock = Lock()

    def take(self, identity: str, marks: Sequence[Mark]) -> Learner | None:
        """The learner, if the trials that it knows are the first of the told ones."""
        with self._lock:
            learner = self._idle.pop(identity, None)
        if learner is None or learner.marks != marks[: len(learner.marks)]:
            return None
        return learner

    def give_back(self, identity: str, learner: Learner) -> None:
        """Keeps a learner; the one that was not asked for longest is dropped."""
        with self._lock:
            self._idle[identity] = learner
            while len(self._idle) > MAX_LEARNERS:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._idle.clear()


_learners = _Learners()


def forget_learners() -> None:
    """Drops what is in memory; the next ask learns from the told trials again."""
    _learners.clear()
