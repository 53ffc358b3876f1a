"""The class interface, run as a study's command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
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
from hpo_ops.sdk._epoch_folders import newest_epoch, save_epoch

RETURNS = """
class Model:
    def score(self, hyperparameters, checkpoint_path, resume):
        return hyperparameters["lr"]
"""
YIELDS = """
class Model:
    def score(self, hyperparameters, checkpoint_path, resume):
        done = 0
        if resume:
            done = max(int(path.parent.name) for path in checkpoint_path.glob("*/COMPLETE"))
            assert (checkpoint_path / str(done) / "state").read_text() == str(done)
        print("resume", resume, "after", done)
        for epoch in range(done + 1, 21):
            folder = checkpoint_path / str(epoch)
            folder.mkdir()
            (folder / "state").write_text(str(epoch))
            (folder / "COMPLETE").touch()
            yield epoch, {"score": epoch / 10, "loss": 1 / epoch}
"""


class Desk:
    """Runs a class in a workspace."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root / "hpo")
        self.code = root / "code"
        self.code.mkdir()

    def prepare(self, **fields: object) -> None:
        values: dict[str, object] = {
            "study": "s",
            "trial": 3,
            "segment": "a",
            "params": {"lr": 0.25},
            "metrics": ["score"],
        }
        self.workspace.prepare(Assignment.from_dict(values | fields))

    def start(
        self, source: str, target: str = "my_model:Model", **variables: str
    ) -> subprocess.Popen[str]:
        (self.code / "my_model.py").write_text(textwrap.dedent(source))
        return subprocess.Popen(
            [sys.executable, "-m", "hpo_ops.sdk.score", *target.split()],
            cwd=self.code,
            env=os.environ | {"HPO_DIR": str(self.workspace.root)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, source: str, target: str = "my_model:Model", **variables: str
    ) -> tuple[int, str]:
        """Exit code and everything printed."""
        process = self.start(source, target, **variables)
        out, err = process.communicate(timeout=60)
        return process.returncode, out + err

    @property
    def reports(self) -> list[Report]:
        return list(ReportReader(self.workspace.reports).new())

    @property
    def result(self) -> SegmentResult:
        return SegmentResult.from_json(self.workspace.result.read_bytes())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_returned_number_is_the_score(desk: Desk) -> None:
    desk.prepare()
    assert desk.run(RETURNS) == (0, "")
    assert [(report.step, report.metrics) for report in desk.reports] == [(1, {"score": 0.25})]
    assert desk.result == SegmentResult(outcome=Outcome.COMPLETED, step=1)


@pytest.mark.parametrize(
    ("fields", "step"), [({}, 7), ({"until_step": 9}, 9), ({"until_step": 3}, 7)]
)
def test_a_returned_score_counts_for_all_that_was_trained(
    desk: Desk, fields: dict[str, object], step: int
) -> None:
    desk.prepare(**fields)
    code, output = desk.run(
        """
        from hpo_ops.sdk.score import newest_epoch, save_epoch
        class Model:
            def score(self, hyperparameters, checkpoint_path, resume):
                for epoch in range(1, 8):
                    with save_epoch(checkpoint_path, epoch) as folder:
                        (folder / "state").touch()
                assert newest_epoch(checkpoint_path).name == "7"
                return {"score": 1, "loss": 2}
        """
    )
    assert code == 0, output
    assert [(report.step, report.metrics) for report in desk.reports] == [
        (step, {"score": 1.0, "loss": 2.0})
    ]
    assert desk.workspace.complete_steps() == list(range(1, 8))


def test_a_returned_score_is_complete_whatever_is_asked_by_then(desk: Desk) -> None:
    desk.prepare()
    write_atomically(desk.workspace.control, Control(action=Action.STOP, reason="late").to_json())
    assert desk.run(RETURNS)[0] == 0
    assert desk.result.outcome is Outcome.COMPLETED


def test_yielded_scores_are_reports_up_to_the_last_step(desk: Desk) -> None:
    desk.prepare(until_step=4)
    code, output = desk.run(YIELDS)
    assert (code, output) == (0, "resume False after 0\n")
    assert {report.step: report.metrics["score"] for report in desk.reports} == {
        1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4,
    }  # fmt: skip
    assert desk.result == SegmentResult(outcome=Outcome.COMPLETED, step=4)
    assert desk.workspace.complete_steps() == [1, 2, 3, 4]


def test_a_resumed_class_goes_on_after_its_newest_whole_epoch(desk: Desk) -> None:
    desk.prepare(from_step=10, until_step=12)
    for step in (9, 10):
        with save_epoch(desk.workspace.checkpoints, step) as folder:
            (folder / "state").write_text(str(step))
    code, output = desk.run(YIELDS)
    assert (code, output) == (0, "resume True after 10\n")
    assert [report.step for report in desk.reports] == [11, 12]


@pytest.mark.parametrize(
    ("action", "outcome"), [(Action.PAUSE, Outcome.PAUSED), (Action.STOP, Outcome.STOPPED)]
)
def test_a_class_that_yields_leaves_when_told_to(
    desk: Desk, action: Action, outcome: Outcome
) -> None:
    desk.prepare(until_step=9)
    write_atomically(desk.workspace.control, Control(action=action, reason="because").to_json())
    code, output = desk.run(
        YIELDS.replace("        for epoch", "        try:\n          for epoch")
        .replace("            folder", "              folder")
        .replace("            (folder", "              (folder")
        .replace("            yield", "              yield")
        + "        finally:\n            print('tidied up')\n"
    )
    assert code == 0, output
    assert output.endswith("tidied up\n")
    assert desk.result == SegmentResult(outcome=outcome, step=1, reason="because")
    assert desk.workspace.complete_steps() == [1]


def test_sigterm_is_obeyed_after_the_epoch_that_runs(desk: Desk) -> None:
    desk.prepare(until_step=9)
    code, output = desk.run(
        YIELDS.replace("            yield", "            kill(epoch)\n            yield")
        + "\nimport os\ndef kill(epoch):\n    if epoch == 2: os.kill(os.getpid(), 15)\n"
    )
    assert code == 0, output
    assert desk.result == SegmentResult(outcome=Outcome.PREEMPTED, step=2, reason="SIGTERM")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (None, SegmentResult(outcome=Outcome.PREEMPTED, step=2, reason="SIGTERM")),
        (Action.PAUSE, SegmentResult(outcome=Outcome.PAUSED, step=2, reason="because")),
    ],
)
def test_sigterm_ends_a_class_that_returns_where_it_is(
    desk: Desk, action: Action | None, expected: SegmentResult
) -> None:
    desk.prepare()
    process = desk.start(
        """
        import time
        from hpo_ops.sdk.score import save_epoch
        class Model:
            def score(self, hyperparameters, checkpoint_path, resume):
                for epoch in (1, 2):
                    with save_epoch(checkpoint_path, epoch) as folder:
                        (folder / "state").touch()
                with save_epoch(checkpoint_path, 3) as folder:
                    print("saving", flush=True)
                    time.sleep(60)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "saving\n"
    if action is not None:
        write_atomically(
            desk.workspace.control, Control(action=action, reason="because").to_json()
        )
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert time.monotonic() - begun < 20
    assert process.returncode == 0
    assert desk.result == expected
    assert sorted(path.name for path in desk.workspace.checkpoints.iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (RETURNS, "my_model", "the class is 'my_model', but must be given as module:Class"),
        (RETURNS, "", "usage: python -m hpo_ops.sdk.score module:Class"),
        (RETURNS, "your_model:Model", "your_model:Model: there is no module your_model in "),
        (RETURNS, "my_model.x:Model", "my_model.x:Model: there is no module my_model.x in "),
        (RETURNS, "my_model:Modle", "my_model has no class Modle; with a score: Model"),
        ("Model = 3", "my_model:Model", "my_model has no class Model"),
        (
            "class Model: pass",
            "my_model:Model",
            "my_model:Model: the class has no method "
            "score(self, hyperparameters, checkpoint_path, resume)",
        ),
        (
            "class Model:\n def score(self, params): return 1",
            "my_model:Model",
            "my_model:Model: too many positional arguments; the class must take no "
            "arguments and have score(self, hyperparameters, checkpoint_path, resume)",
        ),
        (
            "class Model:\n def __init__(self, x): pass\n def score(self, *a): return 1",
            "my_model:Model",
            "my_model:Model: missing a required argument: 'x'; the class must take no arguments",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_named(
    desk: Desk, source: str, target: str, message: str
) -> None:
    desk.prepare()
    code, output = desk.run(source, target)
    assert code == 1
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return None", "score returned None, but must be a number"),
        ("return '0.5'", "score returned '0.5', but must be a number"),
        ("return True", "score returned True, but must be a number"),
        ("return {}", "score returned {}, but must be a number"),
        ("return {'score': None}", "score returned score = None, but must be a number"),
        ("yield 0.5", "score yielded 0.5, but must yield (epoch, score)"),
        ("yield 0, 0.5", "score yielded the epoch 0, but epochs are 1 and up"),
        ("yield 1, 'x'", "score yielded at epoch 1 'x', but must be a number"),
        ("yield 1, 1\n        return 2", "score yields its scores, but also returned 2"),
        ("return iter(())", "score yielded nothing, but must yield (epoch, score)"),
    ],
)
def test_what_is_not_a_score_is_the_reason_of_a_failed_trial(
    desk: Desk, body: str, reason: str
) -> None:
    desk.prepare()
    code, _ = desk.run(f"class Model:\n    def score(self, hp, path, resume):\n        {body}\n")
    assert code == 1
    assert desk.result.outcome is Outcome.FAILED
    assert desk.result.reason.startswith(f"ValueError: {reason}")


def test_an_error_of_the_class_is_the_reason(desk: Desk) -> None:
    desk.prepare()
    code, output = desk.run("import no_such_library")
    assert code == 1
    assert desk.result.reason == "ModuleNotFoundError: No module named 'no_such_library'"
    assert "Traceback" in output


def test_it_runs_outside_of_a_trial(desk: Desk) -> None:
    code, output = desk.run(YIELDS, HPO_DIR="", HPO_PARAMS='{"lr": 1}')
    assert code == 0
    assert "step 20  score 2  loss 0.05" in output
    assert not desk.workspace.root.exists()


def test_epochs_are_in_numeric_order_and_whole(tmp_path: Path) -> None:
    assert newest_epoch(tmp_path / "missing") is None
    assert newest_epoch(tmp_path) is None
    for epoch in (9, 10):
        with save_epoch(tmp_path, epoch) as folder:
            (folder / "x").touch()
            assert newest_epoch(tmp_path) == (tmp_path / "9" if epoch == 10 else None)
    (tmp_path / "11").mkdir()
    assert newest_epoch(tmp_path) == tmp_path / "10"
    assert (tmp_path / "10" / MARKER).is_file()


def test_an_epoch_that_could_not_be_saved_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), save_epoch(tmp_path, 1):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
