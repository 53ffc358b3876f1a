from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpo_ops.protocol import (
    MARKER,
    Action,
    Assignment,
    Control,
    Outcome,
    Report,
    ReportReader,
    SegmentResult,
    Workspace,
    write_atomically,
)

COUNTER = """
from hpo_ops.sdk import trial
state = {"sum": 0}
def save(folder): (folder / "sum").write_text(str(state["sum"]))
def load(folder): state["sum"] = int((folder / "sum").read_text())
trial.checkpointed(save=save, load=load)
for step in trial.steps():
    state["sum"] += step
    trial.report(step, state["sum"])
print("after the loop", state["sum"])
"""


@dataclass
class Ran:
    workspace: Workspace
    exit_code: int
    stdout: str
    stderr: str

    @property
    def reports(self) -> list[Report]:
        return list(ReportReader(self.workspace.reports).new())

    @property
    def values(self) -> dict[int, float]:
        return {report.step: report.metrics["score"] for report in self.reports}

    @property
    def result(self) -> SegmentResult:
        return SegmentResult.from_json(self.workspace.result.read_bytes())


class Desk:
    """Runs small scripts inside of a workspace."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root / "hpo")
        self.script = root / "train.py"

    def prepare(self, **fields: object) -> None:
        values: dict[str, object] = {
            "study": "s",
            "trial": 3,
            "segment": "a",
            "params": {"lr": 0.1},
            "metrics": ["score"],
            "seed": 11,
        }
        self.workspace.prepare(Assignment.from_dict(values | fields))

    def start(self, code: str, **variables: str) -> subprocess.Popen[str]:
        self.script.write_text(textwrap.dedent(code))
        return subprocess.Popen(
            [sys.executable, self.script],
            env=os.environ | {"HPO_DIR": str(self.workspace.root)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, **fields: object) -> Ran:
        self.prepare(**fields)
        process = self.start(code)
        with process:
            try:
                stdout, stderr = process.communicate(timeout=60)
            finally:
                process.kill()
        return Ran(self.workspace, process.returncode, stdout, stderr)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_trial_knows_its_fold_and_what_to_train_on(desk: Desk) -> None:
    code = """
        import json
        from hpo_ops.sdk import trial
        print(json.dumps([trial.fold, trial.folds, *trial.split(6)]))
        """
    parts = [json.loads(desk.run(code, fold=fold, folds=3).stdout) for fold in (0, 1, 2, None)]
    assert [part[:2] for part in parts] == [[0, 3], [1, 3], [2, 3], [None, 3]]
    assert sorted(index for _, _, _, held_out in parts[:3] for index in held_out) == [*range(6)]
    assert parts[3][2:] == [[*range(6)], [*range(6)]]
    # In another language the assignment's file says it.
    told = json.loads(desk.workspace.assignment.read_text())
    assert (told["fold"], told["folds"]) == (None, 3)


def test_a_trial_knows_its_assignment(desk: Desk) -> None:
    ran = desk.run(
        """
        from hpo_ops.sdk import trial
        print(dict(trial.params), trial.seed, trial.number, dict(trial.resources), trial.fold)
        """,
        resources={"gpu": 1},
        fold=2,
    )
    assert ran.stdout == "{'lr': 0.1} 11 3 {'gpu': 1} 2\n"


def test_a_whole_run_reports_each_step_and_completes(desk: Desk) -> None:
    ran = desk.run(COUNTER, until_step=4)
    assert ran.values == {1: 1, 2: 3, 3: 6, 4: 10}
    assert ran.result == SegmentResult(outcome=Outcome.COMPLETED, step=4)
    assert ran.exit_code == 0
    assert ran.stdout == "after the loop 10\n"


def test_a_resumed_run_goes_on_where_the_checkpoint_is(desk: Desk) -> None:
    folder = desk.workspace.checkpoint(3)
    folder.mkdir(parents=True)
    (folder / "sum").write_text("6")
    (folder / MARKER).touch()
    ran = desk.run(COUNTER, from_step=3, until_step=5)
    assert ran.values == {4: 10, 5: 15}


def test_without_its_checkpoint_a_trial_begins_at_the_beginning(desk: Desk) -> None:
    folder = desk.workspace.checkpoint(3)
    folder.mkdir(parents=True)
    (folder / "sum").write_text("6")  # no marker: half a checkpoint
    ran = desk.run(COUNTER, from_step=3, until_step=2)
    assert ran.values == {1: 1, 2: 3}


@pytest.mark.parametrize(
    ("total", "until", "last"), [(3, 5, 3), (5, 3, 3), (None, 4, 4), (2, None, 2)]
)
def test_the_smaller_limit_ends_the_steps(
    desk: Desk, total: int | None, until: int | None, last: int
) -> None:
    ran = desk.run(COUNTER.replace("steps()", f"steps({total})"), until_step=until)
    assert max(ran.values) == last


def test_without_any_limit_the_error_says_so(desk: Desk) -> None:
    ran = desk.run(COUNTER)
    assert ran.exit_code == 1
    assert ran.result.outcome is Outcome.FAILED
    assert ran.result.reason.startswith("ValueError: total is None")


def test_checkpoints_come_every_few_steps_and_at_the_last(desk: Desk) -> None:
    ran = desk.run(COUNTER, until_step=7, checkpoint_every=3)
    assert ran.workspace.complete_steps() == [3, 6, 7]
    assert (ran.workspace.checkpoint(6) / "sum").read_text() == "21"


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        (Action.PAUSE, Outcome.PAUSED),
        (Action.STOP, Outcome.STOPPED),
        (Action.RESIZE, Outcome.PAUSED),
    ],
)
def test_a_trial_that_is_told_to_leave_saves_and_leaves(
    desk: Desk, action: Action, outcome: Outcome
) -> None:
    desk.prepare()
    write_atomically(desk.workspace.control, Control(action=action, reason="because").to_json())
    ran = desk.run(COUNTER, until_step=9, checkpoint_every=100)
    assert ran.values == {1: 1}
    assert ran.result == SegmentResult(outcome=outcome, step=1, reason="because")
    assert ran.workspace.complete_steps() == [1]
    assert ran.exit_code == 0
    assert ran.stdout == ""


def test_an_except_clause_of_the_training_does_not_hold_it(desk: Desk) -> None:
    desk.prepare()
    write_atomically(
        desk.workspace.control, Control(action=Action.STOP, reason="enough").to_json()
    )
    guarded = COUNTER.replace(
        'trial.report(step, state["sum"])',
        'try: trial.report(step, state["sum"])\n    except Exception: pass',
    )
    assert desk.run(guarded, until_step=9).values == {1: 1}


def test_a_stop_after_the_last_step_leaves_a_completed_trial(desk: Desk) -> None:
    desk.prepare()
    write_atomically(desk.workspace.control, Control(action=Action.PAUSE, reason="late").to_json())
    ran = desk.run(COUNTER, until_step=1)
    assert ran.result.outcome is Outcome.COMPLETED


def test_sigterm_saves_at_the_next_report_and_leaves_preempted(desk: Desk) -> None:
    preempted = COUNTER.replace(
        'state["sum"] += step',
        'state["sum"] += step\n    if step == 2: import os; os.kill(os.getpid(), 15)',
    )
    ran = desk.run(preempted, until_step=9, checkpoint_every=100)
    assert ran.result == SegmentResult(outcome=Outcome.PREEMPTED, step=2, reason="SIGTERM")
    assert ran.exit_code == 0
    assert ran.workspace.complete_steps() == [2]


def test_a_forked_child_dies_of_sigterm_and_says_nothing(desk: Desk) -> None:
    ran = desk.run(
        """
        import os, signal, sys
        from hpo_ops.sdk import trial
        for step in trial.steps():
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(writing, b"here")
                while True: signal.pause()
            os.read(reading, 4)
            os.kill(child, signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if os.fork() == 0:
                raise SystemExit(0)  # runs the exit functions of a forked child
            os.wait()
            assert not os.path.exists(os.environ["HPO_DIR"] + "/result.json")
            trial.report(step, 1)
        """,
        until_step=1,
    )
    assert ran.stdout.splitlines()[0] == "-15"
    assert ran.result.outcome is Outcome.COMPLETED


def test_an_exception_is_the_reason_and_still_printed(desk: Desk) -> None:
    ran = desk.run(
        """
        from hpo_ops.sdk import trial
        for step in trial.steps():
            trial.report(step, 1)
            if step == 2:
                raise RuntimeError("out of luck")
        """,
        until_step=5,
    )
    assert ran.exit_code == 1
    assert ran.result == SegmentResult(
        outcome=Outcome.FAILED, step=2, reason="RuntimeError: out of luck"
    )
    assert "Traceback" in ran.stderr
    assert ran.stderr.endswith("RuntimeError: out of luck\n")


def test_a_failed_save_leaves_no_checkpoint(desk: Desk) -> None:
    broken = COUNTER.replace('str(state["sum"]))', 'str(state["sum"])); 1 / (step - 2)')
    ran = desk.run(broken, until_step=5)
    assert ran.workspace.complete_steps() == [1]
    assert [path.name for path in ran.workspace.checkpoints.iterdir()] == ["1"]
    assert ran.result.reason == "ZeroDivisionError: division by zero"


def test_a_manual_checkpoint_counts_when_its_block_ended(desk: Desk) -> None:
    ran = desk.run(
        """
        import os
        from hpo_ops.sdk import trial
        for step in trial.steps():
            with trial.checkpoint(step) as folder:
                (folder / "x").write_text("x")
                assert not os.path.exists(f"{os.environ['HPO_DIR']}/checkpoints/{step}")
            with trial.checkpoint(step) as folder:
                (folder / "y").write_text("replaced")
            trial.report(step, 0)
        """,
        until_step=1,
    )
    assert ran.exit_code == 0, ran.stderr
    assert sorted(path.name for path in ran.workspace.checkpoint(1).iterdir()) == [MARKER, "y"]


def test_scalars_of_other_libraries_and_names_are_accepted(desk: Desk) -> None:
    ran = desk.run(
        """
        import numpy, torch
        from hpo_ops.sdk import trial
        trial.report(1, torch.tensor(0.5))
        trial.report(2, score=numpy.float32(0.25), loss=numpy.int64(3))
        trial.report(3, float("nan"))
        """,
    )
    assert ran.exit_code == 0, ran.stderr
    assert [report.metrics for report in ran.reports[:2]] == [
        {"score": 0.5},
        {"score": 0.25, "loss": 3.0},
    ]
    assert ran.values[3] != ran.values[3]


def test_seconds_are_those_since_the_previous_report(desk: Desk) -> None:
    ran = desk.run(
        """
        import time
        from hpo_ops.sdk import trial
        for step in trial.steps():
            if step == 2: time.sleep(0.2)
            trial.report(step, 0)
        """,
        until_step=3,
    )
    first, second, third = (report.seconds for report in ran.reports)
    assert second >= 0.2
    assert first < 0.2
    assert third < 0.2


def test_outside_of_a_trial_it_warns_once_and_does_no_harm(desk: Desk) -> None:
    process = desk.start(
        COUNTER.replace("steps()", "steps(2)").replace(
            "state =", "print(dict(trial.params))\nstate ="
        ),
        HPO_DIR="",
        HPO_PARAMS=json.dumps({"lr": 0.5}),
    )
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert stdout.startswith("{'lr': 0.5}\nstep 1  value 1")
    assert stderr.count("not in a trial") == 1
    assert not desk.workspace.root.exists()


def test_a_missing_assignment_is_named(desk: Desk) -> None:
    process = desk.start(COUNTER)
    _, stderr = process.communicate(timeout=60)
    assert "assignment.json does not exist" in stderr
