"""Adapts a user's search algorithm, a class with two methods, to Optuna's sampler interface.

The algorithm runs in its own process. Whenever one of its candidates (configurations) is assigned
to a trial, the assignment and the algorithm's state are written together to the journal, which is
one attribute of the study in Optuna's tables. A killed process is restarted from the journal, so
that no result is lost or passed to the algorithm twice, and no candidate is lost or assigned
to two trials.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpo_ops.core.param_fitting import fit
from hpo_ops.core.policy_options import check_between
from hpo_ops.core.search_space import Space, dump_parameter
from hpo_ops.core.seeds import derive_seed
from hpo_ops.protocol import ParamValue
from hpo_ops.samplers._distributions import to_distribution
from hpo_ops.samplers._user_algorithm_process import (
    Algorithm,
    AlgorithmError,
    AlgorithmExitedError,
    Limits,
)

logger = logging.getLogger(__name__)

JOURNAL = "hpo:algorithm"
"""Name of the Optuna system attribute of a study that contains the journal."""
MAX_PROCESSES = 4
"""Maximum number of idle algorithm processes; others are restarted from their journals."""


@dataclass(kw_only=True)
class Journal:
    """The durable state of a user's search algorithm between two calls.

    Attributes:
        id: Unique id of the journal over all studies and databases.
        revision: Number of times the journal was written; a process that is at another revision
            is out of date and is ended.
        state: The pickled algorithm, to be loaded in a sandbox only; None before the first call.
        told_below: The algorithm has received the results of all trials below this number.
        told: Numbers of further trials, at or above `told_below`, whose results the algorithm
            has received.
        queue: Candidates that are not assigned to a trial yet.
        given: Candidates whose trials' results the algorithm has not received, by trial number.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    revision: int = 0
    state: str | None = None
    told_below: int = 0
    told: list[int] = field(default_factory=list)
    queue: list[dict[str, ParamValue]] = field(default_factory=list)
    given: dict[str, dict[str, ParamValue]] = field(default_factory=dict)

    def tell(self, number: int) -> None:
        """Records that the algorithm has received the result of a trial."""
        self.told.append(number)
        self.given.pop(str(number), None)
        while self.told_below in self.told:
            self.told.remove(self.told_below)
            self.told_below += 1

    def knows(self, number: int) -> bool:
        """Returns whether the algorithm has received the result of a trial."""
        return number < self.told_below or number in self.told


class UserAlgorithmSampler(BaseSampler):
    """An Optuna sampler that gets its configurations from a user's search algorithm.

    Args:
        target: The algorithm as ``module:Class``.
        folder: The code folder that contains the module; None for an installed module.
        space: The search space of the study; a candidate outside of it raises `AlgorithmError`.
        seed: The seed of the algorithm, which must be the same for all trials of a study.
        options: Constructor arguments of the class, and the options of this sampler: ``batch``,
            ``call_seconds`` and ``memory_gib``.
    """

    def __init__(
        self,
        target: str,
        *,
        folder: Path | None,
        space: Space,
        seed: int,
        options: Mapping[str, Any],
    ) -> None:
        own = dict(options)
        self._batch = _integer("batch", own.pop("batch", 1))
        check_between("batch", self._batch, 1, 1000)
        limits = {name: own.pop(name) for name in ("call_seconds", "memory_gib") if name in own}
        if "call_seconds" in limits:
            limits["call_seconds"] = _integer("call_seconds", limits["call_seconds"])
        try:
            self._limits = Limits(**limits)
        except TypeError as error:
            raise ValueError(f"memory_gib is {limits['memory_gib']!r}: {error}") from error
        self._target = target
        self._folder = folder
        self._space = space
        self._seed = seed
        self._options = own

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return {name: to_distribution(parameter) for name, parameter in self._space.items()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if len(study.directions) > 1:
            raise ValueError(f"sampler {self._target} takes one metric only")
        return dict(self._candidate(study, trial.number))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        # A fixed value may make a conditional parameter exist that the candidate does not have.
        seed = derive_seed(self._seed, trial.number, param_name)
        return RandomSampler(seed).sample_independent(study, trial, param_name, param_distribution)

    def _candidate(self, study: Study, number: int) -> Mapping[str, ParamValue]:
        journal = _read(study)
        if str(number) in journal.given:  # an earlier ask crashed before Optuna had the trial
            return journal.given[str(number)]
        algorithm = _processes.pop(journal)
        try:
            if algorithm is not None:
                try:
                    return self._advance(study, number, journal, algorithm)
                except AlgorithmExitedError:
                    logger.info(
                        "the process of sampler %s has ended; restarting it from its journal",
                        self._target,
                    )
                    journal = _read(study)
            algorithm = self._start(study, journal)
            return self._advance(study, number, journal, algorithm)
        except BaseException:
            # The process may be ahead of the journal now, so it cannot be used again.
            if algorithm is not None:
                algorithm.close()
                algorithm = None
            raise
        finally:
            if algorithm is not None:
                _processes.put(journal, algorithm)

    def _start(self, study: Study, journal: Journal) -> Algorithm:
        algorithm = Algorithm(
            self._target, folder=self._folder, seed=self._seed, limits=self._limits
        )
        algorithm.start(
            space={name: dump_parameter(parameter) for name, parameter in self._space.items()},
            direction=study.direction.name.lower(),
            options=self._options,
            state=journal.state,
        )
        return algorithm

    def _advance(
        self, study: Study, number: int, journal: Journal, algorithm: Algorithm
    ) -> Mapping[str, ParamValue]:
        """Passes new results to the algorithm, assigns a candidate to a trial, writes the journal.

        Returns:
            The candidate that was assigned to trial `number`.
        """
        self._tell_results(study, journal, algorithm)
        if not journal.queue:
            journal.queue = [self._fitted(each) for each in algorithm.sample(self._batch)]
        candidate = journal.given[str(number)] = journal.queue.pop(0)
        journal.state = algorithm.state()
        journal.revision += 1
        study._storage.set_study_system_attr(study._study_id, JOURNAL, asdict(journal))
        return candidate

    def _tell_results(self, study: Study, journal: Journal, algorithm: Algorithm) -> None:
        finished = [
            trial
            for trial in study.get_trials(deepcopy=False)
            if trial.state.is_finished() and not journal.knows(trial.number)
        ]
        scored = [(trial.params, score) for trial in finished if (score := _score(study, trial))]
        if scored:
            algorithm.update([params for params, _ in scored], [score for _, (score,) in scored])
        for trial in finished:
            journal.tell(trial.number)

    def _fitted(self, candidate: Any) -> dict[str, ParamValue]:
        """Converts a candidate to a point of the space.

        Conditional parameters whose condition is not met are dropped.

        Raises:
            AlgorithmError: The candidate is not a point of the space.
        """
        if not isinstance(candidate, dict):
            raise AlgorithmError(
                f"sampler {self._target} returned {candidate!r}, but a candidate must be a mapping"
            )
        exists: dict[str, Any] = {}
        for name in self._space:
            if name in candidate and self._space.exists(name, exists):
                exists[name] = candidate[name]
        unknown = {name: value for name, value in candidate.items() if name not in self._space}
        fitted, problems = fit(self._space, exists | unknown)
        if problems:
            raise AlgorithmError(
                f"sampler {self._target} returned a candidate outside of the space: "
                f"{'; '.join(problems)}"
            )
        return fitted


class _ProcessCache:
    """A thread-safe cache of idle algorithm processes; a process in use is not in the cache."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, tuple[int, Algorithm]] = OrderedDict()
        self._lock = Lock()

    def pop(self, journal: Journal) -> Algorithm | None:
        """Removes and returns the idle algorithm process of a journal.

        Returns None if the cache has no such process, or if the process is dead or at another
        revision of the journal.
        """
        with self._lock:
            found = self._idle.pop(journal.id, None)
        if found is None:
            return None
        revision, algorithm = found
        if revision == journal.revision and algorithm.is_alive:
            return algorithm
        algorithm.close()
        return None

    def put(self, journal: Journal, algorithm: Algorithm) -> None:
        """Stores an algorithm process for reuse with its journal.

        If more than `MAX_PROCESSES` are idle, the least recently used processes are ended.
        """
        with self._lock:
            dropped = [self._idle.pop(journal.id)] if journal.id in self._idle else []
            self._idle[journal.id] = (journal.revision, algorithm)
            while len(self._idle) > MAX_PROCESSES:
                dropped.append(self._idle.popitem(last=False)[1])
        for _, old in dropped:
            old.close()

    def close(self) -> None:
        """Ends all algorithm processes in the cache."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for _, algorithm in idle.values():
            algorithm.close()


_processes = _ProcessCache()


def close_processes() -> None:
    """Ends all idle algorithm processes; each is restarted from its journal when next needed."""
    _processes.close()


def _read(study: Study) -> Journal:
    """Reads the journal of a study from Optuna's tables; returns a new journal if none exists."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    return Journal(**copy.deepcopy(attributes.get(JOURNAL, {})))


def _score(study: Study, trial: FrozenTrial) -> tuple[float] | None:
    """Returns the value of a trial to pass to the algorithm, or None if the trial has no value.

    It is the final value of a completed trial or the best value of a pruned trial, in a tuple with
    one element, which is true even if the value is 0.
    """
    if trial.state is TrialState.COMPLETE and trial.value is not None:
        return (trial.value,)
    if trial.state is TrialState.PRUNED and trial.intermediate_values:
        best = max if study.direction is StudyDirection.MAXIMIZE else min
        return (best(trial.intermediate_values.values()),)
    return None


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}, but must be an integer")
    return value
