"""Implements the REINFORCE sampler: a policy network learns which configurations score well."""

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
from hpo_ops.samplers._distributions import to_distribution
from hpo_ops.samplers._parameter_bins import ABSENT, to_axis

if TYPE_CHECKING:
    from hpo_ops.samplers.reinforce_policy import Policy

Worth = tuple[int, float, float]
"""The sort key of a trial: a larger tuple is a better trial; the numbers have no other meaning."""
Mark = tuple[int, object, object]
"""Identifies a finished trial and its result: trial number, end time and values."""
MAX_LEARNERS = 8
"""Maximum number of policies in memory; a dropped policy is trained again from all trials."""


class ReinforceSampler(BaseSampler):
    """Draws configurations from an autoregressive policy that is trained by policy gradient.

    Williams, "Simple statistical gradient-following algorithms for connectionist reinforcement
    learning", Machine Learning 8, 1992; with a policy of masked attention as in Krishna et al.,
    "Neural Architecture Search with Reinforce and Masked Attention Autoregressive Density
    Estimators", 2020 (https://arxiv.org/abs/2006.00939). docs/samplers.md has the formula, its
    symbols, and the differences from the papers.

    The policy is a function of the seed, the options, and the finished trials in the order in
    which they ended. A process that has the policy in memory trains it with the new trials
    only; any other process trains a policy with all finished trials, with the same result.

    Args:
        space: The search space of the study; parameters are drawn in its order.
        seed: The seed, which must be the same for all trials of a study.
        constraints_func: Returns by how much a trial violates each constraint.
        batch: Number of finished trials for each gradient step.
        learning_rate: Adam's learning rate.
        entropy: Weight of the entropy in the objective (β).
        bins: Maximum number of bins of a numeric parameter.
        width: Dimension of the embeddings of parameters and values.
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
        finished = self._finished(study)
        learner = _learners.pop(self._identity(study), [mark for mark, _ in finished])
        if learner is None:
            learner = self._new_learner()
        for mark, ended in finished[len(learner.marks) :]:
            learner.tell(mark, self._encode(ended.params), self._worth(study, ended))
        drawn = self._draw(learner.policy, trial.number, fixed)
        _learners.put(self._identity(study), learner)
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

    def _finished(self, study: Study) -> list[tuple[Mark, FrozenTrial]]:
        """Returns a study's completed and pruned trials, in the order in which they ended.

        Each trial comes with its mark: its number, end time and values.
        """
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        ended = study.get_trials(deepcopy=False, states=states)
        ended.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        return [((each.number, each.datetime_complete, each.values), each) for each in ended]

    def _worth(self, study: Study, trial: FrozenTrial) -> Worth:
        """Returns the sort key of a finished trial; a better trial has a larger key.

        Completed trials rank above pruned trials, and both above trials that violate a constraint.
        Pruned trials are compared by their last step, then by their value at that step.
        """
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
        """Draws a configuration; fixed parameters keep their values and influence later draws."""
        params: dict[str, ParamValue] = {}
        chosen: list[int] = []
        for name, axis in self._axes.items():
            if not self._space.exists(name, params):
                chosen.append(ABSENT)
                continue
            if name in fixed:
                params[name] = fixed[name]
            else:
                # Each parameter has its own seed, so that a fixed value does not shift the others.
                random = Random(derive_seed(self._seed, "draw", number, name))  # noqa: S311  no secret
                probabilities = policy.probabilities(chosen)
                (index,) = random.choices(range(len(probabilities)), probabilities)
                params[name] = axis.decode(index, random)
            chosen.append(axis.encode(params[name]))
        return params


class Learner:
    """A policy, and the finished trials that were passed to it.

    Attributes:
        policy: The policy network.
        marks: Number, end time and values of each trial passed to `tell`, in order.
    """

    def __init__(self, policy: Policy, batch: int) -> None:
        self.policy = policy
        self.marks: list[Mark] = []
        self._batch = batch
        self._worths: list[Worth] = []
        self._waiting: list[tuple[Sequence[int], Worth]] = []

    def tell(self, mark: Mark, point: Sequence[int], worth: Worth) -> None:
        """Adds a finished trial; trains the policy by one gradient step after each full batch."""
        self.marks.append(mark)
        insort(self._worths, worth)
        self._waiting.append((point, worth))
        if len(self._waiting) == self._batch:
            ranks = [_rank(self._worths, each) for _, each in self._waiting]
            points = [point for point, _ in self._waiting]
            self.policy.learn(points, advantages(ranks, len(self._worths)))
            self._waiting = []


def advantages(ranks: Sequence[float], count: int) -> list[float]:
    """Computes the advantages of trials from their ranks among all finished trials.

    The utility of rank r among n is u(r) = max(0, log(n/2 + 1) - log r), so the worse half has
    utility 0. The advantage is the utility standardised over all ranks. It does not depend on the
    scale of the metric.

    Args:
        ranks: The ranks of the trials, where 1 is the best; tied trials share their mean rank.
        count: The number of finished trials (n).
    """
    top = math.log(count / 2 + 1)
    every = [max(0.0, top - math.log(rank)) for rank in range(1, count + 1)]
    mean = math.fsum(every) / count
    deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in every) / count)
    return [(max(0.0, top - math.log(rank)) - mean) / (deviation or 1.0) for rank in ranks]


def _rank(worths: Sequence[Worth], worth: Worth) -> float:
    """Returns the rank of a sort key among ascending keys.

    Rank 1 is the largest key; equal keys share their mean rank.
    """
    first, after = bisect_left(worths, worth), bisect_right(worths, worth)
    return len(worths) - (first + after - 1) / 2


class _LearnerCache:
    """A thread-safe cache of idle learners; a learner in use is not in the cache."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, Learner] = OrderedDict()
        self._lock = Lock()

    def pop(self, identity: str, marks: Sequence[Mark]) -> Learner | None:
        """Removes and returns the learner of a study.

        Returns None if the cache has no learner of the study, or if the learner's trials are not
        the first of the finished trials.

        Args:
            identity: Identifies the study and the options of the sampler.
            marks: Number, end time and values of each finished trial of the study, in order.
        """
        with self._lock:
            learner = self._idle.pop(identity, None)
        if learner is None or learner.marks != marks[: len(learner.marks)]:
            return None
        return learner

    def put(self, identity: str, learner: Learner) -> None:
        """Stores a learner; drops the least recently used learners beyond `MAX_LEARNERS`."""
        with self._lock:
            self._idle[identity] = learner
            while len(self._idle) > MAX_LEARNERS:
                self._idle.popitem(last=False)

    def clear(self) -> None:
        """Drops all learners from the cache."""
        with self._lock:
            self._idle.clear()


_learners = _LearnerCache()


def forget_learners() -> None:
    """Drops all policies in memory; each is trained again from all trials when it is next used."""
    _learners.clear()
