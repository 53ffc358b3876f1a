"""Determines the provenance of a study's trials: hash of the code, git commit, image."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from hpo_ops.checkpoints import hash_code
from hpo_ops.config import StudyConfig
from hpo_ops.config.runner_registry import find_runner
from hpo_ops.protocol import Provenance

GIT_SECONDS = 10.0


def find_origin(config: StudyConfig, environment: Mapping[str, str]) -> Provenance:
    """Determines the provenance that all trials of a study share.

    Args:
        config: The study's configuration.
        environment: Environment variables of this process, from which the runner reads the name of
            the platform's own image.

    Raises:
        BadCodeError: The code folder is empty, or too large to be code.
    """
    code = Provenance() if config.code is None else describe_code(Path(config.code))
    return find_runner(config.runner).provenance(config, environment).over(code)


def describe_code(folder: Path, *, known: str | None = None) -> Provenance:
    """Returns a provenance with the hash of a code folder and, in a git repository, its commit.

    Args:
        folder: The code folder.
        known: The hash of the code when the study started. If the folder still has this hash, an
            empty provenance is returned.

    Raises:
        BadCodeError: The folder is empty, or too large to be code.
    """
    code_hash = hash_code(folder)
    if code_hash == known:
        return Provenance()
    commit = _git(folder, "rev-parse", "HEAD")
    changes = None if commit is None else _git(folder, "status", "--porcelain", "--", ".")
    return Provenance(
        code_hash=code_hash,
        commit=commit,
        is_dirty=None if changes is None else bool(changes),
    )


def _git(folder: Path, *words: str) -> str | None:
    """Returns the output of a git command in a folder, or None if the command fails."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(  # noqa: S603, our own words
            command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
