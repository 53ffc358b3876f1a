"""Required node affinity of a pod: a study narrows the nodes of its template, never widens them.

Kubernetes takes a node that fits one of several terms. A study's terms would take the place of
its template's, so each of them is joined with each term of the template.
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
    """The required node terms of a spec; a node must match one of them, if there are any.

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
    """The built spec with node terms that require both the template's and the study's.

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
    """A copy of nested mappings with values replaced."""
    return {
        **base,
        **{
            key: _with(base[key], value)
            if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
            else value
            for key, value in over.items()
        },
    }
