"""Derivation of seeds: every random generator of a study is seeded from the study's seed."""

import hashlib


def derive_seed(seed: int, *path: str | int) -> int:
    """Derives a 32-bit seed from the study's seed and the purpose.

    >>> derive_seed(7, "trial", 3) == derive_seed(7, "trial", 3)
    True

    Args:
        seed: The study's seed.
        path: Parts that name the purpose, such as ``"trial", 3``.
    """
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
