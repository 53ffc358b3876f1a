"""The first run of an experiment starts the others, each once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, OKResponse, TriggerDagRun

from hpo_ops.airflow._repeats import RepeatOf, read_repeat, start_repeats
from hpo_ops.config import parse_study
from tests.studies import study_data


class Supervisor:
    """Takes triggers as Airflow's supervisor does; a run that is there is refused."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}

    def send(self, message: TriggerDagRun) -> OKResponse | ErrorResponse:
        if message.run_id in self.runs:
            return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
        self.runs[message.run_id] = message.conf
        return OKResponse(ok=True)


def context(run_id: str, **conf: Any) -> Any:
    run = SimpleNamespace(conf=conf)
    return {"run_id": run_id, "dag_run": run, "dag": SimpleNamespace(dag_id="small")}


def test_the_first_run_starts_the_others_once_with_what_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    study = parse_study(study_data(repeats=3), source="test")
    first = context("manual", trials=2)
    repeat = read_repeat(first, study)
    assert repeat == RepeatOf("manual", 0)
    for _ in range(2):  # the task may be tried again
        start_repeats(first, repeat, study.repeats)
    assert supervisor.runs == {
        f"manual__repeat_{number}": {"trials": 2, "repeat": {"of": "manual", "number": number}}
        for number in (1, 2)
    }
    for run_id, conf in supervisor.runs.items():
        child = context(run_id, **conf)
        repeat = read_repeat(child, study)
        assert repeat == RepeatOf("manual", conf["repeat"]["number"])
        start_repeats(child, repeat, study.repeats)
    assert len(supervisor.runs) == 2  # they start no others


def test_a_study_without_repeats_starts_none() -> None:
    study = parse_study(study_data(), source="test")
    assert read_repeat(context("manual"), study) == RepeatOf()
    start_repeats(context("manual"), RepeatOf(), 1)


@pytest.mark.parametrize("given", [3, {"of": "x"}, {"of": "x", "number": "y"}])
def test_what_a_person_writes_as_repeat_is_refused(given: object) -> None:
    study = parse_study(study_data(repeats=3), source="test")
    with pytest.raises(AirflowFailException, match="only the first run"):
        read_repeat(context("manual", repeat=given), study)
    with pytest.raises(AirflowFailException, match="this run is manual"):
        read_repeat(context("manual", repeat={"of": "other", "number": 1}), study)


def test_each_repeat_has_a_seed_of_its_own_and_nothing_else() -> None:
    study = parse_study(study_data(repeats=3), source="test")
    others = [study.as_repeat(number) for number in range(3)]
    assert others[0] == study
    assert len({other.seed for other in others}) == 3
    assert all(other.model_copy(update={"seed": 7}) == study for other in others)
