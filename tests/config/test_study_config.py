"""A study as data: there and back, and its JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hpo_ops.config import StudyConfig, StudyError, parse_study
from tests.studies import study_data

names = st.text(alphabet="abcdefgh_", min_size=1, max_size=4)
values = st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.none()


@st.composite
def parameters(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["float", "int", "choices"]))
    if kind == "choices":
        return {"choices": draw(st.lists(values, min_size=1, max_size=4, unique_by=hash))}
    numbers = st.floats(-1e6, 1e6) if kind == "float" else st.integers(-1000, 1000)
    low, high = sorted([draw(numbers), draw(numbers)])
    data: dict[str, Any] = {kind: [low, high]}
    if low > 0 and draw(st.booleans()):
        data["log"] = True
    elif draw(st.booleans()):
        data["step"] = draw(st.integers(1, 5))
    return data


@st.composite
def spaces(draw: st.DrawFn) -> dict[str, Any]:
    """A space in which a parameter may depend on any other, in any order without a circle."""
    space: dict[str, Any] = draw(st.dictionaries(names, parameters(), min_size=1, max_size=6))
    parents = draw(st.permutations(list(space)))
    for index, name in enumerate(parents):
        for other in parents[:index]:
            if "choices" in space[other] and draw(st.booleans()):
                choices = st.sampled_from(space[other]["choices"])
                wanted = draw(st.lists(choices, min_size=1, unique_by=hash))
                space[name].setdefault("when", {})[other] = wanted
    return space


@settings(max_examples=100)
@given(spaces())
def test_a_study_written_out_is_the_same_study(space: dict[str, Any]) -> None:
    study = parse_study(study_data(space=space), source="x")
    again = parse_study(study.to_dict(), source="x")
    assert again == study
    assert list(again.space) == list(study.space)
    assert set(study.space) == set(space)
    assert again.to_dict() == study.to_dict()


def test_everything_a_study_says_is_kept() -> None:
    data = study_data(
        description="what for",
        metric={"name": "loss", "direction": "minimize", "target": 0.1},
        sampler={"name": "tpe", "n_startup_trials": 3},
        scheduler={"name": "asha", "max_steps": 9, "eta": 4},
        budget={"wall": "90m"},
        stop={"patience": 4, "failures": 0.1},
        checkpoints={"store": "s3://bucket/prefix", "every": 2, "keep": 1},
        retries=2,
        grace="10s",
        reproducible=True,
    )
    study = parse_study(data, source="x")
    assert study.budget.wall == 5400.0
    assert study.grace == 10.0
    assert study.sampler.options == {"n_startup_trials": 3}
    kept = study.to_dict()
    assert kept["scheduler"] == data["scheduler"]
    assert kept["checkpoints"] == data["checkpoints"]
    assert kept["stop"].items() >= data["stop"].items()
    assert parse_study(kept, source="x") == study
    assert study.goal.target_score == -0.1
    assert study.goal.deadline_seconds == 5400.0


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("0.5h", 1800), (45, 45)],
)
def test_durations_are_written_as_people_say_them(written: object, seconds: float) -> None:
    assert parse_study(study_data(budget={"wall": written}), source="x").budget.wall == seconds


@pytest.mark.parametrize("written", ["", "h", "-1h", "1w", "1 h", "1h30m", "٣", "1e3s", "infd"])
def test_other_words_are_no_duration(written: str) -> None:
    with pytest.raises(StudyError, match=r"budget\.wall is .*duration"):
        parse_study(study_data(budget={"wall": written}), source="x")


def test_a_number_that_yaml_reads_as_text_is_a_number() -> None:
    space = {"lr": {"float": ["1e-4", "1e-1"], "log": True}}
    study = parse_study(study_data(space=space), source="x")
    assert study.to_dict()["space"] == {"lr": {"float": [1e-4, 1e-1], "log": True}}


# -- JSON Schema -----------------------------------------------------------------------------


def described(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Whether a field, or what it refers to, has a description."""
    parts = [schema, *schema.get("allOf", []), *schema.get("anyOf", [])]
    refs = [definitions[part["$ref"].rpartition("/")[2]] for part in parts if "$ref" in part]
    return any(part.get("description") for part in (*parts, *refs))


def test_the_schema_is_valid_and_every_field_has_a_description() -> None:
    schema = StudyConfig.model_json_schema()
    Draft202012Validator.check_schema(schema)
    definitions = schema["$defs"]
    models = {"StudyConfig": schema, **definitions}
    undescribed = [
        f"{model}.{name}"
        for model, content in models.items()
        for name, field in content.get("properties", {}).items()
        if not described(field, definitions)
    ]
    assert undescribed == []
    assert set(schema["properties"]) == set(StudyConfig.model_fields)


def test_the_schema_takes_what_the_parser_takes() -> None:
    validator = Draft202012Validator(StudyConfig.model_json_schema())
    data = study_data(sampler={"name": "random"}, budget={"wall": "2h"}, grace=3)
    parse_study(data, source="x")
    assert list(validator.iter_errors(data)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"trials": 0},
        {"trials": "x"},
        {"sapce": 1},
        {"space": {}},
        {"budget": {"wall": "2 hours"}},
        {"metric": {"direction": "up"}},
        {"name": "a/b"},
    ],
)
def test_the_schema_refuses_what_the_parser_refuses(changes: dict[str, Any]) -> None:
    validator = Draft202012Validator(StudyConfig.model_json_schema())
    data = study_data(sampler={"name": "random"}, **changes)
    assert list(validator.iter_errors(data))
    with pytest.raises(StudyError):
        parse_study(data, source="x")


def test_the_schema_takes_a_policy_by_its_name_alone() -> None:
    validator = Draft202012Validator(StudyConfig.model_json_schema())
    assert list(validator.iter_errors(study_data(sampler="tpe"))) == []


def folded(**changes: Any) -> StudyConfig:
    return parse_study(
        study_data(**{"scheduler": "default", "folds": 5, **changes}), source="test"
    )


def test_folds_are_a_number_or_a_mapping() -> None:
    short = folded()
    assert short.folds is not None
    assert (short.folds.count, short.folds.prune, short.folds.retrain) == (5, 0.1, False)
    long = folded(folds={"count": 3, "prune": None, "retrain": True})
    assert long.folds is not None
    assert (long.folds.count, long.folds.prune, long.folds.retrain) == (3, None, True)
    for study in (short, long):
        assert parse_study(study.to_dict(), source="again") == study


def test_each_fold_counts_where_places_and_tasks_are_counted() -> None:
    study = folded(flow="rolling", max_trials=10)
    assert (study.goal.trials, study.goal.folds, study.mapped_trials) == (30, 5, 50)
    assert study.goal.by_trial().trials == 6
    more = study.change({"trials": 9}, source="test", is_running=True)
    assert (more.goal.trials, more.max_trials, more.mapped_trials) == (45, 10, 50)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"folds": 1}, "folds.count is 1, but must be 2 or more"),
        ({"folds": True}, "folds.count is True, but must be an integer"),
        ({"folds": "five"}, "folds.count is 'five', but must be an integer"),
        ({"folds": {"retrain": True}}, "folds.count is missing, but is required"),
        ({"folds": {"count": 5, "prune": 0.9}}, "folds.prune is 0.9, but must be 0.5 or less"),
        ({"folds": {"count": 5, "prune": 0}}, "folds.prune is 0, but must be above 0.0"),
        (
            {"folds": {"count": 5, "pruning": 0.1}},
            "folds.pruning is not a key that a study has; did you mean prune? "
            "(keys: count, prune, retrain)",
        ),
        (
            {"scheduler": {"name": "asha", "max_steps": 9}},
            "scheduler is 'asha', but must be 'default' with folds, "
            "since a trial is pruned by comparing folds",
        ),
        (
            {
                "metric": None,
                "metrics": [
                    {"name": "a", "direction": "maximize"},
                    {"name": "b", "direction": "minimize"},
                ],
            },
            "metrics has several entries, but must have one with folds",
        ),
        (
            {"allocator": "even"},
            "allocator is 'even', but must be omitted with folds, since each fold has one unit",
        ),
        (
            {"trials": 20_001},
            "trials is 20001, but must be 20000 or less with 5 folds each",
        ),
    ],
)
def test_what_does_not_go_with_folds_is_said(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(StudyError) as caught:
        folded(**changes)
    assert caught.value.problems == [problem]
