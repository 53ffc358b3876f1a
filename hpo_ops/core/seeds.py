"""Seeds: every random draw of a study derives from the study's seed."""

import hashlib


def derive_seed(seed: int, *path: str | int) -> int:
    """A 32-bit seed, derived from the study's seed and the path of its use.

    >>> derive_seed(7, "trial", 3) == derive_seed(7, "trial", 3)
    True
    """
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
