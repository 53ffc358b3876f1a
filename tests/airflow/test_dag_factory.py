"""DAGs from study files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.serialization.serialized_objects import DagSerialization

from hpo_ops.airflow._running_studies import RunningStudies
from hpo_ops.airflow.dag_factory import build_dag, build_dags
from hpo_ops.airflow.trigger_form import check_map_length, form_of, read_trigger
from hpo_ops.config import StudyError, parse_study
from hpo_ops.config.round_planning import count_rounds
from hpo_ops.config.runner_registry import generic_dags
from hpo_ops.runners.local.operator import TrialOperator
from tests.studies import study_data

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def airflow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study_data(name=name, code=str(folder), **changes)))
    return path


def test_every_example_study_has_a_dag() -> None:
    folder = PROJECT / "dags" / "studies"
    dags = build_dags(folder)
    names = {yaml.safe_load(path.read_text())["name"] for path in folder.glob("*.yaml")}
    assert set(dags) == names | set(generic_dags().values())
    assert all("broken" not in dag.tags for dag in dags.values())


def test_a_study_in_rounds_has_a_group_for_each_round() -> None:
    dag = build_dag(parse_study(study_data(trials=6, parallelism=4), source="test"))
    assert set(dag.task_ids) == {
        "prepare",
        *(f"round_{n:02}.{task}" for n in (0, 1) for task in ("sample", "trial", "collect")),
        "round_00.early_stop",
        "round_01.early_stop",
        "publish",
        "finalize",
    }
    assert dag.get_task("publish").upstream_task_ids == {"prepare", "round_01.early_stop"}


def test_a_rolling_study_has_no_barrier() -> None:
    dag = build_dag(parse_study(study_data(flow="rolling", parallelism=4), source="test"))
    assert set(dag.task_ids) == {"prepare", "trial", "early_stop", "publish", "finalize"}
    trial = dag.get_task("trial")
    # One more than can ever run: it waits in line.
    assert trial.max_active_tis_per_dagrun == 5
    raisable = study_data(flow="rolling", parallelism=4, max_parallelism=8)
    dag = build_dag(parse_study(raisable, source="test"))
    assert dag.get_task("trial").max_active_tis_per_dagrun == 9


def test_trials_that_may_pause_are_all_started_when_needed() -> None:
    scheduler = {"name": "asha_promoting", "max_steps": 9}
    dag = build_dag(parse_study(study_data(scheduler=scheduler, trials=8), source="test"))
    # Each paused trial stays deferred and counts: any limit could keep new ones from starting.
    assert dag.get_task("trial").max_active_tis_per_dagrun is None


def test_a_reproducible_study_has_rounds_for_every_rung() -> None:
    study = parse_study(study_data(trials=6, parallelism=3, reproducible=True), source="test")
    # Rungs 1, 3, 9: at the worst every trial passes each of them.
    assert count_rounds(study) == 6 * 3 // 3 + 3


def test_a_broken_file_keeps_nobody_else_from_their_dag(tmp_path: Path) -> None:
    write(tmp_path, "good")
    (tmp_path / "bad.yaml").write_text("name: [")
    dags = build_dags(tmp_path)
    assert set(dags) == {"good", "bad", *generic_dags().values()}
    assert "broken" in dags["bad"].tags
    assert "bad.yaml: is not YAML" in (dags["bad"].doc_md or "")


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    first = write(tmp_path, "a_good")
    (tmp_path / "b_copy.yaml").write_text(first.read_text())
    dags = build_dags(tmp_path)
    assert "broken" not in dags["a_good"].tags
    assert "a_good.yaml has it too" in (dags["b_copy"].doc_md or "")


def test_a_study_that_runs_keeps_its_tasks_when_its_file_is_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "good", trials=6, parallelism=2)
    config = parse_study(yaml.safe_load(path.read_text()), source="test")
    tasks = set(build_dags(tmp_path)["good"].task_ids)
    RunningStudies().remember("good", "run-1", config)
    write(tmp_path, "good", trials=6, parallelism=2, seed=8)
    assert "cannot be used" not in (build_dags(tmp_path)["good"].doc_md or "")
    write(tmp_path, "good", trials=60, parallelism=2)
    dag = build_dags(tmp_path)["good"]
    assert set(dag.task_ids) == tasks
    assert "was changed while good runs" in (dag.doc_md or "")
    RunningStudies().forget("good", "run-1")
    assert len(build_dags(tmp_path)["good"].task_ids) > len(tasks)


@pytest.mark.parametrize("what", ["broken", "gone"])
def test_a_study_that_runs_keeps_its_dag(tmp_path: Path, what: str) -> None:
    path = write(tmp_path, "good", trials=6, parallelism=2)
    tasks = set(build_dags(tmp_path)["good"].task_ids)
    config = parse_study(yaml.safe_load(path.read_text()), source="test")
    RunningStudies().remember("good", "run-1", config)
    if what == "gone":
        path.unlink()
    else:
        path.write_text("name: [")
    dag = build_dags(tmp_path)["good"]
    assert set(dag.task_ids) == tasks
    assert "cannot be used now" in (dag.doc_md or "")
    RunningStudies().forget("good", "run-1")
    left = build_dags(tmp_path)
    assert "broken" in left["good"].tags if what == "broken" else "good" not in left


def test_a_task_builds_its_own_dag_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path, name)
    assert set(build_dags(tmp_path, only="two")) == {"two"}


def test_the_form_has_the_studys_values_and_limits() -> None:
    study = parse_study(study_data(trials=6, parallelism=3), source="test")
    form = form_of(study)
    assert form["trials"].value == 6
    assert form["parallelism"].schema["maximum"] == 6
    assert form["trials"].schema["section"] == "Search"
    assert "such as 2h" in (form["budget.wall"].description or "")
    for param in form.values():
        param.resolve()


def test_the_form_is_in_its_dag_once_and_not_in_every_task() -> None:
    study = parse_study(study_data(trials=20, parallelism=2), source="test")
    read = json.dumps(DagSerialization.to_dict(build_dag(study)))
    help_text = form_of(study)["parallelism"].description
    assert help_text
    assert read.count(json.dumps(help_text)) == 1


def trigger(conf: dict[str, Any], **changes: Any) -> Any:
    data = study_data(**changes)
    params = {key: param.value for key, param in form_of(parse_study(data, source="t")).items()}
    return read_trigger(
        data, conf, {**params, **conf}, source="the trigger of small", folder=PROJECT
    )


def test_conf_overrides_the_fields_of_the_form() -> None:
    study = trigger({"trials": 9, "budget.wall": "90s", "metric.target": 0.9, "seed": 1})
    assert (study.trials, study.budget.wall, study.objective.target, study.seed) == (
        9,
        90,
        0.9,
        1,
    )


@pytest.mark.parametrize(
    ("conf", "problem"),
    [
        ({"trails": 9}, "trails is not a key of its form (keys: trials, parallelism,"),
        ({"space": {}}, "space is not a key of its form"),
        ({"trials": 0}, "trials is 0, but must be 1 or more"),
        ({"parallelism": 7}, "parallelism is 7, but must be 6 or less (max_parallelism"),
        ({"budget.wall": "soon"}, "budget.wall is 'soon', but must be a duration: 90s, 30m,"),
        ({"seed": "x"}, "seed is 'x', but must be an integer"),
    ],
)
def test_a_wrong_conf_is_refused_with_a_sentence(conf: dict[str, Any], problem: str) -> None:
    with pytest.raises(StudyError) as caught:
        trigger(conf)
    assert f"the trigger of small: {problem}" in str(caught.value)


@pytest.mark.parametrize("kind", ["object", "text"])
def test_the_generic_dag_takes_a_whole_study(tmp_path: Path, kind: str) -> None:
    data = study_data(code=str(tmp_path), flow=None)
    given = data if kind == "object" else yaml.safe_dump(data)
    conf = {"study": given}
    study = read_trigger(None, conf, conf, source="the trigger", folder=tmp_path)
    assert study.flow.value == "rolling"
    assert study.name == "small"


@pytest.mark.parametrize(
    ("conf", "problem"),
    [
        ({}, "study is missing"),
        ({"study": "name: ["}, "study is not YAML"),
        ({"study": {"name": "x"}}, "space is missing, but is required"),
        ({"trials": 4}, "trials is not a key of its form (keys: study)"),
        ({"study": study_data(flow="rounds")}, "flow is 'rounds', but must be 'rolling' here"),
        ({"study": study_data(code="nowhere")}, "code is 'nowhere', but there is no folder"),
    ],
)
def test_a_wrong_whole_study_is_refused_with_a_sentence(
    conf: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError) as caught:
        read_trigger(None, conf, conf, source="the trigger", folder=tmp_path)
    assert problem in str(caught.value)


def folded(**changes: Any) -> dict[str, Any]:
    return study_data(**{"scheduler": "default", "folds": 5, **changes})


def test_folds_take_rounds_and_tasks_as_trials_do() -> None:
    study = parse_study(folded(trials=6, parallelism=4), source="test")
    assert count_rounds(study) == 8
    rolling = parse_study(folded(trials=6, flow="rolling"), source="test")
    assert "retrain" not in build_dag(rolling).task_ids
    many = parse_study(folded(trials=1000, flow="rolling"), source="test")
    with pytest.raises(StudyError, match="trials is 1000 with 5 folds each, but this DAG has"):
        check_map_length(many, most=1024, source="test")


def test_a_study_with_many_rounds_gets_larger_ones_instead() -> None:
    study = parse_study(study_data(scheduler="default", trials=1000, parallelism=4), source="test")
    dag = build_dag(study)
    assert len(dag.task_ids) == 4 * 25 + 3
    # One more than can run waits in its worker.
    assert dag.get_task("round_00.trial").max_active_tis_per_dagrun == 5


def test_a_rolling_study_goes_past_what_airflow_maps_one_task_over() -> None:
    study = parse_study(study_data(scheduler="default", flow="rolling", trials=2500), source="t")
    dag = build_dag(study)
    groups = ["trials_from_1024", "trials_from_2048"]
    assert {task for task in dag.task_ids if "." in task} == {
        f"{group}.{task}" for group in groups for task in ("wait", "trial")
    }
    assert dag.get_task(f"{groups[1]}.wait").upstream_task_ids == {f"{groups[0]}.wait", "prepare"}
    publish = dag.get_task("publish")
    assert {"trial", *(f"{group}.trial" for group in groups)} <= publish.upstream_task_ids
    assert build_dag(study.model_copy(update={"trials": 1024})).task_ids == [
        task for task in dag.task_ids if "." not in task
    ]


@pytest.mark.parametrize("flow", ["rounds", "rolling"])
def test_the_retraining_comes_when_the_search_is_over(flow: str) -> None:
    folds = {"count": 5, "retrain": True}
    dag = build_dag(parse_study(folded(folds=folds, flow=flow), source="test"))
    ends = {"trial", "early_stop"} if flow == "rolling" else {"round_09.early_stop"}
    assert dag.get_task("retrain").upstream_task_ids == ends
    assert "retrain" in dag.get_task("publish").upstream_task_ids


def test_a_generic_dag_does_not_retrain(tmp_path: Path) -> None:
    study = folded(folds={"count": 5, "retrain": True}, code=str(tmp_path))
    with pytest.raises(StudyError, match=r"folds\.retrain is True, but must be false here"):
        read_trigger(None, {"study": study}, {"study": study}, source="test", folder=tmp_path)


def test_a_fold_is_called_by_its_trial_and_its_place() -> None:
    params = {"lr": 0.01}
    fold = TrialOperator(task_id="trial", folds=5, number=16, hyperparameters=params)
    assert fold.label == "3 fold 2/5: lr=0.01"
    assert fold.trial_name == "fold 2 of trial 3"
    whole = TrialOperator(task_id="trial", number=16, hyperparameters=params)
    assert (whole.label, whole.trial_name) == ("16: lr=0.01", "trial 16")
