"""Seeds: every random draw of a study comes from one number."""

import hashlib


def derive_seed(seed: int, *path: str | int) -> int:
    """A seed of 32 bits that depends on the study's seed and on what it is for.

    >>> derive_seed(7, "trial", 3) == derive_seed(7, "trial", 3)
    True
    """
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
