"""Kills and stops processes of a stack at random while studies run: `make chaos`.

A study in rounds and a rolling one are run over and over, while processes are chosen by a seeded
generator and killed (SIGKILL) or stopped (SIGSTOP). Of the stopped ones some go on after a while;
the others have to be found and replaced by the stack's supervisor. Every run of a study must end
well: each trial is trained to its end, each step is reported once, and nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import psutil
from sqlalchemy import create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.client import GatewayUnreachableError
from hpo_ops.stack import Part, Stack, supervised
from hpo_ops.stack._processes import STACK_PART
from tests.e2e.airflow import QUIET, Lab, wait_for

STUDIES = {"chaos_rolling": "rolling", "chaos_rounds": "rounds"}
TRIALS, STEPS, STEP_SECONDS = 6, 9, 0.7
WITHIN_SECONDS = 60.0
"""How soon after the last fault a step has to be made."""
CONTINUED = ("training",)
"""What nobody but its owner can find when it hangs: it is always continued after a stop."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Fault:
    """Something that was done to a process."""

    what: str
    how: str
    at: float


@dataclass
class Outcome:
    """What came of the faults.

    Attributes:
        faults: All of them, in order.
        steps_at: When a look at the ledger found new reports, by the monotonic clock.
        runs: How many DAG runs were judged.
        problems: What was lost, doubled, failed or left, in sentences.
        restarts: What the supervisor has said.
    """

    faults: list[Fault] = field(default_factory=list)
    steps_at: list[float] = field(default_factory=list)
    runs: int = 0
    problems: list[str] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)

    def seconds_to_next_step(self, fault: Fault) -> float | None:
        return next((at - fault.at for at in self.steps_at if at > fault.at), None)

    def table(self) -> str:
        lines = [f"{'process':<22} {'fault':<12} {'faults':>6} {'next step after s, median':>26}"]
        lines[0] += f" {'most':>6}"
        for what, how in sorted({(fault.what, fault.how) for fault in self.faults}):
            these = [fault for fault in self.faults if (fault.what, fault.how) == (what, how)]
            waits = [wait for fault in these if (wait := self.seconds_to_next_step(fault))]
            figures = (
                f"{statistics.median(waits):>26.1f} {max(waits):>6.1f}" if waits else f"{'-':>26}"
            )
            lines.append(f"{what:<22} {how:<12} {len(these):>6} {figures}")
        lines.append(
            f"{len(self.faults)} faults, {len(self.restarts)} lines of the supervisor, "
            f"{self.runs} runs of studies, {len(self.problems)} problems"
        )
        return "\n".join([*lines, *(f"PROBLEM: {problem}" for problem in self.problems)])


@contextlib.contextmanager
def a_lab() -> Iterator[Lab]:
    """A stack of its own with the two studies; nothing of it may be left afterwards."""
    place = Path(tempfile.mkdtemp(prefix="hpo-chaos-"))
    project = Path(__file__).resolve().parents[2]
    shutil.copytree(project / "dags", place / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (place / "dags" / "studies").glob("*.y*ml"):
        file.unlink()
    environment = {
        **QUIET,
        "AIRFLOW__CORE__PARALLELISM": "6",
        "HPO_POOLS": "local=4",
        "XDG_RUNTIME_DIR": str(place / "runtime"),
    }
    stack = Stack(
        place / ".hpo", dags=place / "dags", port=0, s3_port=0, extra_environment=environment
    )
    with stack:
        lab = Lab(stack)
        for name, flow in STUDIES.items():
            lab.write_study(
                name,
                flow=flow,
                trials=TRIALS,
                parallelism=2,
                scheduler={"name": "default", "max_steps": STEPS},
                space={"x": {"float": [-1, 1]}, "pause": {"choices": [STEP_SECONDS]}},
                cache=False,
            )
        for name in STUDIES:
            lab.wait_for_study(name)
        yield lab
    left = [*stack.processes(), *trainings(place)]
    shutil.rmtree(place, ignore_errors=True)
    assert left == [], f"left: {left}"


def trainings(place: Path) -> list[psutil.Process]:
    """The training processes of a stack, which carry no mark of it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(place / "training"):
                found.append(process)
    return found


class Chaos:
    """One run of faults on a lab.

    Args:
        lab: The stack with the studies.
        seed: Chooses processes, faults and pauses.
        pause: The shortest and longest time between two faults, in seconds.
    """

    def __init__(self, lab: Lab, *, seed: int, pause: tuple[float, float] = (3.0, 9.0)) -> None:
        self._lab = lab
        self._chance = random.Random(seed)  # noqa: S311
        self._pause = pause
        self._outcome = Outcome()
        self._runs: dict[str, str | None] = dict.fromkeys(STUDIES)
        self._is_over = threading.Event()
        self._steps = 0

    def run(
        self,
        *,
        faults: int | None,
        seconds: float | None,
        within_seconds: float = WITHIN_SECONDS,
        say: Callable[[str], None] = print,
    ) -> Outcome:
        """Makes so many faults, or faults for so long; then waits for the end of the studies."""
        outcome, begun = self._outcome, time.monotonic()
        counter = threading.Thread(target=self._count_steps, daemon=True)
        counter.start()

        def note(line: str) -> None:
            outcome.restarts.append(line)
            say(f"    {line}")

        with supervised(self._lab.stack, note):
            self._keep_running(is_last=False)
            wait_for(lambda: self._steps > 0, what="the first step")
            while not _is_enough(outcome, faults, seconds, begun):
                time.sleep(self._chance.uniform(*self._pause))
                fault = self._make_fault()
                if fault is not None:
                    outcome.faults.append(fault)
                    say(f"{len(outcome.faults):>4} {fault.what} {fault.how}")
                self._keep_running(is_last=False)
            self._require_step(within_seconds)
            wait_for(self._is_done, what="the end of the last runs", seconds=900)
        self._is_over.set()
        counter.join()
        return outcome

    def _make_fault(self) -> Fault | None:
        targets = self._targets()
        what = self._choose(sorted(targets))
        process = self._chance.choice(targets[what])
        how = self._chance.choice(("kill", "kill", "stop", "stop, go on"))
        if how == "stop" and what in CONTINUED:
            how = "stop, go on"
        try:
            if how == "kill":
                process.kill()
            else:
                process.suspend()
        except psutil.NoSuchProcess:
            return None
        if how == "stop, go on":
            later = threading.Timer(self._chance.uniform(1.0, 20.0), _resume, [process])
            later.daemon = True
            later.start()
        return Fault(what, how, time.monotonic())

    def _choose(self, kinds: list[str]) -> str:
        """Chooses at random, rather a kind of process that has seen few faults so far."""
        seen = Counter(fault.what for fault in self._outcome.faults)
        weights = [2.0 ** -seen[kind] for kind in kinds]
        return self._chance.choices(kinds, weights)[0]

    def _targets(self) -> dict[str, list[psutil.Process]]:
        """Every process of the stack, by what it is."""
        stack = self._lab.stack
        mains = {main.pid: str(part) for part in Part if (main := stack.find(part))}
        found: dict[str, list[psutil.Process]] = {}
        for process in stack.processes():
            with contextlib.suppress(psutil.Error, OSError):
                found.setdefault(mains.get(process.pid) or _kind(process), []).append(process)
        if processes := trainings(stack.dags.parent):
            found["training"] = processes
        return found

    def _keep_running(self, *, is_last: bool) -> None:
        """Judges the runs that have ended, and starts others until the faults are over."""
        for name, run_id in self._runs.items():
            if run_id is not None:
                state = _ask(lambda name=name, run=run_id: self._lab.airflow.run_state(name, run))
                if state not in ("success", "failed"):
                    continue
                problems = _ask(lambda name=name, run=run_id: judge(self._lab, name, run))
                if problems is None:
                    continue  # the api-server or the database is away
                if state == "failed":
                    problems = ["its DAG run failed", *problems]
                self._outcome.problems += [f"{name} {run_id}: {each}" for each in problems]
                self._outcome.runs += 1
                self._runs[name] = None
            if not is_last and self._runs[name] is None:
                self._runs[name] = _ask(lambda name=name: self._lab.trigger(name))

    def _is_done(self) -> bool:
        self._keep_running(is_last=True)
        return not any(self._runs.values())

    def _require_step(self, seconds: float) -> None:
        begun, before = time.monotonic(), self._steps
        while time.monotonic() - begun < seconds:
            if self._steps > before or self._is_done():
                return
            time.sleep(0.5)
        self._outcome.problems.append(f"no step within {seconds:g} s after the last fault")

    def _count_steps(self) -> None:
        """Notes when reports have arrived, while there is a database to be asked."""
        while not self._is_over.wait(0.5):
            steps = _ask(lambda: _query(self._lab, "SELECT count(*) FROM ledger.reports"))
            if steps is not None and steps > self._steps:
                self._steps = steps
                self._outcome.steps_at.append(time.monotonic())


def judge(lab: Lab, name: str, run_id: str) -> list[str]:
    """Says what a run of a study that has ended has lost, doubled or left."""
    study = lab.study(name, run_id)
    trials = lab.session.gateway.trials(study.id)
    problems = [
        f"trial {trial.trial} is {trial.state.value} at step {trial.step}: {trial.reason}"
        for trial in trials
        if trial.state.value != "completed" or trial.step != STEPS
    ]
    if [trial.trial for trial in trials] != list(range(TRIALS)):
        problems.append(f"its trials are {[trial.trial for trial in trials]}")
    reports = _query(
        lab,
        f"SELECT count(*) FROM ledger.reports WHERE study_id = {study.id:d}",  # noqa: S608
    )
    if reports != TRIALS * STEPS:
        problems.append(f"{reports} reports instead of {TRIALS * STEPS}")
    leases = _query(
        lab,
        f"SELECT count(*) FROM ledger.leases WHERE study_id = {study.id:d}",  # noqa: S608
    )
    if leases:
        problems.append(f"{leases} leases are left")
    saved = lab.stack.object_store.store().get(f"{study.key}/best/state.json").bytes()
    steps = json.loads(bytes(saved))["steps"]
    if steps != list(range(1, STEPS + 1)):
        problems.append(f"the best checkpoint has trained steps {steps}")
    return problems


def _query(lab: Lab, query: str) -> int:
    engine = create_engine(lab.stack.ledger_url, connect_args={"connect_timeout": 5})
    try:
        with engine.connect() as connection:
            return int(connection.execute(text(query)).scalar_one())
    finally:
        engine.dispose()


def _ask(question: Callable[[], _T]) -> _T | None:
    """The answer to a question, or None while a part that knows it is away."""
    try:
        return question()
    except (CommandError, GatewayUnreachableError, httpx.HTTPError, SQLAlchemyError, OSError):
        return None
    except Exception as error:  # noqa: BLE001 - the object store's errors have no common base
        print(f"    asked in vain: {type(error).__name__}: {error}"[:200])
        return None


def _kind(process: psutil.Process) -> str:
    title = " ".join(process.cmdline()).strip()
    if "WorkerPipeExecutor" in title or "LocalExecutor" in title:
        return "worker"
    if title.startswith("airflow worker -- "):
        return "task with its agent"
    if process.name() == "postgres":
        return "postgres child"
    part = process.environ().get(STACK_PART, "?")
    return f"{part} child"


def _resume(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.resume()


def _is_enough(outcome: Outcome, faults: int | None, seconds: float | None, begun: float) -> bool:
    enough = faults is not None and len(outcome.faults) >= faults
    return enough or (seconds is not None and time.monotonic() - begun >= seconds)


def main(arguments: list[str] | None = None) -> int:
    """Runs `make chaos` and returns its exit code."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, help="how long faults are made")
    parser.add_argument("--faults", type=int, help="how many faults are made (default: 30)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(2)))
    options = parser.parse_args(arguments)
    faults = options.faults or (None if options.seconds else 30)
    print(f"seed {options.seed}", flush=True)
    with a_lab() as lab:
        chaos = Chaos(lab, seed=options.seed)
        outcome = chaos.run(faults=faults, seconds=options.seconds, say=_print)
        print(f"\nseed {options.seed}\n{outcome.table()}", flush=True)
    return 1 if outcome.problems else 0


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
