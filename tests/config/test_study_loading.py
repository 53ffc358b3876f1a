"""Study files that cannot be used: each error names the file, the key, the value and the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo_ops.config import StudyConfig, StudyError, load_study, parse_study
from tests.studies import study_data


def problems_of(data: object) -> list[str]:
    with pytest.raises(StudyError) as error:
        parse_study(data, source="studies/x.yaml")
    assert error.value.source == "studies/x.yaml"
    lines = str(error.value).splitlines()
    assert lines == [f"studies/x.yaml: {problem}" for problem in error.value.problems]
    return error.value.problems


def problem_of_file(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(StudyError) as error:
        load_study(path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value)


WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    ("an empty space", {"space": {}}, ["space", "empty", "one parameter or more"]),
    ("low above high", {"space": {"lr": {"float": [2, 1]}}}, ["space.lr", "from 2 to 1", "low"]),
    (
        "log from zero",
        {"space": {"lr": {"float": [0, 1], "log": True}}},
        ["space.lr", "starts at 0", "above 0 with log"],
    ),
    (
        "a range of three",
        {"space": {"lr": {"float": [1, 2, 3]}}},
        ["space.lr", "[1, 2, 3]", "[low, high]"],
    ),
    (
        "text in a range",
        {"space": {"lr": {"float": [0, "much"]}}},
        ["space.lr", "'much'", "a number"],
    ),
    (
        "an endless range",
        {"space": {"lr": {"float": [0, float("inf")]}}},
        ["space.lr", "inf", "finite"],
    ),
    ("a number beyond floats", {"space": {"n": {"int": [0, 10**400]}}}, ["space.n", "finite"]),
    ("half an integer", {"space": {"n": {"int": [0.5, 3]}}}, ["space.n", "0.5", "an integer"]),
    (
        "log and step",
        {"space": {"n": {"int": [1, 9], "log": True, "step": 2}}},
        ["space.n", "log and step"],
    ),
    ("a step of zero", {"space": {"n": {"int": [1, 9], "step": 0}}}, ["space.n", "step 0"]),
    (
        "log that is text",
        {"space": {"lr": {"float": [1, 2], "log": "yes"}}},
        ["space.lr", "'yes'", "true or false"],
    ),
    ("no choices", {"space": {"o": []}}, ["space.o", "no choices"]),
    ("a choice twice", {"space": {"o": ["a", "a"]}}, ["space.o", "['a', 'a']", "once"]),
    ("choices that are one", {"space": {"o": [1, True]}}, ["space.o", "[1, True]", "once"]),
    (
        "a list as a choice",
        {"space": {"o": [[1], 2]}},
        ["space.o", "[1]", "text, a finite number"],
    ),
    ("nan as a choice", {"space": {"o": [1, float("nan")]}}, ["space.o", "nan", "finite number"]),
    ("two kinds", {"space": {"a": {"float": [0, 1], "int": [0, 1]}}}, ["space.a", "one of"]),
    ("no kind", {"space": {"a": {"log": True}}}, ["space.a", "one of float, int, choices"]),
    ("a number as a parameter", {"space": {"a": 5}}, ["space.a is 5", "list of choices"]),
    ("a list as a space", {"space": ["lr"]}, ["space is ['lr']", "mapping"]),
    (
        "a condition on nothing",
        {"space": {"a": [1, 2], "b": {"float": [0, 1], "when": {"c": 1}}}},
        ["space.b.when", "names c", "['a', 'b']"],
    ),
    (
        "a condition on no choice",
        {"space": {"a": [1, 2], "b": {"float": [0, 1], "when": {"a": 3}}}},
        ["space.b.when", "a = 3", "[1, 2]"],
    ),
    (
        "a condition out of range",
        {"space": {"a": {"int": [1, 2]}, "b": {"float": [0, 1], "when": {"a": 3}}}},
        ["space.b.when", "a = 3", "from 1 to 2"],
    ),
    (
        "a condition that is no mapping",
        {"space": {"b": {"float": [0, 1], "when": "sgd"}}},
        ["space.b.when", "'sgd'", "mapping"],
    ),
    (
        "a condition with a list in a list",
        {"space": {"a": [1], "b": {"float": [0, 1], "when": {"a": [[1]]}}}},
        ["space.b.when", "[1]"],
    ),
    (
        "conditions that form a cycle",
        {
            "space": {
                "a": {"choices": [1], "when": {"b": 1}},
                "b": {"choices": [1], "when": {"a": 1}},
            }
        },
        ["space", "cycle", "a -> b -> a"],
    ),
    ("no trials", {"trials": 0}, ["trials is 0", "1 or more"]),
    ("text for trials", {"trials": "many"}, ["trials is 'many'", "an integer"]),
    ("too many trials", {"trials": 10**9}, ["trials is 1000000000", "or less"]),
    ("trials of thousands of digits", {"trials": 1 << 20_000}, ["trials is", "or less"]),
    ("no parallelism", {"parallelism": 0}, ["parallelism is 0", "1 or more"]),
    ("a negative seed", {"seed": -1}, ["seed is -1", "0 or more"]),
    ("a share above one", {"stop": {"failures": 1.5}}, ["stop.failures is 1.5", "or less"]),
    ("no patience", {"stop": {"patience": 0}}, ["stop.patience is 0", "1 or more"]),
    ("an unknown sampler", {"sampler": "tp"}, ["sampler", "'tp'", "tpe", "module:Class"]),
    (
        "an unknown option of a sampler",
        {"sampler": {"name": "tpe", "startup": 1}},
        ["sampler.startup", "tpe", "n_startup_trials"],
    ),
    (
        "a wrong option of a sampler",
        {"sampler": {"name": "tpe", "n_startup_trials": "x"}},
        ["sampler.n_startup_trials is 'x'", "integer"],
    ),
    (
        "a flag for a number of a sampler",
        {"sampler": {"name": "tpe", "n_startup_trials": True}},
        ["sampler.n_startup_trials is True", "integer"],
    ),
    (
        "an option of a sampler that takes code",
        {"sampler": {"name": "tpe", "gamma": 3}},
        ["sampler.gamma is 3", "function"],
    ),
    ("a sampler nowhere", {"sampler": "no.such:Sampler"}, ["sampler", "'no.such:Sampler'"]),
    ("a sampler by a bad path", {"sampler": "..x:Sampler"}, ["sampler", "'..x:Sampler'"]),
    (
        "a sampler of Optuna's that is none",
        {"sampler": "optuna.samplers:nsgaii"},
        ["sampler", "'optuna.samplers:nsgaii'", "BaseSampler"],
    ),
    (
        "a scheduler that nobody has allowed",
        {"scheduler": "subprocess:Popen"},
        ["scheduler.name is 'subprocess:Popen'", "HPO_ALLOWED_CLASSES"],
    ),
    (
        "an allocator that nobody has allowed",
        {"allocator": "subprocess:Popen"},
        ["allocator.name is 'subprocess:Popen'", "HPO_ALLOWED_CLASSES"],
    ),
    (
        "a predictor that nobody has allowed",
        {"scheduler": {"name": "pop", "max_steps": 9}, "curves": "subprocess:Popen"},
        ["curves.name is 'subprocess:Popen'", "HPO_ALLOWED_CLASSES"],
    ),
    (
        "a grid of more points than memory",
        {"sampler": "grid", "space": {"seed": {"int": [0, 10**12]}}},
        ["a grid of 1000000000001 points", "at most 100000"],
    ),
    (
        "a grid of many small axes",
        {
            "sampler": "optuna.samplers:GridSampler",
            "space": {f"x{n}": {"int": [0, 9]} for n in range(12)},
        },
        ["a grid of 1000000000000 points", "at most 100000"],
    ),
    (
        "a brute force over more values than memory",
        {"sampler": "brute_force", "space": {"x": {"float": [0, 1e9], "step": 1e-6}}},
        ["space.x has 10000000000000", "sampler brute_force", "at most 100000"],
    ),
    (
        "a Gaussian process over more values than memory",
        {"sampler": "gp", "space": {"x": {"int": [1, 10**12], "log": True}}},
        ["space.x has 1000000000000 values", "sampler gp", "at most 1000000"],
    ),
    (
        "an option of REINFORCE that is too small",
        {"sampler": {"name": "reinforce", "batch": 1}},
        ["sampler", "batch is 1", "from 2 to 1000"],
    ),
    (
        "what is enqueued out of range",
        {"enqueue": [{"lr": 0.01}, {"lr": 7}]},
        ["enqueue.1.lr is 7", "from 0.0001 to 0.1"],
    ),
    (
        "an enqueued parameter nowhere",
        {"enqueue": [{"rate": 7}]},
        ["enqueue.0.rate", "no parameter"],
    ),
    ("more enqueued than trials", {"trials": 1, "enqueue": [{}, {}]}, ["enqueue has 2 sets"]),
    ("a warm start from nothing", {"warm_start": {}}, ["warm_start.study is missing"]),
    (
        "a warm start from two places",
        {"warm_start": {"study": "a", "run": "b", "storage": "c"}},
        ["warm_start has run and storage"],
    ),
    (
        "a storage that is no address",
        {"warm_start": {"study": "a", "storage": "./old.db"}},
        ["warm_start.storage is './old.db'", "HPO_STORAGE_OLD"],
    ),
    (
        "a password in a study",
        {"warm_start": {"study": "a", "storage": "postgresql://me:secret@host/db"}},
        ["warm_start.storage is a URL", "HPO_STORAGE_OLD"],
    ),
    ("a sampler without a name", {"sampler": {"seed": 1}}, ["sampler.name", "missing"]),
    ("a number as a sampler", {"sampler": 5}, ["sampler is 5"]),
    ("an unknown scheduler", {"scheduler": "ash"}, ["scheduler.name", "'ash'", "asha"]),
    (
        "an unknown option of a scheduler",
        {"scheduler": {"name": "asha", "max_steps": 9, "et": 3}},
        ["scheduler.et", "eta"],
    ),
    (
        "a wrong option of a scheduler",
        {"scheduler": {"name": "asha", "max_steps": 9, "eta": 1}},
        ["scheduler.eta is 1", "2 or more"],
    ),
    (
        "a scheduler without a needed option",
        {"scheduler": "asha"},
        ["scheduler.max_steps", "missing"],
    ),
    ("words as a duration", {"budget": {"wall": "2 hours"}}, ["budget.wall is '2 hours'", "2h"]),
    ("a duration and a line", {"budget": {"wall": "2h\n"}}, ["budget.wall", "duration"]),
    ("no time", {"budget": {"wall": 0}}, ["budget.wall is 0", "above 0"]),
    ("endless grace", {"grace": float("inf")}, ["grace is inf", "finite"]),
    ("an unknown direction", {"metric": {"direction": "up"}}, ["metric.direction is 'up'"]),
    ("a metric that is text", {"metric": "accuracy"}, ["metric is 'accuracy'", "mapping"]),
    (
        "a target that is no number",
        {"metric": {"direction": "maximize", "target": float("nan")}},
        ["metric.target is nan", "finite"],
    ),
    ("a name with a slash", {"name": "a/b"}, ["name is 'a/b'", "match"]),
    ("an open quote", {"command": "python 'x"}, ["command is", "shell command"]),
    ("a blank command", {"command": "  "}, ["command", "empty"]),
    (
        "a store of another kind",
        {"checkpoints": {"store": "gs://x"}},
        ["checkpoints.store", "s3://"],
    ),
    ("no checkpoint kept", {"checkpoints": {"keep": 0}}, ["checkpoints.keep is 0", "1 or more"]),
    ("a flow that does not exist", {"flow": "spiral"}, ["flow is 'spiral'", "'rounds'"]),
    ("an unknown key", {"sapce": {}}, ["sapce", "did you mean space?"]),
    (
        "an unknown key of a part",
        {"metric": {"direction": "maximize", "tarqet": 1}},
        ["metric.tarqet", "did you mean target?"],
    ),
    (
        "an unknown key of one of several metrics",
        {"metric": None, "metrics": [{"direction": "maximize", "nmae": "x"}]},
        ["metrics.0.nmae", "did you mean name?"],
    ),
    ("an unknown key of the budget", {"budget": {"wal": "2h"}}, ["budget.wal", "wall?"]),
    (
        "an unknown key of a parameter",
        {"space": {"lr": {"float": [1, 2], "lgo": True}}},
        ["space.lr.lgo", "did you mean log?"],
    ),
]


@pytest.mark.parametrize(
    ("changes", "words"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_an_error_names_the_key_the_value_and_the_rule(
    changes: dict[str, Any], words: list[str]
) -> None:
    (problem,) = problems_of(study_data(**changes))
    for word in words:
        assert word in problem
    assert len(problem) < 600


def test_a_scheduler_by_a_bad_path_is_an_error_of_the_study() -> None:
    assert "..x:Policy" in str(problems_of(study_data(scheduler="..x:Policy")))


def test_a_class_that_is_no_scheduler_is_an_error_of_the_study() -> None:
    assert "builtins:object" in str(problems_of(study_data(scheduler="builtins:object")))


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_would_leave_its_folder_in_the_store_is_refused(name: str) -> None:
    (problem,) = problems_of(study_data(name=name))
    assert problem.startswith("name ")


@pytest.mark.parametrize("key", ["trials", "parallelism", "seed", "retries"])
def test_a_flag_is_not_a_number(key: str) -> None:
    (problem,) = problems_of(study_data(**{key: True}))
    assert problem.startswith(f"{key} is True")


def test_all_problems_are_told_at_once() -> None:
    data = study_data(
        trials=0,
        metric={"direktion": "maximize"},
        space={"lr": {"float": [2, 1]}, "width": {"int": "wide"}, "ok": [1, 2]},
        nonsense=1,
    )
    text = "\n".join(problems_of(data))
    for key in ("trials", "metric.direction", "metric.direktion", "space.lr", "space.width"):
        assert f"{key} " in text
    assert "nonsense" in text
    assert "space.ok" not in text


def test_a_key_that_is_missing_is_named() -> None:
    problems = problems_of({})
    for key in ("name", "command", "space"):
        assert f"{key} is missing, but is required" in problems
    (problem,) = problems_of(study_data(metric=None))
    assert "metric is missing, but a study needs" in problem


@pytest.mark.parametrize("data", [None, [], "text", 5, [1, 2]])
def test_what_is_no_mapping_is_no_study(data: object) -> None:
    (problem,) = problems_of(data)
    assert "must be a mapping" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\nspace: [1, 2", "line 2"),
        ("name: x\nname: y\n", "line 2, column 1: the key name is given twice"),
        ("space:\n  a: [1]\n  a: [2]\n", "line 3, column 3: the key a is given twice"),
        ("name: x\nseed: 2024-13-45\n", "line 2, column 7: '2024-13-45' cannot be read"),
        (f"name: x\nseed: {'9' * 5000}\n", "line 2"),
        ("? [a]\n: b\n", "line 1, column 3: the key is"),
        ("seed: !!timestamp x\n", "line 1"),
        ("seed: !!int ''\n", "line 1"),
        ("seed: !!python/object/apply:os.system [true]\n", "line 1"),
        ("name: \x07\n", "special characters are not allowed"),
        ("[" * 5000, "nested too deeply"),
        ("", "is empty, but must be a mapping"),
        ("# nothing\n", "is empty, but must be a mapping"),
        ("- name\n", "is list, but must be a mapping"),
        (b"name: \xff\xfe\n", "is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    assert words in problem_of_file(tmp_path / "study.yaml", text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"none\.yaml: cannot be read: No such file"):
        load_study(tmp_path / "none.yaml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path)


@pytest.mark.parametrize("code", ["nowhere", "x" * 5000, "a\0b", "\udcff"])
def test_a_folder_of_code_that_is_not_there_is_told(tmp_path: Path, code: str) -> None:
    text = yaml.safe_dump(study_data(code=code))
    assert "code is" in problem_of_file(tmp_path / "study.yaml", text)


def test_the_folder_of_code_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "studies").mkdir()
    file = tmp_path / "studies" / "small.yaml"
    file.write_text(yaml.safe_dump(study_data(code="../code")))
    assert load_study(file).code == str(tmp_path / "code")


def test_a_file_may_repeat_itself_by_anchors(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        """
name: anchored
code: .
command: python train.py
metric: {direction: minimize}
space:
  first: &range {float: [1e-4, 1], log: true}
  second: {<<: *range, log: false}
"""
    )
    study = load_study(file)
    assert study.to_dict()["space"] == {
        "first": {"float": [1e-4, 1.0], "log": True},
        "second": {"float": [1e-4, 1.0]},
    }


def test_a_file_that_unfolds_without_end_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["name: bomb", "a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    text = "\n".join([*lines, "space: *a11", "trials: *a11"])
    assert "trials is" in problem_of_file(tmp_path / "study.yaml", text)


# -- anything at all -------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2h", "tpe", "asha", "random", "maximize", "x:y", "1e-3"])
    | st.dates()
    | st.binary(max_size=3)
)
words = st.sampled_from(
    ["float", "int", "choices", "when", "log", "step", "name", "a", "b", "direction", "wall"]
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(words | st.text(max_size=3) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)
keys = st.sampled_from([*study_data(), "budget", "stop", "checkpoints", "grace", "retries", "x"])


@settings(max_examples=300)
@given(st.dictionaries(keys, anything, max_size=4))
@example({"budget": {"wall": 10**400}})
@example({"grace": "9" * 400 + "d"})
@example({"space": {"a": {"float": [-1.7e308, 1.7e308], "step": 1e-300}}})
@example({"space": {1: [None, True], "1": [1]}})
def test_whatever_a_study_holds_it_is_a_study_or_a_study_error(changes: dict[str, Any]) -> None:
    found: StudyConfig | StudyError
    try:
        found = parse_study({**study_data(), **changes}, source="fuzz")
    except StudyError as error:
        found = error
    if isinstance(found, StudyError):
        assert found.problems
        assert all(problem.strip() for problem in found.problems)
    else:
        assert parse_study(found.to_dict(), source="again") == found


@settings(max_examples=150)
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>?#,'\" \n\t0123456789.~%@`<="), max_size=40))
def test_whatever_a_file_holds_it_is_a_study_or_a_study_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError):
        load_study(file)


def test_a_sampler_may_be_in_the_code_folder_and_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "code" / "inner").mkdir(parents=True)
    (tmp_path / "code" / "theirs.py").write_text("raise SystemExit('imported')")
    (tmp_path / "code" / "inner" / "search.py").write_text("raise SystemExit('imported')")
    path = tmp_path / "study.yaml"
    for name in ("theirs:Search", "inner.search:Search"):
        path.write_text(yaml.safe_dump(study_data(code="code", sampler={"name": name, "n": 3})))
        assert load_study(path).sampler.name == name
    for sampler, problem in (
        ("other:Search", "sampler is 'other:Search', but it cannot be imported"),
        ({"name": "theirs:Search", "batch": 0}, "sampler.batch is 0, but must be from 1 to 1000"),
        ({"name": "theirs:Search", "call_seconds": "x"}, "sampler.call_seconds is 'x'"),
        ({"name": "theirs:Search", "memory_gib": "x"}, "sampler.memory_gib is 'x'"),
    ):
        path.write_text(yaml.safe_dump(study_data(code="code", sampler=sampler)))
        with pytest.raises(StudyError, match=problem):
            load_study(path)
    two = [{"name": name, "direction": "maximize"} for name in "ab"]
    data = study_data(metric=None, metrics=two, scheduler="default", code="code")
    path.write_text(yaml.safe_dump({**data, "sampler": "theirs:Search"}))
    with pytest.raises(
        StudyError, match="'theirs:Search', but a search algorithm supports one metric"
    ):
        load_study(path)
