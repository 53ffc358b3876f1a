"""The interface of training code to the trial that it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn, Protocol, SupportsFloat

from hpo_ops.protocol import Assignment, Outcome, ParamValue, Report, Workspace
from hpo_ops.sdk._fold_splitting import split_fold
from hpo_ops.sdk._seeding import be_deterministic, seed_all, seed_of_step
from hpo_ops.sdk._standalone import StandaloneContext
from hpo_ops.sdk._trial_workspace import TrialContext

Saver = Callable[[Path], object]


class TrialInterrupted(SystemExit):
    """Exception that ends the training process with exit code 0.

    It is raised if a pause or stop is requested, or if the trial is preempted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(0)
        self.reason = reason


class TrainingContext(Protocol):
    """Interface through which `Trial` uses the workspace, or a substitute outside of a trial."""

    assignment: Assignment
    restored: Path | None

    @property
    def checkpoints(self) -> Path: ...
    def start_clock(self) -> None: ...
    def write(self, step: int, metrics: Mapping[str, float]) -> Report: ...
    def checkpoint(self, step: int) -> AbstractContextManager[Path]: ...
    def is_saved(self, step: int) -> bool: ...
    def requested_end(self) -> tuple[Outcome, str] | None: ...
    def end(self, outcome: Outcome, step: int, reason: str) -> None: ...


class Trial:
    """The trial that this process runs; the assignment is read when the object is first used.

    Outside of a trial, the object warns once, reads the hyperparameters from the environment
    variable ``HPO_PARAMS`` (JSON), prints reports and discards checkpoints, so that the same
    script can also be run by hand.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._savers: list[Saver] = []
        self._seeded: set[str] = set()
        self._last_step: int | None = None

    @cached_property
    def _context(self) -> TrainingContext:
        workspace = Workspace.from_environment(self._environment)
        if workspace is None:
            return StandaloneContext(self._environment)
        context = TrialContext(workspace)
        self._seed(context.assignment)
        return context

    def _seed(self, assignment: Assignment) -> None:
        if assignment.deterministic:
            be_deterministic()
        self._seeded |= seed_all(assignment.seed, but=self._seeded)

    def seed_imported(self) -> None:
        """Seeds the random generators of libraries that have been imported but not seeded yet.

        The libraries are Python's ``random``, NumPy and torch. Outside of a trial, nothing is
        seeded.
        """
        if not isinstance(self._context, StandaloneContext):
            self._seed(self._context.assignment)

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The hyperparameters of the trial by name."""
        return MappingProxyType(self._context.assignment.params)

    @property
    def seed(self) -> int:
        """The seed of this trial, which is the same after every resume.

        It seeds the random generators of Python, NumPy and torch when this object is first used.
        Libraries that are imported later are seeded when `steps` begins.
        """
        return self._context.assignment.seed

    def seed_step(self, step: int) -> None:
        """Seeds the random generators of Python, NumPy and torch for one step.

        A resumed trial thus draws the same random numbers as an uninterrupted trial. With
        ``deterministic: true`` in the study file, this method is called before each step.
        """
        seed_all(seed_of_step(self.seed, step))

    def begin(self, step: int) -> None:
        """Calls `seed_step` before a step if the study has ``deterministic: true``."""
        if self._context.assignment.deterministic:
            self.seed_step(step)

    @property
    def number(self) -> int:
        """The trial's number in its study."""
        return self._context.assignment.trial

    @property
    def resources(self) -> Mapping[str, float]:
        """The resources of this segment (one uninterrupted execution), such as ``{"gpu": 1}``."""
        return MappingProxyType(self._context.assignment.resources)

    @property
    def units(self) -> float:
        """The number of resource units of this segment; less than 1 if it shares a unit.

        A unit is the amount of resources that one trial has by default, such as a GPU. If the
        study has an allocator, the number may change with each resume.
        """
        return self._context.assignment.resources.get("units", 1.0)

    @property
    def fold(self) -> int | None:
        """The number of the cross-validation fold, starting at 0.

        None if the study has no folds, or if the best configuration is retrained on all data.
        """
        return self._context.assignment.fold

    @property
    def folds(self) -> int | None:
        """The number of folds; None if the study has no folds."""
        return self._context.assignment.folds

    def split(self, samples: int, *, seed: int = 0) -> tuple[list[int], list[int]]:
        """Returns the indices of the samples for training and of the samples for validation.

        Every sample is in the validation part of exactly one fold. The split is the same in all
        trials, so that trials can be compared fold by fold. When the best configuration is trained
        on all data, both parts contain all samples. In a study without folds, a fifth of the
        samples is used for validation.

        Args:
            samples: Number of samples, at least the number of folds.
            seed: Seed of the shuffling.
        """
        return split_fold(samples, fold=self.fold, folds=self.folds, seed=seed)

    @property
    def metrics(self) -> Sequence[str]:
        """Names of the study's metrics; a value reported without a name belongs to the first."""
        return tuple(self._context.assignment.metrics)

    @property
    def until_step(self) -> int | None:
        """The last step to train in this segment; None if the training code decides."""
        return self._context.assignment.until_step

    @property
    def checkpoints(self) -> Path:
        """The folder of the trial's checkpoints; outside of a trial, a temporary folder."""
        return self._context.checkpoints

    @property
    def restored(self) -> Path | None:
        """The folder of the checkpoint to resume from; None to start from the beginning."""
        return self._context.restored

    def checkpointed(self, *, save: Saver, load: Callable[[Path], object]) -> None:
        """Registers how to save and load the state of the training.

        Args:
            save: Writes the state to files in the folder that it receives as its argument.
            load: Restores the state from the files in the folder that it receives. It is called
                immediately if there is a checkpoint to resume from.
        """
        self._savers.append(save)
        if self._context.restored is not None:
            load(self._context.restored)

    def steps(self, total: int | None = None) -> Iterator[int]:
        """Yields the steps that remain to be trained in this segment.

        Args:
            total: Number of steps of a full training; the study may set a lower last step. None
                if the study sets the last step.

        Raises:
            ValueError: Neither the study nor ``total`` sets a last step.
        """
        context = self._context
        limits = [last for last in (total, context.assignment.until_step) if last is not None]
        if not limits:
            raise ValueError("total is None, but must be a number: the study sets no last step")
        first = int(context.restored.name) + 1 if context.restored else 1
        self._last_step = min(limits)
        self.seed_imported()
        context.start_clock()
        for step in range(first, self._last_step + 1):
            self.begin(step)
            yield step

    def report(
        self,
        step: int,
        value: SupportsFloat | Mapping[str, SupportsFloat] | None = None,
        **metrics: SupportsFloat,
    ) -> None:
        """Reports metrics after a step and saves a checkpoint if one is due.

        Exits the process if a pause or stop is requested or the trial is preempted.

        Args:
            step: The step that was trained.
            value: Value of the study's first metric, or a mapping of metrics by name.
            **metrics: Metrics by name.

        Raises:
            TrialInterrupted: A pause or stop is requested, or the trial is preempted. A checkpoint
                is saved first if `checkpointed` was called.
            ValueError: No metric is given.
        """
        assignment = self._context.assignment
        given = {**value, **metrics} if isinstance(value, Mapping) else metrics
        named = {name: float(number) for name, number in given.items()}
        if value is not None and not isinstance(value, Mapping):
            named[assignment.metrics[0]] = float(value)
        last = assignment.until_step if self._last_step is None else self._last_step
        self._report(step, named, is_last=step == last)

    def report_last(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports the metrics of a finished training, and ignores a requested pause or stop."""
        self._report(step, metrics, is_last=True)

    def _report(self, step: int, metrics: Mapping[str, float], *, is_last: bool) -> None:
        if not metrics:
            raise ValueError("no metric given: report(step, value) or report(step, accuracy=…)")
        context = self._context
        context.write(step, metrics)
        if is_last or step % context.assignment.checkpoint_every == 0:
            self._save(step)
        if not is_last and (requested := context.requested_end()) is not None:
            self._save(step)
            self._leave(step, *requested)

    def leave_if_requested(self, step: int) -> None:
        """Exits if a pause or stop is requested or the trial is preempted; saves no checkpoint.

        Args:
            step: The step of the newest saved checkpoint.

        Raises:
            TrialInterrupted: A pause or stop is requested, or the trial is preempted.
        """
        if (requested := self._context.requested_end()) is not None:
            self._leave(step, *requested)

    def checkpoint(self, step: int) -> AbstractContextManager[Path]:
        """Returns a context manager that yields a folder for the checkpoint after a step.

        The checkpoint is complete when the ``with`` block ends without an exception.
        """
        return self._context.checkpoint(step)

    def _save(self, step: int) -> None:
        if not self._savers or self._context.is_saved(step):
            return
        with self._context.checkpoint(step) as folder:
            for save in self._savers:
                save(folder)

    def _leave(self, step: int, outcome: Outcome, reason: str) -> NoReturn:
        self._context.end(outcome, step, reason)
        raise TrialInterrupted(reason)
