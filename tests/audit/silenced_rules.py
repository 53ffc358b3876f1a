"""Security rules of ruff (S, those of bandit): on everywhere, silenced only with a reason."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

SHIPPED = ("hpo_ops", "dags", "plugins", "docker", "config")
"""Folders of code that runs in production."""
_SILENCED = re.compile(r"#\s*noqa:\s*(?P<rules>[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)(?P<reason>.*)$")


def rule_problems(root: Path) -> list[str]:
    """What ruff's security rules find, what it does not look at, and what is silenced unsaid."""
    files = sorted(path for name in SHIPPED for path in (root / name).rglob("*.py"))
    return [*_found(root), *_unseen(root, files), *unexplained(root, files)]


def _found(root: Path) -> list[str]:
    done = _ruff(root, "--select", "S", "--output-format", "concise", "--quiet", ".")
    return [line for line in done.splitlines() if ": S" in line]


def _unseen(root: Path, files: Iterable[Path]) -> list[str]:
    seen = set(_ruff(root, "--show-files", ".").splitlines())
    return [f"{file.relative_to(root)} is not checked by ruff" for file in files
            if str(file) not in seen]  # fmt: skip


def unexplained(root: Path, files: Iterable[Path]) -> list[str]:
    """Lines that silence a security rule without a reason beside it."""
    problems = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            found = _SILENCED.search(line)
            if found and re.search(r"\bS\d", found["rules"]) and not found["reason"].strip(" ,()"):
                where = f"{file.relative_to(root)}:{number}"
                problems.append(f"{where}: {found['rules']} is silenced without a reason")
    return problems


def _ruff(root: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
