"""A trial as training code sees it."""

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
    """Ends the process with exit code 0: the trial is to pause or stop, or is preempted."""

    def __init__(self, reason: str) -> None:
        super().__init__(0)
        self.reason = reason


class TrainingContext(Protocol):
    """The surroundings of training code: a trial's workspace, or none."""

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
    """The trial that this process runs; its assignment is read when it is first used.

    Outside of a trial it warns once, takes its parameters from ``HPO_PARAMS`` (JSON), prints
    reports and saves nothing, so that the same script also runs by hand.
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
        """Seeds those of Python, NumPy and torch that were imported since the last call."""
        if not isinstance(self._context, StandaloneContext):
            self._seed(self._context.assignment)

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The hyperparameters."""
        return MappingProxyType(self._context.assignment.params)

    @property
    def seed(self) -> int:
        """The seed of this trial, the same after every resume.

        Python, NumPy and torch are seeded with it when the trial is first used, as far as they
        are imported by then, and otherwise when `steps` begins.
        """
        return self._context.assignment.seed

    def seed_step(self, step: int) -> None:
        """Seeds Python, NumPy and torch for one step, so that a resumed trial draws the same.

        With ``deterministic: true`` in the study this is done before each step.
        """
        seed_all(seed_of_step(self.seed, step))

    def begin(self, step: int) -> None:
        """Begins a step; seeds it if the study is deterministic."""
        if self._context.assignment.deterministic:
            self.seed_step(step)

    @property
    def number(self) -> int:
        """The trial's number in its study."""
        return self._context.assignment.trial

    @property
    def resources(self) -> Mapping[str, float]:
        """The resources of this segment, for example ``{"gpu": 1}``."""
        return MappingProxyType(self._context.assignment.resources)

    @property
    def units(self) -> float:
        """Units of the pool that this segment has: GPUs or slots; less than 1 for a shared GPU.

        With an allocator the number may differ after each resume.
        """
        return self._context.assignment.resources.get("units", 1.0)

    @property
    def fold(self) -> int | None:
        """The cross-validation fold, 0 and up; None without folds, or to train on all data."""
        return self._context.assignment.fold

    @property
    def folds(self) -> int | None:
        """Number of folds; None if the study has no folds."""
        return self._context.assignment.folds

    def split(self, samples: int, *, seed: int = 0) -> tuple[list[int], list[int]]:
        """Indices of the samples to train on, and of the samples to validate on.

        Every sample is in the validation part of exactly one fold. The split is the same in all
        trials, so that they can be compared fold by fold. When the best trial is trained on all
        data, both parts are all samples. In a study without folds a fifth is held out.

        Args:
            samples: Number of samples, at least the number of folds.
            seed: Seed of the shuffling.
        """
        return split_fold(samples, fold=self.fold, folds=self.folds, seed=seed)

    @property
    def metrics(self) -> Sequence[str]:
        """Names of the study's metrics; a bare value is a value of the first."""
        return tuple(self._context.assignment.metrics)

    @property
    def until_step(self) -> int | None:
        """The last step of this segment; None if the training code decides."""
        return self._context.assignment.until_step

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints; outside of a trial a temporary one."""
        return self._context.checkpoints

    @property
    def restored(self) -> Path | None:
        """The folder of the checkpoint to resume from; None to start from the beginning."""
        return self._context.restored

    def checkpointed(self, *, save: Saver, load: Callable[[Path], object]) -> None:
        """Registers how to save and load the state of the training.

        Args:
            save: Writes files into the folder that it is given.
            load: Reads them back. Called at once if there is a checkpoint to resume from.
        """
        self._savers.append(save)
        if self._context.restored is not None:
            load(self._context.restored)

    def steps(self, total: int | None = None) -> Iterator[int]:
        """Yields the steps that are left to train in this segment.

        Args:
            total: Number of steps that the training code wants; the study may want fewer.

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
        """Reports metrics after a step, saves a checkpoint if one is due, and ends if requested.

        Args:
            step: The step that was trained.
            value: The study's first metric, or a mapping of metrics by name.
            **metrics: Metrics by name.

        Raises:
            TrialInterrupted: The trial is to pause or stop, or is preempted; its state is saved.
        """
        assignment = self._context.assignment
        given = {**value, **metrics} if isinstance(value, Mapping) else metrics
        named = {name: float(number) for name, number in given.items()}
        if value is not None and not isinstance(value, Mapping):
            named[assignment.metrics[0]] = float(value)
        last = assignment.until_step if self._last_step is None else self._last_step
        self._report(step, named, is_last=step == last)

    def report_last(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports the metrics of a training that is done, whatever action is requested of it."""
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
        """Ends the process if the trial is to pause or stop, or is preempted. Saves nothing.

        Args:
            step: The last step that is saved.

        Raises:
            TrialInterrupted: The trial is to pause or stop, or is preempted.
        """
        if (requested := self._context.requested_end()) is not None:
            self._leave(step, *requested)

    def checkpoint(self, step: int) -> AbstractContextManager[Path]:
        """A folder to write a checkpoint into; the checkpoint is complete when the block ends."""
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
