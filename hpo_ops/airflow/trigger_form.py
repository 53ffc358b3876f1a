"""The form with which a person triggers a study's DAG run in Airflow's UI.

On the command line, the same fields are keys of ``--conf``.

The module builds the form's fields and reads the values that a DAG run was triggered with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from airflow.sdk import Param
from airflow.sdk.configuration import conf as airflow_conf

from hpo_ops.checkpoints.code_archive import is_packed
from hpo_ops.config import (
    GENERIC_CEILING,
    OVERRIDABLE,
    Flow,
    StudyConfig,
    StudyError,
    parse_study,
    with_code_path,
)
from hpo_ops.config.runner_registry import DEFAULT_RUNNER

REPEAT = "repeat"
"""Key in the trigger config that identifies a repeat; set by the first run of the experiment."""
GENERIC_MAPPED_TASKS = 4
"""Number of mapped trial tasks in a generic DAG; large studies use more than one."""
STUDY = "study"
"""The only field in the form of a generic DAG: the complete configuration of a study."""

_SECTIONS = {
    "trials": "Search",
    "parallelism": "Search",
    "seed": "Search",
    "repeats": "Search",
    "reproducible": "Search",
    "cache": "Search",
    "metric.target": "When to stop",
    "budget.wall": "When to stop",
    "stop.patience": "When to stop",
    "stop.failures": "When to stop",
    "retries": "Trials",
    "checkpoints.keep": "Trials",
}


def form_of(study: StudyConfig) -> dict[str, Param]:
    """Builds the trigger form: a field for each key that can be changed when a run is triggered.

    The study's own values are the defaults.
    """
    fields: dict[str, Param] = {}
    for key in OVERRIDABLE:
        if key.startswith("metric.") and study.metric is None:
            continue
        schema = _schema_at(key)
        if key == "parallelism":
            schema["maximum"] = study.ceiling
        fields[key] = Param(
            study.get(key),
            title=key,
            section=_SECTIONS[key],
            **schema,
        )
    return fields


def generic_form() -> dict[str, Param]:
    """Builds the trigger form of a generic DAG, whose one field is a complete study.

    The study is given as a JSON object or as YAML text.
    """
    return {
        STUDY: Param(
            {},
            type=["object", "string"],
            title="Study",
            description="A complete study, as in a study file; code is a folder on the worker.",
        )
    }


def read_trigger(
    config: Mapping[str, Any] | None,
    conf: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    source: str,
    folder: Path,
    runner: str = DEFAULT_RUNNER,
    unpack: Callable[[str], Path] = Path,
) -> StudyConfig:
    """Reads and checks the study configuration that a DAG run was triggered with.

    Args:
        config: The study configuration of the DAG; None for a generic DAG.
        conf: The trigger config of the DAG run.
        params: The values of the form's fields, including defaults.
        source: Where the configuration comes from, for error messages.
        folder: The folder to which the path of the study's code is relative (generic DAG only).
        runner: Name of the generic DAG's runner (generic DAG only).
        unpack: Unpacks the code archive at a URL and returns its folder (generic DAG only).

    Raises:
        StudyError: A key of `conf` is unknown, or a value is not allowed.
    """
    known = (STUDY,) if config is None else OVERRIDABLE
    if unknown := sorted(set(conf) - {*known, REPEAT}):
        raise StudyError(
            source,
            [f"{key} is not a key of its form (keys: {', '.join(known)})" for key in unknown],
        )
    if config is None:
        return _whole_study(
            params.get(STUDY), source=source, folder=folder, runner=runner, unpack=unpack
        )
    study = parse_study(dict(config), source=source, is_entered=True)
    given = {key: params[key] for key in known if key in params and params[key] != study.get(key)}
    return study.change(given, source=source, is_running=False)


def _whole_study(
    value: Any, *, source: str, folder: Path, runner: str, unpack: Callable[[str], Path]
) -> StudyConfig:
    if isinstance(value, str):
        try:
            value = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise StudyError(source, [f"study is not YAML: {error}"]) from error
    if not value:
        raise StudyError(source, ["study is missing: give a complete study in the trigger config"])
    given = {"flow": Flow.ROLLING.value, "runner": runner}
    data = {**given, **value} if isinstance(value, dict) else value
    if isinstance(data, dict) and isinstance(code := data.get("code"), str) and is_packed(code):
        data = {**data, "code": str(unpack(code))}
    study = parse_study(with_code_path(data, folder), source=source)
    if problem := _problem_here(study, runner):
        raise StudyError(source, [problem])
    if study.code is None:
        return study
    code = (folder / study.code).resolve()
    if not code.is_dir():
        raise StudyError(source, [f"code is {study.code!r}, but there is no folder {code}"])
    return study.model_copy(update={"code": str(code)})


def _problem_here(study: StudyConfig, runner: str) -> str | None:
    """Returns why the generic DAG of a runner cannot run a study, or None if it can."""
    if study.runner != runner:
        return f"runner is {study.runner!r}, but must be {runner!r} here"
    if study.flow is Flow.ROUNDS:
        return (
            "flow is 'rounds', but must be 'rolling' here; "
            "for rounds put a study file in dags/studies/"
        )
    if study.is_retrained:
        return (
            "folds.retrain is True, but must be false here; "
            "to retrain put a study file in dags/studies/"
        )
    if study.parallelism > GENERIC_CEILING:
        return f"parallelism is {study.parallelism}, but must be {GENERIC_CEILING} or less here"
    return None


def max_mapped() -> int:
    """Returns Airflow's limit on instances of one mapped task (``[core] max_map_length``)."""
    return int(airflow_conf.getint("core", "max_map_length"))


def count_mapped_tasks(study: StudyConfig) -> int:
    """Returns how many mapped tasks a rolling study (`flow: rolling`) needs for its trials."""
    return math.ceil(study.mapped_trials / max_mapped())


def generic_most_trials() -> int:
    """Returns for how many trials a generic DAG has tasks; each fold counts as a trial."""
    return GENERIC_MAPPED_TASKS * max_mapped()


def check_map_length(study: StudyConfig, *, most: int, source: str) -> None:
    """Checks that the DAG of a rolling study has a task instance for each trial or fold.

    Args:
        study: The study configuration, including the values of the trigger form.
        most: Number of trial task instances that the DAG can have.
        source: Where the configuration comes from, for error messages.

    Raises:
        StudyError: The DAG has too few instances; the message explains how to get more.
    """
    each = "" if study.folds is None else f" with {study.fold_count} folds each"
    if study.flow is Flow.ROLLING and study.mapped_trials > most:
        raise StudyError(
            source,
            [
                f"trials is {study.most_trials}{each}, but this DAG has tasks for {most}: "
                "set trials or max_trials in a study file in dags/studies/, "
                "or raise [core] max_map_length (AIRFLOW__CORE__MAX_MAP_LENGTH)"
            ],
        )


def dags_folder() -> Path:
    """Returns Airflow's DAGs folder."""
    return Path(airflow_conf.get("core", "dags_folder"))


@lru_cache(maxsize=1)
def _study_schema() -> dict[str, Any]:
    return StudyConfig.model_json_schema()


def _schema_at(key: str) -> dict[str, Any]:
    """Returns the JSON Schema of a key in a study file, for a field of the trigger form.

    Nested keys are dotted, such as ``metric.name``. Alternatives (``anyOf``) are merged into one
    schema with a list of types, which contains "null" if the value may be missing.
    """
    root = _study_schema()
    schema: dict[str, Any] = root
    for part in key.split("."):
        schema = _section(root, schema)["properties"][part]
    schema = {name: value for name, value in schema.items() if name not in ("default", "title")}
    kinds: list[str] = []
    for choice in _flat(schema.pop("anyOf", [])):
        kinds.append(choice["type"])
        schema.update(choice)
    if kinds:
        schema["type"] = kinds
    return schema


def _section(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Resolves the reference (``$ref``) in a JSON Schema; without one, returns the schema itself.

    The reference may be one of the alternatives in ``anyOf``, for example beside "null".
    """
    for choice in [schema, *schema.get("anyOf", [])]:
        if "$ref" in choice:
            found: dict[str, Any] = root["$defs"][choice["$ref"].rpartition("/")[2]]
            return found
    return schema


def _flat(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for choice in choices for item in _flat(choice.get("anyOf", [])) or [choice]]
