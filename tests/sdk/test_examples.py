"""The examples, as the local runner runs them: paused, resumed, and what they print."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from hpo_ops.checkpoints import Checkpoints, open_store
from hpo_ops.config import load_study
from hpo_ops.protocol import Action, Assignment, Control, Outcome, Report, SegmentResult
from hpo_ops.runners.local._process_runner import ProcessRunner
from hpo_ops.runners.segment_with_agent import run_segment
from tests.gateways import FakeGateway

EXAMPLES = Path(__file__).parents[2] / "examples"
PARAMS: dict[str, dict[str, object]] = {
    "any_language": {"rate": 0.3, "momentum": 0.5},
    "score_class": {"alpha": 0.001, "penalty": "l2"},
}


class Example:
    """One example, run segment by segment."""

    def __init__(self, name: str, root: Path) -> None:
        self.folder = EXAMPLES / name
        self.study = load_study(self.folder / "study.yaml")
        self.root = root
        self.params = PARAMS[name]
        self.lines: list[str] = []
        self.checkpoints = Checkpoints(open_store(f"file://{root}/store"), name)
        self.runner: ProcessRunner | None = None

    def run(self, gateway: FakeGateway, *, trial: int = 0, **fields: object) -> SegmentResult:
        self.lines = []
        self.runner = ProcessRunner(
            self.study.command, Path(self.study.code), on_line=self.lines.append
        )
        values: dict[str, object] = {
            "study": self.study.name,
            "trial": trial,
            "segment": "a",
            "params": self.params,
            "metrics": [self.study.metric.name],
        }
        return run_segment(
            Assignment.from_dict(values | fields),
            root=self.root / "hpo",
            runner=self.runner,
            gateway=gateway,
            checkpoints=self.checkpoints,
        ).result


@pytest.fixture(params=sorted(PARAMS))
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Example:
    return Example(request.param, tmp_path)


def metrics(reports: list[Report]) -> dict[int, dict[str, float]]:
    return {report.step: report.metrics for report in reports}


def pause_after(count: int) -> FakeGateway:
    return FakeGateway(
        lambda reports: Control(
            action=Action.PAUSE if len(reports) >= count else Action.CONTINUE, reason="wait"
        )
    )


def test_a_paused_example_goes_on_with_exactly_the_same_numbers(example: Example) -> None:
    whole, first, second = FakeGateway(), pause_after(2), FakeGateway()
    assert example.run(whole, until_step=9).outcome is Outcome.COMPLETED, example.lines
    assert list(metrics(whole.reports)) == list(range(1, 10))
    paused = example.run(first, trial=1, until_step=10_000)
    assert (paused.outcome, paused.reason) == (Outcome.PAUSED, "wait"), example.lines
    step, last = first.checkpoints[-1].step, max(9, paused.step + 2)
    assert 0 < step <= paused.step
    resumed = example.run(second, trial=1, from_step=step, until_step=last)
    assert resumed.outcome is Outcome.COMPLETED, example.lines
    assert min(metrics(second.reports)) == step + 1
    seen = metrics(first.reports) | metrics(second.reports)
    assert {step: seen[step] for step in range(1, 10)} == metrics(whole.reports)


def test_a_preempted_example_saves_and_leaves(example: Example) -> None:
    def preempt(reports: list[Report]) -> Control:
        if reports and example.runner is not None:
            example.runner.terminate()
        return Control()

    gateway = FakeGateway(preempt)
    result = example.run(gateway, until_step=10_000)
    assert result.outcome is Outcome.PREEMPTED, example.lines
    assert 0 < gateway.checkpoints[-1].step <= result.step


def test_its_readme_says_what_it_prints(example: Example) -> None:
    text = (example.folder / "README.md").read_text()
    expected = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert expected is not None
    gateway = FakeGateway()
    assert example.run(gateway, until_step=3).outcome is Outcome.COMPLETED
    name = example.study.metric.name
    printed = [
        f"step {report.step} {name} {report.metrics[name]:.4f}" for report in gateway.reports
    ]
    assert expected.group(1).splitlines() == printed


def test_the_shell_leaves_as_signalled_without_a_runner(tmp_path: Path) -> None:
    """Exit code 143 is what a shell makes of SIGTERM, and what the platform takes for one."""
    (tmp_path / "checkpoints").mkdir()
    assignment = Assignment(
        study="s", trial=0, segment="a", params={"rate": 0.1, "momentum": 0}, metrics=["loss"]
    )
    (tmp_path / "assignment.json").write_text(assignment.to_json())
    with subprocess.Popen(
        ["sh", EXAMPLES / "any_language" / "train.sh"],
        env={"HPO_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("step 1 loss ")
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode in (143, 0)  # 0 where it was at its last step already
