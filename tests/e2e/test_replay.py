"""A live study beside its replay: the simulator is worth as much as it is near to what happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpo_ops.cli.commands import app
from hpo_ops.cli.trace_sources import record
from hpo_ops.simulator import load_traces, save_traces
from tests.e2e.airflow import Lab

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("flow", ["rounds", "rolling"])
def test_the_replay_of_a_live_study_takes_about_as_long(
    lab: Lab, tmp_path: Path, flow: str
) -> None:
    name = lab.add_study(
        f"e2e_replay_{flow}",
        flow=flow,
        trials=8,
        parallelism=2,
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [0.5, 1.0]}},
    )
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"

    traces = record(name, run_id, lab.session)
    assert len(traces.trials) == 8
    path = tmp_path / "live.jsonl.gz"
    save_traces(traces, path)
    assert load_traces(path) == traces

    asked = CliRunner().invoke(app, ["whatif", str(path), "-s", "default", "--json"])
    found = json.loads(asked.stdout)
    print(flow, json.dumps(found, indent=1))
    happened, (again, _) = found["happened"], found["replays"]
    # A busy machine delays a live study by what no replay knows: near, not equal.
    assert again["makespan_seconds"] == pytest.approx(happened["makespan_seconds"], rel=0.5)
    # A live trial trains on until it hears that it is to stop; a replayed one stops at once.
    assert again["gpu_hours"] == pytest.approx(happened["gpu_hours"], rel=0.5)
