"""Loads a study from a YAML file, from a mapping, or from JSON in the ledger."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hpo_ops.config._study_config import ENTERED, StudyConfig
from hpo_ops.config.study_errors import StudyError, explain, shown


class _Loader(yaml.SafeLoader):
    """A safe YAML loader that rejects duplicate keys and reports where invalid values are."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError) as error:  # such as the date 2024-13-45
            raise yaml.MarkedYAMLError(
                problem=f"{shown(node.value)} cannot be read ({error})",
                problem_mark=node.start_mark,
            ) from error


_MERGE = "tag:yaml.org,2002:merge"


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node)
        if not isinstance(key, Hashable):
            raise yaml.MarkedYAMLError(
                problem=f"the key is {shown(key)}, but must be text",
                problem_mark=key_node.start_mark,
            )
        if key in seen:
            raise yaml.MarkedYAMLError(
                problem=f"the key {key} is given twice", problem_mark=key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_study(path: Path) -> StudyConfig:
    """Reads and checks a study file, and makes the path of its code folder absolute.

    Raises:
        StudyError: The file cannot be read or is invalid; the error lists every problem.
    """
    source = str(path)
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  safe subclass
    except OSError as error:
        raise StudyError(source, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise StudyError(source, [f"is not UTF-8 text: {error.reason}"]) from error
    except yaml.YAMLError as error:
        raise StudyError(source, [f"is not YAML: {_yaml_problem(error)}"]) from error
    except RecursionError as error:
        raise StudyError(source, ["is nested too deeply"]) from error
    study = parse_study(with_code_path(data, path.parent), source=source)
    if study.code is None:
        return study
    try:
        code = (path.parent / study.code).resolve()
        is_folder = code.is_dir()
    except (OSError, ValueError) as error:  # too long, or with characters no path has
        problem = f"code is {shown(study.code)}, but must be a folder ({error})"
        raise StudyError(source, [problem]) from error
    if not is_folder:
        raise StudyError(source, [f"code is {study.code!r}, but there is no folder {code}"])
    return study.model_copy(update={"code": str(code)})


def with_code_path(data: object, folder: Path) -> object:
    """Returns the data of a study with an absolute path of the code folder, if the folder exists.

    The absolute path is needed to find a sampler that is defined in the code folder.

    Args:
        data: The content of the study file.
        folder: The folder to which the path is relative.
    """
    if isinstance(data, dict) and isinstance(code := data.get("code"), str) and code:
        with contextlib.suppress(OSError, ValueError):
            if (found := (folder / code).resolve()).is_dir():
                return {**data, "code": str(found)}
    return data


def parse_study(data: object, *, source: str, is_entered: bool = False) -> StudyConfig:
    """Parses and checks a study.

    Args:
        data: The content of a study file; must be a mapping.
        source: Origin of the study, for error messages.
        is_entered: Whether the study is already recorded in the ledger, so that its code folder
            and classes need not exist any more.

    Raises:
        StudyError: The study is invalid; the error lists every problem with key, value and rule.
    """
    if not isinstance(data, dict):
        kind = "empty" if data is None else type(data).__name__
        raise StudyError(source, [f"is {kind}, but must be a mapping of keys such as name, space"])
    try:
        return StudyConfig.model_validate(data, context=ENTERED if is_entered else None)
    except ValidationError as error:
        raise StudyError(source, explain(error, StudyConfig)) from error
    except UnicodeEncodeError as error:  # half of a surrogate pair, as JSON may have it
        raise StudyError(source, [f"has text that is not Unicode ({error.reason})"]) from error


@lru_cache(maxsize=256)
def read_entered(text: str, *, source: str) -> StudyConfig:
    """Parses the JSON text of a study that is recorded in the ledger.

    Args:
        text: Text that `StudyConfig.to_json` returned.
        source: Origin of the text, for error messages.

    Raises:
        StudyError: The text is not valid in this version of the package.
    """
    return parse_study(json.loads(text), source=source, is_entered=True)


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return str(error).replace("\n", " ")
