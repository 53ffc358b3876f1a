"""Selects the environment variables of a training process, so that it gets no secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PASSED_ON = {
    "HOME",
    # A stack finds the processes that it started by these, and ends them.
    "HPO_STACK_ID",
    "HPO_STACK_PART",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
}
PASSED_ON_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_")


def training_environment(
    base: Mapping[str, str] = os.environ, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns the environment variables of a training process.

    Args:
        base: The runner's own variables; only variables known to be harmless are passed on.
        extra: The study's variables, which override all others.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    folder = str(Path(sys.executable).parent)
    path = kept.get("PATH", os.defpath)
    if folder not in path.split(os.pathsep):
        kept["PATH"] = os.pathsep.join([folder, path])
    return {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"} | kept | dict(extra or {})
