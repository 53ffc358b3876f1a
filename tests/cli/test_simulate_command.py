"""`hpo simulate`, `plan`, `whatif` and `trace export`: what they print, and how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hpo_ops.cli import main
from hpo_ops.cli.commands import app
from hpo_ops.cli.replay_options import time_text
from hpo_ops.client import Progress, ReportPage, SegmentSummary, TrialSummary
from hpo_ops.core import TrialState
from hpo_ops.simulator import Cluster, image_study, load_traces, save_traces
from tests.recordings import recorded
from tests.studies import study_data


def run(*words: str) -> Any:
    result = CliRunner().invoke(app, list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refuse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    """The command as the shell calls it; what it says when it refuses."""
    monkeypatch.setattr(sys, "argv", ["hpo", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("hpo: ")
    return said.err


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A file of a recorded study."""
    cluster = Cluster(units=3, start_seconds=20.0, resume_seconds=10.0, turnover_seconds=5.0)
    path = tmp_path / "live.jsonl.gz"
    save_traces(recorded(image_study(seed=4, trials=30, steps=27), cluster=cluster), path)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(study_data(code=".")))
    return path


# -- simulate --------------------------------------------------------------------------------

QUICK = ["image:trials=12,steps=9", "--orders", "3"]


def test_a_newcomer_needs_no_data() -> None:
    result = run("simulate", *QUICK)
    assert result.exit_code == 0
    for word in ("default", "asha", "hyperband", "median", "oracle", "GPU-hours", "Reached"):
        assert word in result.stdout
    assert "at which the best of these trials settles" in result.stdout


def test_the_same_seed_gives_the_same_figures() -> None:
    words = ["simulate", *QUICK, "--json", "-s", "asha,pop:boundary=3", "--seed", "5"]
    first, second = run(*words).stdout, run(*words).stdout
    assert first == second
    assert run(*words[:-1], "6").stdout != first


def test_simulate_speaks_json() -> None:
    result = run("simulate", *QUICK, "-s", "asha:eta=4,default", "--json", "--slots", "2")
    found = json.loads(result.stdout)
    assert [row["policy"] for row in found["policies"]] == ["asha:eta=4", "default"]
    assert found["slots"] == 2
    assert found["oracle_seconds"] > 0
    row = found["policies"][1]
    assert row["reached"] == 3
    assert row["seconds_to_target"]["least"] <= row["seconds_to_target"]["mean"]
    assert row["gpu_hours"]["mean"] == pytest.approx(
        2 * row["makespan_seconds"]["mean"] * row["utilization"]["mean"] / 3600, rel=0.2
    )


def test_a_target_a_deadline_and_rounds_are_taken() -> None:
    easy = json.loads(run("simulate", *QUICK, "--target", "0.12", "--json").stdout)
    assert easy["target"] == 0.12
    whole = json.loads(run("simulate", *QUICK, "--target", "none", "--json").stdout)
    assert whole["target"] is None
    assert whole["oracle_seconds"] is None
    words = ["simulate", *QUICK, "--target", "none", "-s", "default", "--json"]
    cut = json.loads(run(*words, "--deadline", "5m").stdout)
    assert cut["policies"][0]["makespan_seconds"]["most"] == 300.0
    barrier = json.loads(run(*words, "--rounds").stdout)["policies"][0]
    rolling = json.loads(run(*words).stdout)["policies"][0]
    assert barrier["makespan_seconds"]["mean"] > rolling["makespan_seconds"]["mean"]


def test_an_allocator_is_taken() -> None:
    words = ["uneven", "--orders", "2", "--target", "none", "--json", "--max-share", "2"]
    found = json.loads(run("simulate", *words, "-s", "halving,halving+dynamic_fluid").stdout)
    alone, shared = found["policies"]
    assert shared["makespan_seconds"]["mean"] < alone["makespan_seconds"]["mean"]


def test_who_forecasts_can_be_said_and_comes_from_the_study_else(study: Path) -> None:
    def pop(*words: str) -> object:
        command = ["simulate", "image:trials=30,steps=60", "--orders", "2", "--json"]
        return json.loads(run(*command, *words).stdout)["policies"][0]["seconds_to_target"]

    projected = pop("-s", "pop:kill_threshold=0.15")
    wandering = pop("-s", "pop:kill_threshold=0.15", "--curves", "wandering")
    assert projected != wandering
    data = study_data(
        code=".",
        scheduler={"name": "pop", "max_steps": 60, "kill_threshold": 0.15},
        flow="rolling",
        curves="wandering",
        seed=0,
    )
    study.write_text(yaml.safe_dump(data))
    assert pop("-s", str(study)) == wandering


def test_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "plots"
    result = run("simulate", *QUICK, "-s", "asha:eta=4,default", "--plots", str(folder))
    assert result.exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "allocation_asha-eta-4.png",
        "allocation_default.png",
        "machines.png",
        "orders.png",
        "time_to_target.png",
        "utilization.png",
    ]


def test_recorded_traces_bring_their_delays_and_say_what_was_not_seen(live: Path) -> None:
    found = json.loads(run("simulate", str(live), "--orders", "2", "--json").stdout)
    assert found["start_seconds"] == pytest.approx(20.0)
    assert any("were cut short" in note for note in found["notes"])
    words = ["simulate", str(live), "--orders", "2", "--json", "--start-seconds", "0"]
    assert json.loads(run(*words).stdout)["start_seconds"] == 0.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["simulate", "none.jsonl"], "none.jsonl: cannot be read: No such file or directory"),
        (["simulate", "dance"], "traces is 'dance', but must be a file of traces"),
        (["simulate", "image:trials=0"], "image.trials is 0, but must be an integer, 1"),
        (["simulate", "image:size=3"], "image.size is not an option"),
        (["simulate", *QUICK, "-s", "dance"], "scheduler.name is 'dance', but must be one of"),
        (["simulate", *QUICK, "-s", "asha:eta=1"], "scheduler.eta is 1, but must be 2 or more"),
        (["simulate", *QUICK, "-s", "pbt:population=4"], "a trace does not hold copies"),
        (["simulate", *QUICK, "--curves", "bent"], "--curves: curves.name is 'bent', but must be"),
        (["simulate", *QUICK, "--curves", "mcmc:walkers=9"], "--curves: curves.walkers is 9"),
        (["simulate", *QUICK, "-s", "none.yaml"], "none.yaml: cannot be read"),
        (["simulate", *QUICK, "--target", "high"], "--target is 'high', but must be a number"),
        (["simulate", *QUICK, "--deadline", "soon"], "--deadline is 'soon', but must be a dur"),
        (["simulate", *QUICK, "--deadline", "0"], "--deadline is '0', but must be above 0"),
        (["simulate", *QUICK, "--allocator", "x"], "allocator.name is 'x', but must be one of"),
        (["plan", "none.yaml"], "none.yaml: cannot be read"),
        (["whatif", "none.jsonl"], "none.jsonl: cannot be read"),
        (["trace", "export", "x", "-o", "x.csv"], "--output is x.csv, but must end in .jsonl"),
    ],
)
def test_a_mistake_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    assert sentence in refuse(monkeypatch, capsys, *words)


@pytest.mark.parametrize(
    "words", [["simulate"], ["simulate", "image", "--slots", "0"], ["plan"], ["trace", "dance"]]
)
def test_misuse_has_its_own_code(words: list[str]) -> None:
    assert run(*words).exit_code == 2


# -- plan ------------------------------------------------------------------------------------


def test_a_plan_without_data_says_that_curves_are_made_up(study: Path) -> None:
    result = run("plan", str(study), "--draws", "4", "--price", "2.5/gpu-hour")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[2].startswith("asha (this study)")
    assert "Cost" in lines[1]
    assert "the learning curves are synthetic" in result.stdout
    assert "--step-seconds" in result.stdout


def test_a_plan_from_a_similar_study(study: Path, live: Path) -> None:
    words = ["plan", str(study), "--like", str(live), "--slots", "2,4", "--draws", "5", "--json"]
    result = run(*words, "-s", "median,pop", "--price", "3")
    found = json.loads(result.stdout)
    assert [(row["policy"], row["slots"]) for row in found["plans"]] == [
        (name, slots) for name in ("asha (this study)", "median", "pop") for slots in (2, 4)
    ]
    assert found["curves"] == str(live)
    for row in found["plans"]:
        assert row["cost"]["mean"] == pytest.approx(3 * row["gpu_hours"]["mean"])
        assert row["gpu_hours"]["low"] <= row["gpu_hours"]["median"] <= row["gpu_hours"]["high"]
    assert "made up" not in " ".join(found["notes"])
    assert run(*words, "-s", "median,pop", "--price", "3").stdout == result.stdout


def test_a_plan_stops_at_the_target_of_the_study(tmp_path: Path, live: Path) -> None:
    metric = {"name": "accuracy", "direction": "maximize", "target": 0.2}
    path = tmp_path / "aims.yaml"
    path.write_text(yaml.safe_dump(study_data(code=".", metric=metric)))
    words = ["plan", str(path), "--like", str(live), "--slots", "2", "--draws", "3", "--json"]
    for row in json.loads(run(*words).stdout)["plans"]:
        assert row["reached"] == 3
        assert row["seconds_to_target"] == row["makespan_seconds"]


def test_a_plan_and_what_if_forecast_as_the_study_does(tmp_path: Path) -> None:
    pop = {"name": "pop", "max_steps": 60, "kill_threshold": 0.15}
    path = tmp_path / "pop.yaml"
    path.write_text(
        yaml.safe_dump(study_data(code=".", scheduler=pop, flow="rolling", curves="wandering"))
    )
    source = recorded(image_study(seed=4, trials=30, steps=60), cluster=Cluster(units=3))
    assert source.terms is not None
    terms = replace(source.terms, scheduler=pop, curves={"name": "wandering"}, target=0.7)
    like = tmp_path / "pop.jsonl.gz"
    save_traces(replace(source, terms=terms), like)
    planning = ["plan", str(path), "--draws", "3", "--slots", "2", "-s", "default", "--json"]
    asking = ["whatif", str(like), "--unseen", "forecast", "--json"]
    for words in (planning, asking):
        usual = run(*words).stdout
        assert usual == run(*words, "--curves", "wandering").stdout
        assert usual != run(*words, "--curves", "projected").stdout


def test_a_plan_refuses_what_does_not_fit(
    tmp_path: Path,
    study: Path,
    live: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, sentence in [
        (["--price", "cheap"], "--price is 'cheap', but must be like 2.5"),
        (["--slots", "0"], "--slots is '0', but must be integers, 1 or more"),
        (["--like", "none.jsonl"], "none.jsonl: cannot be read"),
    ]:
        assert sentence in refuse(monkeypatch, capsys, "plan", str(study), *words)
    path = tmp_path / "loss.yaml"
    metric = {"name": "loss", "direction": "minimize"}
    path.write_text(yaml.safe_dump(study_data(code=".", metric=metric)))
    said = refuse(monkeypatch, capsys, "plan", str(path), "--like", str(live))
    assert (
        "study live has to maximize accuracy, but the planned study has to minimize loss" in said
    )


# -- whatif ----------------------------------------------------------------------------------


def test_what_if_shows_what_happened_beside_replays(live: Path) -> None:
    result = run("whatif", str(live), "--scheduler", "default", "--slots", "3,6")
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line and not line.startswith("-")]
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "what happened",
        "same policy, replayed",
        "default",
        "default",
    ]
    assert "past its recording a trial takes its own mean time a step" in result.stdout
    assert "trained beyond what is recorded" in result.stdout


def test_what_if_speaks_json_and_repeats(live: Path) -> None:
    words = ["whatif", str(live), "-s", "default", "--slots", "6", "--json"]
    result = run(*words)
    found = json.loads(result.stdout)
    happened, (again, other) = found["happened"], found["replays"]
    assert again["makespan_seconds"] == pytest.approx(happened["makespan_seconds"], rel=0.01)
    assert again["unmeasured_reports"] == 0
    assert other["slots"] == 6
    assert other["unmeasured_trials"]
    assert other["gpu_hours"] > happened["gpu_hours"]
    assert run(*words).stdout == result.stdout
    cut = json.loads(run(*words, "--unseen", "cut").stdout)["replays"][1]
    assert cut["unmeasured_reports"] == 0
    assert cut["gpu_hours"] < other["gpu_hours"]


def test_what_if_without_a_policy_asks_for_other_slots_only(live: Path) -> None:
    found = json.loads(run("whatif", str(live), "--slots", "3,9", "--json").stdout)
    assert [(row["policy"], row["slots"]) for row in found["replays"]] == [
        ("same policy, replayed", 3),
        ("asha", 9),
    ]


def test_what_if_needs_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bare.jsonl"
    save_traces(image_study(seed=1, trials=3, steps=4), path)
    said = refuse(monkeypatch, capsys, "whatif", str(path))
    assert "has no record of how the study ran" in said


# -- trace export ----------------------------------------------------------------------------


class FakeGateway:
    """A gateway with one small study."""

    def config(self, _study: int) -> dict[str, Any]:
        return {
            "scheduler": {"name": "asha", "max_steps": 9},
            "parallelism": 2,
            "flow": "rolling",
            "reproducible": False,
            "trials": 3,
            "metric": {"name": "accuracy", "direction": "maximize", "target": None},
            "budget": {"wall": None},
        }

    def reports(self, _study: int, *, after: int = 0) -> ReportPage:
        rows = [(1, 0, 1, 0.5, 1.0, 2.0), (2, 1, 1, 0.6, 1.0, 2.5), (3, 0, 2, 0.7, 1.5, 3.0)]
        page = [row for row in rows if row[0] > after][:2]
        columns: Iterator[list[Any]] = map(list, zip(*page, strict=True))
        names = ("ids", "trials", "steps", "values", "seconds", "times")
        return ReportPage(**dict(zip(names, columns, strict=True))) if page else ReportPage()

    def segments(self, _study: int, *, offset: int = 0) -> list[SegmentSummary]:
        made = [
            SegmentSummary(trial=0, start=0.5, from_step=0, end=3.5, step=2, outcome="completed"),
            SegmentSummary(trial=1, start=0.5, from_step=0),
        ]
        return made[offset : offset + 1]

    def trials(self, _study: int) -> list[TrialSummary]:
        states = [TrialState.COMPLETED, TrialState.RUNNING, TrialState.WAITING]
        return [
            TrialSummary(
                trial=number,
                state=state,
                reason="",
                step=0,
                value=None,
                best_step=None,
                params={"lr": 0.1},
                segments=1,
                seconds=1.0,
            )
            for number, state in enumerate(states)
        ]


class FakeSession:
    gateway = FakeGateway()

    def study(self, name: str, run_id: str | None = None) -> Progress:
        return Progress(
            id=1,
            name=name,
            run_id=run_id or "manual__1",
            key="k",
            dag_id=name,
            state="running",
            reason="",
            metric="accuracy",
            direction="maximize",
            trials=3,
            mapped_trials=3,
            counts={},
            seconds=4.0,
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpo_ops.cli.trace_sources.connect", FakeSession)


@pytest.mark.usefixtures("fake")
def test_a_study_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "new" / "digits.jsonl.gz"
    result = run("trace", "export", "digits", "--run", "manual__7", "-o", str(path))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "2 trials, 3 reports" in result.stderr
    assert "1 trials without reports" in result.stderr
    traces = load_traces(path)
    assert traces.terms is not None
    assert traces.terms.run == "manual__7"
    assert traces.trials[0].values == (0.5, 0.7)
    assert traces.trials[1].record is not None
    assert traces.trials[1].record.segments[0].end == 4.0


@pytest.mark.usefixtures("fake")
def test_traces_go_to_standard_output_and_into_whatif(tmp_path: Path) -> None:
    result = run("trace", "export", "digits")
    path = tmp_path / "piped.jsonl"
    path.write_text(result.stdout)
    assert len(load_traces(path).trials) == 2
    asked = run("whatif", "digits", "--slots", "1", "--json")
    assert json.loads(asked.stdout)["study"] == "digits"
    assert "the study was running when it was recorded" in asked.stdout


def test_times_are_written_in_the_unit_that_suits() -> None:
    assert [time_text(seconds) for seconds in (90.0, 600.0, 9000.0)] == [
        "90.0 s",
        "10.00 min",
        "2.50 h",
    ]
    assert time_text(30.0, 9000.0) == "0.01 h"


def test_a_study_with_folds_is_neither_planned_nor_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "folded.yaml"
    path.write_text(yaml.safe_dump(study_data(code=str(tmp_path), scheduler="default", folds=3)))
    assert "folded.yaml has folds, but only a study" in refuse(
        monkeypatch, capsys, "plan", str(path)
    )

    class Folded(FakeSession):
        def study(self, name: str, run_id: str | None) -> Progress:
            return replace(super().study(name, run_id), folds=3)

    monkeypatch.setattr("hpo_ops.cli.trace_sources.connect", Folded)
    said = refuse(monkeypatch, capsys, "trace", "export", "digits")
    assert "digits has folds, but only studies without folds can be recorded" in said


def test_a_missing_package_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "emcee", None)
    words = ("simulate", "image:trials=4,steps=24", "-s", "pop", "--curves", "mcmc")
    assert "pip install 'hpo-ops[curves]'" in refuse(monkeypatch, capsys, *words)
