"""What a training runs with gets to the gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpo_ops.agent import Agent
from hpo_ops.protocol import Assignment, Outcome, Provenance, Workspace, write_atomically
from tests.gateways import FakeGateway


class Bench:
    """An agent beside a workspace."""

    def __init__(self, root: Path) -> None:
        self.gateway = FakeGateway()
        self.workspace = Workspace(root)
        assignment = Assignment(
            study="s", trial=0, segment="a", params={}, metrics=["accuracy"], until_step=1
        )
        self.workspace.prepare(assignment)
        self.agent = Agent(
            self.workspace,
            assignment,
            self.gateway,
            known=lambda: Provenance(code_hash="abc", python="of the runner"),
            wait=lambda _: None,
            finish_seconds=1,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_end_of_a_segment_says_what_it_was_trained_with(bench: Bench) -> None:
    said = Provenance(packages={"torch": "2.9"}, python="3.12")
    write_atomically(bench.workspace.software, said.to_json())
    bench.agent.finish(0)
    sent = bench.gateway.provenance
    assert sent == Provenance(code_hash="abc", python="of the runner", packages={"torch": "2.9"})


def test_a_training_that_says_nothing_is_described_by_what_the_runner_knows(bench: Bench) -> None:
    bench.agent.finish(1)
    assert bench.gateway.provenance.code_hash == "abc"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"packages": ["torch"]}',
        '{"packages": {"torch": 2}}',
        '{"devices": "gpu"}',
        '{"python": 3}',
        '{"is_dirty": "no"}',
        json.dumps({"python": "3" * 100_000}),
    ],
    ids=lambda text: text[:20],
)
def test_what_cannot_be_used_is_no_failure(bench: Bench, text: str) -> None:
    bench.workspace.software.write_text(text)
    bench.workspace.reports.write_text('{"step": 1, "metrics": {"accuracy": 1}}\n')
    assert bench.agent.finish(0).outcome is Outcome.COMPLETED
    assert bench.gateway.provenance == Provenance(code_hash="abc", python="of the runner")
