"""Combines the required node affinity of a study with that of its pod template.

A study can narrow the selection of nodes, but never widen it. Kubernetes accepts a node that
matches any one of several terms, and the study's terms would replace those of the template.
Therefore each term of the study is combined with each term of the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Spec = Mapping[str, Any]
_PATH = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)


def required_terms(spec: Spec) -> list[Spec]:
    """Returns the required node terms of a pod's spec, of which a node must match at least one.

    The list is empty if the spec has no required node affinity.

    Raises:
        ValueError: The affinity is not well-formed.
    """
    value: Any = spec
    for number, key in enumerate(_PATH):
        if key not in value:
            return []
        value = value[key]
        if number < len(_PATH) - 1 and not isinstance(value, Mapping):
            raise ValueError(f"{'.'.join(_PATH[: number + 1])} must be a mapping")
    if not isinstance(value, list) or not all(isinstance(term, Mapping) for term in value):
        raise ValueError(f"{'.'.join(_PATH)} must be a list of mappings")
    return value


def join_terms(platform: Spec, built: Spec) -> dict[str, Any]:
    """Returns `built` with node terms that require both the template's and the study's terms.

    Args:
        platform: The pod's spec without the study's part.
        built: The pod's spec with the study's part.

    Raises:
        ValueError: The study's affinity is not well-formed.
    """
    own, found = required_terms(platform), required_terms(built)
    if not own or own == found:
        return dict(built)
    joined: Any = [_both(ours, theirs) for ours in own for theirs in found] or own
    for key in reversed(_PATH[1:]):
        joined = {key: joined}
    affinity = _with(built["affinity"], joined)
    return {**built, "affinity": affinity}


def _both(one: Spec, other: Spec) -> dict[str, Any]:
    return {
        key: [*one.get(key, ()), *other.get(key, ())]
        for key in ("matchExpressions", "matchFields")
        if key in one or key in other
    }


def _with(base: Spec, over: Spec) -> dict[str, Any]:
    """Returns a copy of the nested mapping `base` in which values of `over` take precedence."""
    return {
        **base,
        **{
            key: _with(base[key], value)
            if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
            else value
            for key, value in over.items()
        },
    }
