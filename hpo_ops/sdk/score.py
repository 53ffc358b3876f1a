"""The class interface: training code as a class with a method ``score``, without any import.

The study's command is ``python -m hpo_ops.sdk.score my_model:Model``, where ``my_model.py`` is in
the code folder::

    class Model:
        def score(self, hyperparameters, checkpoint_path, resume):
            ...
            return accuracy

``checkpoint_path`` is a folder in which the code makes a folder for each epoch that it saves,
named by the epoch's number, with the empty file ``COMPLETE`` written last (`save_epoch` does so).
``resume`` says whether there is one to resume from (`newest_epoch` finds the newest).

The score is a number, or a mapping of metrics by name. A method that yields ``(epoch, score)``
after each epoch, instead of returning a score at the end, can be judged, paused and stopped
between epochs; it must save an epoch before it yields.
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
    """The interface of a user's class."""

    def score(
        self, hyperparameters: dict[str, ParamValue], checkpoint_path: Path, resume: bool
    ) -> object:
        """A number, a mapping of metrics, or a generator of ``(epoch, score)``."""
        ...


def main(arguments: list[str]) -> None:
    """Runs the class that the command line names."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m hpo_ops.sdk.score module:Class")
    _ = trial.params  # from here on, an exception becomes the reason of the trial's failure
    run(load(arguments[0], on_import=trial.seed_imported), trial)


def load(target: str, *, on_import: Callable[[], object] = lambda: None) -> Scored:
    """An instance of the class that ``module:Class`` names.

    Args:
        target: The class.
        on_import: Called after its module is imported, before the class is instantiated.

    Raises:
        SystemExit: There is no such class, or it cannot be used; the message says why.
    """
    name, _, attribute = target.partition(":")
    if not name or not attribute:
        raise SystemExit(f"the class is {target!r}, but must be given as module:Class")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and one that it imports is not
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
    """Trains a model as a trial: gives it the parameters, and reports its scores.

    Raises:
        ValueError: A score is neither a number nor a mapping of numbers.
        TrialInterrupted: The trial is to pause or stop, or is preempted.
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
    """Converts scalars of any library, but not text that looks like a number."""
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
    """Lets SIGTERM interrupt a method that returns its score only at its end."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before):  # outside of a trial nobody has set a handler
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
