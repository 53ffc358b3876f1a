"""Seeds the random generators of Python, and of NumPy and torch if they are imported."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Collection


def seed_all(seed: int, *, but: Collection[str] = ()) -> set[str]:
    """Seeds the global random generators of Python, and of NumPy and torch if imported.

    Args:
        seed: An unsigned integer of 32 bits.
        but: Names of libraries that are not seeded: ``random``, ``numpy`` or ``torch``.

    Returns:
        Which of the libraries ``random``, ``numpy`` and ``torch`` are imported, including
        libraries in `but`.
    """
    if "random" not in but:
        random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and "numpy" not in but:
        numpy.random.seed(seed)
    if torch is not None and "torch" not in but:
        torch.manual_seed(seed)  # on every device
    named = {"random": random, "numpy": numpy, "torch": torch}
    return {name for name, module in named.items() if module is not None}


def seed_of_step(seed: int, step: int) -> int:
    """Returns the seed of one step, which depends only on the trial's seed and the step."""
    digest = hashlib.sha256(f"{seed}/step/{step}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def be_deterministic() -> None:
    """Makes torch, if it is imported, use deterministic algorithms only.

    An operation without a deterministic algorithm then raises an error.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA is first used
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
