"""Seeds the random generators of Python, NumPy and torch, as far as they are imported."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Collection


def seed_all(seed: int, *, but: Collection[str] = ()) -> set[str]:
    """Seeds the global random generators of the libraries that are imported by now.

    Args:
        seed: An integer of 32 bits.
        but: Names of libraries to leave alone.

    Returns:
        The names of the libraries that are imported.
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
    """The seed of one step, the same whether the trial was resumed before it or not."""
    digest = hashlib.sha256(f"{seed}/step/{step}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def be_deterministic() -> None:
    """Makes torch, if it is imported, use deterministic algorithms, and fail without one."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA is first used
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
