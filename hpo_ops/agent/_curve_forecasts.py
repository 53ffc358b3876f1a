"""Forecasts of a trial's learning curve (the objective's values by step), made during training.

A curve model is fitted in a child process of low priority, so that neither the training nor the
agent is blocked. At some steps a forecast is due: the report of such a step, and all later
reports, are held back until the forecast is finished, so that the gateway receives the forecast
before it judges the step. If a fit fails or takes too long, the forecast has a note with the
reason in place of values, and the report is sent.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from hpo_ops.protocol import Assignment, CurveForecast, ForecastOrder, ProtocolError, Report

logger = logging.getLogger(__name__)

FIT_SECONDS = 60.0
"""Time limit of a fit."""
COMMAND = (sys.executable, "-m", "hpo_ops.curves.forecast_process")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PASSED_ON = (
    "HOME",
    # Allows the user's predictor class, if the study names one.
    "HPO_ALLOWED_CLASSES",
    # With these variables a stack finds and ends the processes that it has started.
    "HPO_STACK_ID",
    "HPO_STACK_PART",
    "LANG",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "TMPDIR",
    "TZ",
    "VIRTUAL_ENV",
)
"""Environment variables that the child process gets from the agent.

Other variables are withheld, because the agent's token and the store's keys are among them.
"""
Curve = list[tuple[int, float]]


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables for the child process that fits curve models.

    Secrets are left out, since the child process may run a class of the user.
    """
    kept = {name: environment[name] for name in PASSED_ON if name in environment}
    return kept | ONE_THREAD


class Fitter(Protocol):
    """Fits models of learning curves in the background, one curve at a time."""

    def begin(self, order: ForecastOrder, curve: Curve) -> None:
        """Starts to fit a learning curve; `order` declares which forecast is requested."""
        ...

    def poll(self) -> CurveForecast | None:
        """Returns the forecast of the current fit, or None while the fit is running.

        If the fit failed, the forecast contains a note with the reason in place of values.
        """
        ...

    def close(self) -> None:
        """Cancels the fit that is running, if any, and frees the fitter's resources."""
        ...


class ChildFitter:
    """Fits learning curves in a child process, which is reused until it fails or is closed.

    Args:
        command: Command line of the child process.
        clock: Returns monotonic time in seconds.
        fit_seconds: Time limit of a fit.
    """

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        clock: Callable[[], float] = time.monotonic,
        fit_seconds: float = FIT_SECONDS,
    ) -> None:
        self._command = command
        self._clock = clock
        self._fit_seconds = fit_seconds
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._step = 0
        self._give_up_at = 0.0

    def begin(self, order: ForecastOrder, curve: Curve) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hpo-forecasts-")
        if self._child is None:
            self._child = self._start(Path(self._folder.name))
        self._count += 1
        self._step = curve[-1][0]
        self._give_up_at = self._clock() + self._fit_seconds
        text = json.dumps({"order": order.to_dict(), "curve": curve})
        self._request.write_text(text, encoding="utf-8")
        try:
            _input(self._child).write(f"{self._request}\n".encode())
            _input(self._child).flush()
        except BrokenPipeError:
            logger.debug("the process of the curve fit has ended")  # `poll` returns why

    def poll(self) -> CurveForecast | None:
        if self._child is None:
            return None
        has_ended = self._child.poll() is not None  # must precede the check for its last answer
        answer = self._request.with_suffix(".answer")
        if answer.exists():
            return self._read(answer)
        if has_ended:
            why = self._last_words()
            self._stop()
            return CurveForecast(
                step=self._step, note=f"the process of the curve fit ended: {why}"
            )
        if self._clock() >= self._give_up_at:
            self._stop()
            return CurveForecast(
                step=self._step, note=f"the curve fit took more than {self._fit_seconds:g} s"
            )
        return None

    def close(self) -> None:
        self._stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def _request(self) -> Path:
        return self._errors.with_name(f"{self._count}.json")

    @property
    def _errors(self) -> Path:
        return Path(self._folder.name if self._folder else "") / "errors.txt"

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        with (folder / "errors.txt").open("wb") as errors:
            return subprocess.Popen(  # noqa: S603, our own module
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=child_environment(os.environ),
                start_new_session=True,
            )

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            _input(self._child).close()
            self._child = None

    def _read(self, answer: Path) -> CurveForecast:
        try:
            return CurveForecast.from_json(answer.read_bytes())
        except ProtocolError as error:
            return CurveForecast(step=self._step, note=f"the forecast is invalid: {error}")
        finally:
            answer.unlink()
            self._request.unlink(missing_ok=True)

    def _last_words(self) -> str:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed no error"


def _input(child: subprocess.Popen[bytes]) -> IO[bytes]:
    if child.stdin is None:
        raise ValueError("the child was started without a pipe")
    return child.stdin


class Forecasts:
    """Decides which reports may be sent now, and makes the forecasts that are sent before them.

    Args:
        assignment: The segment's assignment, which declares whether forecasts are requested.
        history: Returns the trial's learning curve so far, including earlier segments.
        fitter: Fits the learning curves; a child process by default.
    """

    def __init__(
        self,
        assignment: Assignment,
        history: Callable[[], Curve],
        fitter: Fitter | None = None,
    ) -> None:
        self._order = assignment.forecasts
        self._metric = assignment.metrics[0]
        self._history = history
        self._fitter = fitter or ChildFitter()
        self._curve: Curve | None = None
        self._fitting: int | None = None
        self._made: CurveForecast | None = None
        self._notes: set[str] = set()

    def ready(self, batch: Sequence[Report]) -> int:
        """Returns how many reports at the start of `batch` may be sent now.

        If forecasts are due at several steps of the batch, only the forecast of the last of these
        steps is made. So fewer steps are judged if the training is faster than the fits.

        Raises:
            GatewayUnreachableError, GatewayRefusedError: The gateway did not return the trial's
                earlier learning curve.
        """
        if self._order is None:
            return len(batch)
        if self._made is None and self._fitting is not None:
            self._take(self._fitter.poll())
        if self._fitting is None and self._made is None:
            self._begin(self._order, batch)
        waits_for = self._made.step if self._made is not None else self._fitting
        if waits_for is None:
            return len(batch)
        here = sum(report.step <= waits_for for report in batch)
        return here if self._made is not None else 0

    @property
    def made(self) -> CurveForecast | None:
        """The finished forecast to send before the reports; None if no forecast is finished."""
        return self._made

    def sent(self, reports: Sequence[Report]) -> None:
        """Records that the gateway has accepted `reports` and the forecast sent before them."""
        if self._curve is not None and self._order is not None:
            known = self._curve[-1][0] if self._curve else 0
            self._curve += [
                (item.step, item.metrics[self._metric]) for item in reports if item.step > known
            ]
        self._made = None

    def close(self) -> None:
        """Ends forecasting when the training has ended, so that no report is held back."""
        self._order = None
        self._made = self._fitting = None
        self._fitter.close()

    def _begin(self, order: ForecastOrder, batch: Sequence[Report]) -> None:
        if not batch:
            return
        if self._curve is None:
            # A trial may repeat steps that it has reported before: only the first report is used.
            self._curve = self._history()
        last = self._curve[-1][0] if self._curve else 0
        new = [report for report in batch if report.step > last]
        due = None
        for index, report in enumerate(new):
            if report.step // order.every > last // order.every:
                due = index
            last = report.step
        if due is None or new[due].step >= order.last_step:
            return
        curve = self._curve + [(item.step, item.metrics[self._metric]) for item in new[: due + 1]]
        self._fitting = new[due].step
        self._fitter.begin(order, curve)

    def _take(self, made: CurveForecast | None) -> None:
        if made is None:
            return
        self._fitting, self._made = None, made
        if made.note and made.note not in self._notes:
            self._notes.add(made.note)
            logger.warning(
                "no forecast at step %d, so the scheduler does not judge this step: %s",
                made.step,
                made.note,
            )
