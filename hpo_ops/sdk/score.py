"""Runs training code that is a class with a method ``score``; the class need not import the SDK.

The study's command is ``python -m hpo_ops.sdk.score my_model:Model``, where ``my_model.py`` is in
the code folder::

    class Model:
        def score(self, hyperparameters, checkpoint_path, resume):
            ...
            return accuracy

``checkpoint_path`` is the folder for checkpoints. For each epoch that it saves, the code creates a
subfolder named by the epoch's number, and writes the empty file ``COMPLETE`` into the subfolder
last (`save_epoch` does this). ``resume`` is true if there is a checkpoint to resume from
(`newest_epoch` finds the newest).

The score is a number, or a mapping of metrics by name. If the method is a generator that yields
``(epoch, score)`` after each epoch, the platform can pause or stop the trial between epochs; the
method must save a checkpoint of an epoch before it yields.
"""

from __future__ import annotations

import importlib
import inspect
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol, SupportsFloat, cast

from hpo_ops.protocol import ParamValue
from hpo_ops.sdk import Trial, trial
from hpo_ops.sdk._epoch_folders import newest_epoch, save_epoch

__all__ = ["Scored", "load", "main", "newest_epoch", "run", "save_epoch"]

SIGNATURE = "score(self, hyperparameters, checkpoint_path, resume)"


class Scored(Protocol):
    """The interface of a user's class with a method ``score``."""

    def score(
        self, hyperparameters: dict[str, ParamValue], checkpoint_path: Path, resume: bool
    ) -> object:
        """Trains with the hyperparameters and returns the score.

        Args:
            hyperparameters: Hyperparameters of the trial by name.
            checkpoint_path: Folder for checkpoints.
            resume: Whether the folder contains a checkpoint to resume from.

        Returns:
            A number, a mapping of metrics by name, or a generator of ``(epoch, score)``.
        """
        ...


def main(arguments: list[str]) -> None:
    """Runs the class that the command-line arguments name, as the trial of this process."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m hpo_ops.sdk.score module:Class")
    _ = trial.params  # from here on, an exception becomes the reason of the trial's failure
    run(load(arguments[0], on_import=trial.seed_imported), trial)


def load(target: str, *, on_import: Callable[[], object] = lambda: None) -> Scored:
    """Imports a class and returns an instance of it.

    Args:
        target: The class, as ``module:Class``.
        on_import: Called after the module is imported, before the class is instantiated.

    Raises:
        SystemExit: The class does not exist, or lacks a suitable constructor or method ``score``.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute:
        raise SystemExit(f"the class is {target!r}, but must be given as module:Class")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports is missing
        raise SystemExit(f"{target}: there is no module {error.name} in {Path.cwd()}") from error
    on_import()
    found = getattr(module, attribute, None)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if _has_score(value)]
        hint = f"; with a score: {', '.join(classes)}" if classes else ""
        raise SystemExit(f"{target}: {name} has no class {attribute}{hint}")
    if not _has_score(found):
        raise SystemExit(f"{target}: the class has no method {SIGNATURE}")
    _check_call(target, found)
    made: Scored = found()
    _check_call(target, made.score, {}, Path(), False)
    return made


def _check_call(target: str, call: Callable[..., object], *arguments: object) -> None:
    try:
        inspect.signature(call).bind(*arguments)
    except TypeError as error:
        raise SystemExit(
            f"{target}: {error}; the class must take no arguments and have {SIGNATURE}"
        ) from error


def _has_score(value: object) -> bool:
    return isinstance(value, type) and callable(getattr(value, "score", None))


def run(model: Scored, on: Trial) -> None:
    """Calls the method ``score`` of a model with the trial's parameters, and reports its scores.

    Args:
        model: An instance of the user's class.
        on: The trial to which the scores are reported.

    Raises:
        ValueError: A score is neither a number nor a mapping of numbers.
        TrialInterrupted: A pause or stop is requested, or the trial is preempted.
    """
    with _ending_at_once(on):
        answer = model.score(dict(on.params), on.checkpoints, on.restored is not None)
    if isinstance(answer, Iterator):
        _follow(_without_return(answer), on)
    else:
        # A method that returns a score has trained all steps.
        first = int(on.restored.name) + 1 if on.restored else 1
        step = max(first, _saved(on), on.until_step or 0)
        on.report_last(step, _metrics(answer, "score returned", on.metrics[0]))


def _follow(answers: Generator[object, None, None], on: Trial) -> None:
    epoch = int(on.restored.name) if on.restored else 0
    on.begin(epoch + 1)
    try:
        for answer in answers:
            epoch, score = _step(answer)
            on.report(epoch, _metrics(score, f"score yielded at epoch {epoch}", on.metrics[0]))
            if epoch == on.until_step:
                break
            on.begin(epoch + 1)
    finally:
        answers.close()  # runs the method's `finally` blocks, also when the trial is interrupted
    if epoch == 0:
        raise ValueError("score yielded nothing, but must yield (epoch, score)")


def _without_return(answers: Iterator[object]) -> Generator[object, None, None]:
    returned: object = yield from cast("Generator[object, None, object]", answers)
    if returned is not None:
        raise ValueError(
            f"score yields its scores, but also returned {returned!r}: do only one of them"
        )


def _step(answer: object) -> tuple[int, object]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ValueError(f"score yielded {answer!r}, but must yield (epoch, score)")
    epoch, score = answer
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 1:
        raise ValueError(f"score yielded the epoch {epoch!r}, but epochs are 1 and up")
    return epoch, score


def _metrics(score: object, what: str, name: str) -> dict[str, float]:
    if not isinstance(score, Mapping):
        return {name: _number(score, what)}
    if not score:
        _refuse(score, what)
    return {str(key): _number(value, f"{what} {key} =") for key, value in score.items()}


def _number(value: object, what: str) -> float:
    """Converts a scalar of any library to a float; raises ValueError for text and booleans."""
    if not isinstance(value, SupportsFloat) or isinstance(value, bool):
        _refuse(value, what)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        _refuse(value, what, error)


def _refuse(value: object, what: str, error: Exception | None = None) -> NoReturn:
    raise ValueError(
        f"{what} {value!r}, but must be a number, or a mapping of metrics to numbers"
    ) from error


def _saved(on: Trial) -> int:
    newest = newest_epoch(on.checkpoints)
    return int(newest.name) if newest is not None else 0


@contextmanager
def _ending_at_once(on: Trial) -> Iterator[None]:
    """Returns a context manager during whose block SIGTERM interrupts the training at once.

    Without it, SIGTERM would have an effect only at the next report, but a method ``score`` that
    is not a generator returns only after all epochs.
    """
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before):  # no handler is installed outside of a trial
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        before(number, frame)
        on.leave_if_requested(_saved(on))

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    main(sys.argv[1:])
