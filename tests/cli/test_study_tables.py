"""Studies and trials as a person reads them."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import pytest
from rich.console import Console

from hpo_ops.cli.show_command import folds_table, segments_table, trial_lines
from hpo_ops.cli.study_tables import (
    best_lines,
    duration,
    params_text,
    progress_line,
    studies_table,
    trials_table,
)
from hpo_ops.client import (
    Best,
    FoldSummary,
    Progress,
    SegmentDetail,
    Served,
    TrialDetail,
    TrialSummary,
)
from hpo_ops.core import TrialState

BEST = Best(
    trial=3,
    value=0.98765,
    step=4,
    params={"lr": 0.000123456, "optimizer": "sgd"},
    checkpoint_uri="s3://bucket/best",
    checkpoint_step=4,
)


def progress(counts: dict[str, int], **changes: Any) -> Progress:
    values: dict[str, Any] = {
        "id": 1,
        "name": "digits",
        "run_id": "manual",
        "key": "digits/manual",
        "dag_id": "digits",
        "state": "running",
        "reason": "",
        "metric": "accuracy",
        "direction": "maximize",
        "trials": 16,
        "mapped_trials": 16,
        "counts": {**{state.value: 0 for state in TrialState}, **counts},
        "seconds": 75.4,
        **changes,
    }
    known = {field.name for field in fields(Progress)}
    return Progress(**{name: value for name, value in values.items() if name in known})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0:00"),
        (0.9, "0:00"),
        (59.9, "0:59"),
        (75, "1:15"),
        (3599, "59:59"),
        (3675, "1:01:15"),
        (90_000, "25:00:00"),
    ],
)
def test_a_duration_is_written_as_on_a_clock(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_tells_done_running_pruned_and_the_best() -> None:
    counts = {"completed": 4, "pruned": 3, "failed": 1, "running": 2, "paused": 1}
    line = progress_line(progress(counts, best=BEST))
    assert line.startswith("digits  1:15 · 8/16 done · 2 running · 3 pruned")
    assert "1 paused" in line
    assert "1 failed" in line
    assert line.endswith("best accuracy 0.9877 (trial 3)")


def test_a_line_says_nothing_of_what_there_is_not() -> None:
    line = progress_line(progress({"running": 2}))
    for word in ("paused", "failed", "best"):
        assert word not in line


def test_parameters_are_short_on_one_line() -> None:
    params = {"lr": 0.000123456789, "width": 64, "optimizer": "sgd", "nesterov": True}
    assert params_text(params) == "lr=0.0001235 width=64 optimizer=sgd nesterov=True"


def test_the_best_trial_names_its_checkpoint() -> None:
    text = "\n".join(best_lines(BEST, "accuracy"))
    assert "3 with accuracy 0.98765 at step 4" in text
    assert "s3://bucket/best (step 4)" in text
    without = Best(trial=3, value=0.5, step=1, params={})
    assert "Checkpoint" not in "\n".join(best_lines(without, "accuracy"))


def printed(table: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_tables_show_every_study_and_trial() -> None:
    studies = [progress({"completed": 16}, best=BEST), progress({"failed": 2}, name="other")]
    text = printed(studies_table(studies))
    assert "16/16" in text
    assert "other" in text
    assert "0.98765" in text
    trial = TrialSummary(
        trial=7,
        state=TrialState.PRUNED,
        reason="rank 9 of 9 at step 3",
        step=3,
        value=0.25,
        best_step=3,
        params={"lr": 0.1},
        segments=2,
        seconds=61.0,
    )
    row = printed(trials_table([trial], "accuracy")).splitlines()[1].split()
    assert row[:6] == ["7", "pruned", "3", "0.25", "1:01", "2"]
    assert "rank 9 of 9 at step 3" in printed(trials_table([trial], "accuracy"))


def test_what_was_served_from_the_cache_is_said() -> None:
    served = Served(study="other/run", trial=7, step=2)
    line = progress_line(progress({"completed": 3}, served=2))
    assert "2 from the cache" in line
    trial = TrialSummary(
        trial=0,
        state=TrialState.COMPLETED,
        reason="trained 9 steps",
        step=9,
        value=0.5,
        best_step=9,
        params={},
        segments=2,
        seconds=1.0,
        served=served,
    )
    text = printed(trials_table([trial], "accuracy"))
    assert "trained 9 steps (from the cache: trial 7 of other/run, up to step 2)" in text
    reason = "9 steps from the cache: trial 7 of other/run"
    complete = replace(trial, reason=reason, served=replace(served, step=9))
    assert printed(trials_table([complete], "accuracy")).count("from the cache") == 1


def folded() -> TrialSummary:
    values = (0.74, 0.72, None)
    return TrialSummary(
        trial=3,
        state=TrialState.PRUNED,
        reason="worse than trial 1",
        step=4,
        value=0.73,
        deviation=0.0141,
        best_step=3,
        params={"lr": 0.1},
        segments=2,
        seconds=9.0,
        folds=[
            FoldSummary(
                fold=fold,
                number=9 + fold,
                state=TrialState.PRUNED if value is None else TrialState.COMPLETED,
                reason="",
                step=0 if value is None else 4,
                value=value,
            )
            for fold, value in enumerate(values)
        ],
    )


def shown(table: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def test_a_trial_with_folds_shows_its_mean_and_deviation() -> None:
    trial = folded()
    assert TrialSummary.from_dict(trial.to_dict()) == trial
    text = shown(trials_table([trial], "accuracy"))
    assert "Folds" in text
    assert "0.73 ± 0.014" in text
    detail = TrialDetail(
        summary=trial,
        seed=1,
        segments=[SegmentDetail(id="a", runner="local", from_step=0, trial=10)],
    )
    assert ("Value", "accuracy 0.73 ± 0.014 after 4 steps") in list(
        trial_lines(detail, "accuracy")
    )
    assert "2/3   10" in shown(folds_table(trial.folds, "accuracy"))
    assert "a        2" in shown(segments_table(detail))


def test_the_best_of_a_study_with_folds_says_whose_checkpoint_it_is() -> None:
    values: dict[str, Any] = {
        "trial": 3,
        "value": 0.73,
        "step": 3,
        "params": {"lr": 0.1},
        "deviation": 0.01,
        "folds": [0.74, 0.72, 0.73],
        "checkpoint_uri": "s3://bucket/best",
        "checkpoint_step": 3,
    }
    lines = best_lines(Best(**values, checkpoint_fold=0), "accuracy")
    assert lines[0] == "Best trial:  3 with accuracy 0.73 ± 0.01 at step 3"
    assert lines[2] == "Folds:       0.74 0.72 0.73"
    assert lines[3] == "Checkpoint:  s3://bucket/best (step 3 of fold 1)"
    lines = best_lines(Best(**values, is_retrained=True), "accuracy")
    assert lines[3] == "Checkpoint:  s3://bucket/best (step 3, trained on all data)"
    line = progress_line(progress({}, best=Best(**values), folds=3, state="retraining"))
    assert line.endswith(
        "training the best configuration on all data · best accuracy 0.73 ± 0.01 (trial 3)"
    )
