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
from hpo_ops.sdk.fold_splitting import split_fold
from hpo_ops.sdk.seeding import be_deterministic, seed_all, seed_of_step
from hpo_ops.sdk.standalone import Outside
from hpo_ops.sdk.trial_workspace import Inside

Saver = Callable[[Path], object]


class TrialInterrupted(SystemExit):
    """Ends the process with exit code 0: the trial was told to pause or stop, or is preempted."""

    def __init__(self, reason: str) -> None:
        super().__init__(0)
        self.reason = reason


class Place(Protocol):
    """Where training code runs: inside of a trial's workspace, or outside of any."""

    assignment: Assignment
    restored: Path | None

    @property
    def checkpoints(self) -> Path: ...
    def start_clock(self) -> None: ...
    def write(self, step: int, metrics: Mapping[str, float]) -> Report: ...
    def checkpoint(self, step: int) -> AbstractContextManager[Path]: ...
    def is_saved(self, step: int) -> bool: ...
    def asked(self) -> tuple[Outcome, str] | None: ...
    def leave(self, outcome: Outcome, step: int, reason: str) -> None: ...


class Trial:
    """One hyperparameter configuration; reads its assignment when it is first used.

    Outside of a trial it warns once, takes its parameters from ``HPO_PARAMS`` (JSON), prints
    reports and saves nothing, so that the same script runs on a desk.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._savers: list[Saver] = []
        self._seeded: set[str] = set()
        self._last_step: int | None = None

    @cached_property
    def _place(self) -> Place:
        workspace = Workspace.from_environment(self._environment)
        if workspace is None:
            return Outside(self._environment)
        place = Inside(workspace)
        self._seed(place.assignment)
        return place

    def _seed(self, assignment: Assignment) -> None:
        if assignment.deterministic:
            be_deterministic()
        self._seeded |= seed_all(assignment.seed, but=self._seeded)

    def seed_imported(self) -> None:
        """Seeds Python, NumPy and torch, where they were imported since this was last done."""
        if not isinstance(self._place, Outside):
            self._seed(self._place.assignment)

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The hyperparameters."""
        return MappingProxyType(self._place.assignment.params)

    @property
    def seed(self) -> int:
        """The seed of this trial, the same after every resume.

        Python, NumPy and torch are seeded with it when the trial is first used, as far as they
        are imported by then, and otherwise when `steps` begins.
        """
        return self._place.assignment.seed

    def seed_step(self, step: int) -> None:
        """Seeds Python, NumPy and torch for one step, so that a resumed trial draws the same.

        With ``deterministic: true`` in the study this is done before each step.
        """
        seed_all(seed_of_step(self.seed, step))

    def begin(self, step: int) -> None:
        """A step begins: it is seeded where the study asks for that."""
        if self._place.assignment.deterministic:
            self.seed_step(step)

    @property
    def number(self) -> int:
        """The trial's number in its study."""
        return self._place.assignment.trial

    @property
    def resources(self) -> Mapping[str, float]:
        """What this process was given, for example ``{"gpu": 1}``."""
        return MappingProxyType(self._place.assignment.resources)

    @property
    def units(self) -> float:
        """Units of its pool that this process was given: GPUs or places; a share is less than 1.

        Another number after a resume is the doing of the study's allocator.
        """
        return self._place.assignment.resources.get("units", 1.0)

    @property
    def fold(self) -> int | None:
        """The cross-validation fold, 0 and up; None without folds, or to train on all data."""
        return self._place.assignment.fold

    @property
    def folds(self) -> int | None:
        """How many folds there are; None where the study has none."""
        return self._place.assignment.folds

    def split(self, samples: int, *, seed: int = 0) -> tuple[list[int], list[int]]:
        """Indices of the samples to train on, and of those to validate on.

        Every sample is in the validation part of exactly one fold. The split is the same in all
        trials, so that they can be compared fold by fold. When the best trial is trained on all
        data, both parts are all samples. In a study without folds a fifth is held out.

        Args:
            samples: How many there are; as many as there are folds, or more.
            seed: Another one shuffles the samples in another way.
        """
        return split_fold(samples, fold=self.fold, folds=self.folds, seed=seed)

    @property
    def metrics(self) -> Sequence[str]:
        """Names of the metrics that the study looks at; a bare value means the first."""
        return tuple(self._place.assignment.metrics)

    @property
    def until_step(self) -> int | None:
        """The last step that the study asks for now; None where the training code decides."""
        return self._place.assignment.until_step

    @property
    def checkpoints(self) -> Path:
        """The folder that checkpoints are in; outside of a trial a temporary one."""
        return self._place.checkpoints

    @property
    def restored(self) -> Path | None:
        """The folder of the checkpoint to go on from, or None for a fresh start."""
        return self._place.restored

    def checkpointed(self, *, save: Saver, load: Callable[[Path], object]) -> None:
        """Registers how to save and load what training needs to go on.

        Args:
            save: Writes files into the folder it is given.
            load: Reads them back. Called at once when there is a checkpoint to go on from.
        """
        self._savers.append(save)
        if self._place.restored is not None:
            load(self._place.restored)

    def steps(self, total: int | None = None) -> Iterator[int]:
        """Yields the steps that are left to train.

        Args:
            total: Number of steps that the training code wants; the study may ask for fewer.

        Raises:
            ValueError: Neither the study nor ``total`` says when to end.
        """
        place = self._place
        limits = [last for last in (total, place.assignment.until_step) if last is not None]
        if not limits:
            raise ValueError("total is None, but must be a number: the study sets no last step")
        first = int(place.restored.name) + 1 if place.restored else 1
        self._last_step = min(limits)
        self.seed_imported()
        place.start_clock()
        for step in range(first, self._last_step + 1):
            self.begin(step)
            yield step

    def report(
        self,
        step: int,
        value: SupportsFloat | Mapping[str, SupportsFloat] | None = None,
        **metrics: SupportsFloat,
    ) -> None:
        """Reports metrics after a step, saves a checkpoint when one is due, leaves when told to.

        Args:
            step: The step that was trained.
            value: The study's first metric, or a mapping of metrics by name.
            **metrics: Metrics by name.

        Raises:
            TrialInterrupted: The trial is to pause or stop, or is preempted; its state is saved.
        """
        assignment = self._place.assignment
        given = {**value, **metrics} if isinstance(value, Mapping) else metrics
        named = {name: float(number) for name, number in given.items()}
        if value is not None and not isinstance(value, Mapping):
            named[assignment.metrics[0]] = float(value)
        last = assignment.until_step if self._last_step is None else self._last_step
        self._report(step, named, is_last=step == last)

    def report_last(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports metrics of a training that is done, whatever is asked of it by now."""
        self._report(step, metrics, is_last=True)

    def _report(self, step: int, metrics: Mapping[str, float], *, is_last: bool) -> None:
        if not metrics:
            raise ValueError("no metric given: report(step, value) or report(step, accuracy=…)")
        place = self._place
        place.write(step, metrics)
        if is_last or step % place.assignment.checkpoint_every == 0:
            self._save(step)
        if not is_last and (asked := place.asked()) is not None:
            self._leave(step, *asked)

    def leave_if_told(self, step: int) -> None:
        """Leaves where the trial is to pause or stop, or is preempted; without a report or a save.

        Args:
            step: The last step that is saved.

        Raises:
            TrialInterrupted: It is.
        """
        if (asked := self._place.asked()) is not None:
            self._place.leave(asked[0], step, asked[1])
            raise TrialInterrupted(asked[1])

    def checkpoint(self, step: int) -> AbstractContextManager[Path]:
        """A folder to write a checkpoint into; it counts once the block has ended well."""
        return self._place.checkpoint(step)

    def _save(self, step: int) -> None:
        if not self._savers or self._place.is_saved(step):
            return
        with self._place.checkpoint(step) as folder:
            for save in self._savers:
                save(folder)

    def _leave(self, step: int, outcome: Outcome, reason: str) -> NoReturn:
        self._save(step)
        self._place.leave(outcome, step, reason)
        raise TrialInterrupted(reason)
