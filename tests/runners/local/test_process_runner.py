"""What holds for every process that the local runner starts, cold or warm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpo_ops.protocol import Action, Control, Outcome
from hpo_ops.runners.local._process_runner import ProcessRunner
from tests.runners.conftest import Bench, has_ended

FOREVER = """
import itertools, time
from hpo_ops.sdk import trial
def save(folder): (folder / "x").touch()
trial.checkpointed(save=save, load=print)
for step in itertools.count(1):
    trial.report(step, 0)
    print("step", step)
    time.sleep(0.01)
"""
STUBBORN = """
import signal, subprocess, time
from hpo_ops.sdk import trial
trial.params
signal.signal(signal.SIGTERM, lambda *_: print("ignored"))
child = subprocess.Popen(["sleep", "1000"])
print("pids", __import__("os").getpid(), child.pid)
trial.report_last(1, {"score": 0})  # unlike report, it does not look at what is asked
while True: time.sleep(1)
"""


def test_a_script_runs_as_python_would_run_it(bench: Bench) -> None:
    (bench.code / "beside.py").write_text("NAME = __name__")
    result = bench.run(
        """
        import os, pickle, sys
        import beside
        from hpo_ops.sdk import trial
        class Thing: pass
        pickle.dumps(Thing())
        print(__name__, sys.argv, os.getcwd(), sys.path[0], os.path.basename(__file__))
        print(repr(sys.stdin.read()), beside.NAME, os.getpid() == os.getsid(0))
        print("to stderr", file=sys.stderr)
        trial.report(1, 0.5)
        open("left-open", "w").write("written")
        globals()["kept"] = open("kept-open", "w")
        kept.write("written")
        """,
        command="python train.py --flag 'a b'",
    )
    assert result.outcome is Outcome.COMPLETED, bench.lines
    code = str(bench.code)
    argv = "['train.py', '--flag', 'a b']"
    assert bench.lines == [
        f"__main__ {argv} {code} {code} train.py",
        "'' beside True",
        "to stderr",
    ]
    assert bench.workspace.log.read_text().splitlines() == bench.lines
    assert (bench.code / "left-open").read_text() == "written"
    assert (bench.code / "kept-open").read_text() == "written"


def test_lines_are_handed_over_while_the_training_runs(bench: Bench) -> None:
    bench.on_line = lambda _: (bench.code / "seen").touch()
    result = bench.run(
        """
        import os, time
        from hpo_ops.sdk import trial
        print("hello")
        while not os.path.exists("seen"): time.sleep(0.01)
        trial.report(1, 1)
        print("no newline at the end", end="")
        """
    )
    assert result.outcome is Outcome.COMPLETED
    assert bench.lines == ["hello", "no newline at the end"]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("sys.exit('no data')", "exit code 1: no data"),
        ("raise KeyError('lr')", "KeyError: 'lr'"),
        ("os.abort()", "killed by signal 6"),
        ("os._exit(0)", "the training ended without reporting score"),
    ],
)
def test_a_failure_has_a_reason(bench: Bench, end: str, reason: str) -> None:
    result = bench.run(f"import os, sys\nfrom hpo_ops.sdk import trial\ntrial.seed\n{end}")
    assert result.outcome is Outcome.FAILED
    assert result.reason.splitlines()[0] == reason


def test_a_traceback_begins_in_the_script(bench: Bench) -> None:
    bench.run("def go():\n    raise ValueError('bad')\ngo()")
    assert bench.lines[0] == "Traceback (most recent call last):"
    assert f'File "{bench.code}/train.py", line 4, in <module>' in bench.lines[1]
    assert bench.lines[-1] == "ValueError: bad"


def test_secrets_are_not_passed_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "AWS_SECRET_ACCESS_KEY",
        "HPO_DATABASE_URL",
        "HPO_TOKEN",
        "DATABASE_URL",
        "PGPASSWORD",
    ):
        monkeypatch.setenv(name, "hush")
    result = bench.run(
        """
        import os, pathlib
        from hpo_ops.sdk import trial
        for pid in ("self", os.getppid()):
            assert b"hush" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert "hush" not in str(os.environ)
        print(os.environ["OMP_NUM_THREADS"], os.environ["MINE"])
        trial.report(1, 1)
        """,
        environment={"MINE": "yes"},
    )
    assert result.outcome is Outcome.COMPLETED, bench.lines
    assert bench.lines == ["1 yes"]


def test_a_command_that_does_not_exist_says_so(bench: Bench) -> None:
    result = bench.run("", command="no-such-program --x")
    assert result.outcome is Outcome.FAILED
    assert result.reason == (
        "exit code 127: cannot start no-such-program: No such file or directory"
    )


def test_any_program_can_be_a_training(bench: Bench) -> None:
    line = '{\\"step\\": 1, \\"metrics\\": {\\"score\\": 0.5}}'
    result = bench.run("", command=f"sh -c 'echo \"{line}\" >> $HPO_DIR/reports.jsonl'")
    assert result.outcome is Outcome.COMPLETED, (result, bench.lines)
    assert bench.gateway.reports[0].metrics == {"score": 0.5}


def test_a_pause_reaches_the_training(bench: Bench) -> None:
    bench.gateway.decide = lambda reports: Control(
        action=Action.PAUSE if len(reports) >= 3 else Action.CONTINUE, reason="wait"
    )
    result = bench.run(FOREVER)
    assert result.outcome is Outcome.PAUSED
    assert result.reason == "wait"
    assert result.step == bench.workspace.complete_steps()[-1] == bench.gateway.reports[-1].step


def test_terminate_saves_and_leaves_preempted(bench: Bench) -> None:
    def cancel(line: str) -> None:
        if line == "step 3" and bench.runner is not None:
            bench.runner.terminate()

    bench.on_line = cancel
    result = bench.run(FOREVER)
    assert result.outcome is Outcome.PREEMPTED
    assert result.exit_code == 0
    assert bench.workspace.complete_steps()[-1] == result.step


def test_who_ignores_everything_is_killed_with_its_children(bench: Bench) -> None:
    bench.gateway.decide = lambda reports: Control(
        action=Action.STOP if reports else Action.CONTINUE, reason="too slow"
    )
    result = bench.run(STUBBORN, grace_seconds=1.0)
    assert result.outcome is Outcome.STOPPED
    assert result.reason == "too slow (killed by signal 9)"
    assert "ignored" in bench.lines
    pids = next(line for line in bench.lines if line.startswith("pids")).split()[1:]
    assert all(has_ended(int(pid)) for pid in pids)


def test_children_end_with_the_training(bench: Bench) -> None:
    bench.run(
        """
        import subprocess
        print(subprocess.Popen(["sleep", "1000"]).pid)
        """
    )
    assert has_ended(int(bench.lines[0]))


def test_an_error_of_the_companion_leaves_no_process(bench: Bench) -> None:
    def fall_over(_: object) -> Control:
        raise ZeroDivisionError

    bench.gateway.decide = fall_over
    with pytest.raises(ZeroDivisionError):
        bench.run(STUBBORN)
    assert bench.runner is not None
    assert bench.runner.pid is not None
    assert has_ended(bench.runner.pid)


def test_a_killed_runner_leaves_no_process(bench: Bench) -> None:
    """The runner's own process is killed -9; the training and its child go with it."""
    (bench.code / "train.py").write_text("import yaml\n" + STUBBORN)
    runtime = None if bench.warm is None else str(bench.warm._runtime)
    program = f"""
import sys
from pathlib import Path
from hpo_ops.protocol import Assignment
from hpo_ops.runners.segment_with_agent import run_segment
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.local._warm_starter import WarmStarter
from tests.gateways import FakeGateway
runtime = {runtime!r}
warm = WarmStarter(Path(runtime)) if runtime else None
runner = ProcessRunner("python train.py", Path({str(bench.code)!r}), warm=warm,
                     on_line=lambda line: print(line, flush=True))
assignment = Assignment(study="s", trial=0, segment="a", params={{}}, metrics=["score"])
run_segment(assignment, root=Path({str(bench.workspace.root)!r}), runner=runner,
            gateway=FakeGateway())
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as runner:
        assert runner.stdout is not None
        pids = [int(pid) for pid in runner.stdout.readline().split()[1:]]
        assert len(pids) == 2
        os.kill(pids[0], 0)
        runner.send_signal(signal.SIGKILL)
    assert all(has_ended(pid) for pid in pids)


def test_a_killed_fork_server_takes_the_training_along(bench: Bench) -> None:
    def kill_parent(line: str) -> None:
        os.kill(int(line.split()[1]), signal.SIGKILL)

    bench.on_line = kill_parent
    result = bench.run(
        """
        import os, subprocess, time
        child = subprocess.Popen(["sleep", "1000"])
        print("parent", os.getppid(), os.getpid(), child.pid)
        time.sleep(1000)
        """
    )
    assert result.outcome is Outcome.PREEMPTED
    assert all(has_ended(int(pid)) for pid in bench.lines[0].split()[2:])


def test_an_empty_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="command is empty"):
        ProcessRunner("", tmp_path)


def test_a_log_that_grows_fast_holds_up_nothing(bench: Bench) -> None:
    bench.gateway.decide = lambda reports: Control(
        action=Action.STOP if reports else Action.CONTINUE, reason="enough"
    )
    result = bench.run(
        """
        from hpo_ops.sdk import trial
        for step in trial.steps():
            print("x" * 5_000_000)
            trial.report(step, 1)
        """
    )
    assert result.outcome is Outcome.STOPPED
    assert sum(map(len, bench.lines)) == 5_000_000 * result.step
