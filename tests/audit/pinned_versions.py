"""The pinned versions: all exact, and those that are installed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import Distribution

OURS = {"hpo-ops", "pip", "setuptools"}
"""Packages that nobody pins: this one, and what makes the virtual environment."""
OF_PYTORCH = ("cuda-", "nvidia-", "triton")
"""Beginnings of names of packages whose versions PyTorch's build for GPUs pins itself."""


def read_pins(text: str) -> dict[str, str]:
    """The versions of a constraints file, by normalised package name.

    Raises:
        ValueError: A line does not pin a package to one version.
    """
    pins = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)(\s*;.*)?", line.strip())
        if found is None:
            raise ValueError(f"constraints.txt: {line!r} does not pin one version")
        pins[normal_name(found[1])] = found[2]
    return pins


def pin_problems(pins: dict[str, str], packages: Iterable[Distribution]) -> list[str]:
    """One sentence for each installed package that is not pinned, or has another version."""
    problems = []
    for package in packages:
        name = normal_name(package.metadata["Name"])
        version = package.version.partition("+")[0]
        is_pinned = name in OURS or (name not in pins and name.startswith(OF_PYTORCH))
        if not is_pinned and pins.get(name) != version:
            problems.append(
                f"{name} {version} is installed, pinned is {pins.get(name, 'nothing')}"
            )
    return sorted(problems)


def normal_name(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()
