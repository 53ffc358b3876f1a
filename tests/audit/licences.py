"""Licences of the installed packages, held against those that this project accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution

ALLOWED = {
    "0BSD",
    "3-Clause BSD License",
    "Apache Software License",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD License",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "DFSG approved",
    "ISC",
    "ISC License (ISCL)",
    "MIT",
    "MIT License",
    "MIT-0",
    "MIT-CMU",
    "PSF-2.0",
    "Python Software Foundation License",
    "The Unlicense (Unlicense)",
    "Unlicense",
    "Zlib",
}
"""SPDX ids and trove classifiers of permissive licences."""

_UNCHANGED = "asks for changes of its own files to be published; it is used unchanged"
_LIBRARY = "a library that its user can replace; it is used unchanged"
EXCEPTIONS: Mapping[str, str] = {
    "certifi": f"MPL-2.0: {_UNCHANGED}",
    "hypothesis": f"MPL-2.0: {_UNCHANGED}, and only by tests",
    "pathspec": f"MPL-2.0: {_UNCHANGED}",
    "psycopg": f"LGPL-3.0: {_LIBRARY}",
    "psycopg-binary": f"LGPL-3.0: {_LIBRARY}",
    "psycopg2-binary": f"LGPL with exceptions: {_LIBRARY}",
    "text-unidecode": "Artistic License or GPL: taken under the Artistic License",
    "tqdm": f"MPL-2.0 and MIT: {_UNCHANGED}",
}
"""Packages under other licences, with the reason why they are accepted."""
GPU_PREFIXES = ("cuda-", "nvidia-")
"""NVIDIA's libraries, under NVIDIA's own licence: the registry's build of PyTorch brings them, one
for machines without GPUs does not. They are used unchanged, and not passed on."""


def licence_problems(packages: Iterable[Distribution]) -> list[str]:
    """One sentence for each package whose licence is neither allowed nor an exception."""
    problems = []
    for package in packages:
        name = _normal(package.metadata["Name"])
        found = licences_of(package)
        is_allowed = is_accepted(found)
        if name in EXCEPTIONS and is_allowed:
            problems.append(f"{name}: {found} is allowed, so its exception is not needed")
        elif name not in EXCEPTIONS and not is_allowed and not name.startswith(GPU_PREFIXES):
            problems.append(f"{name} {package.version}: licence is {found or 'not stated'}")
    return sorted(problems)


def licences_of(package: Distribution) -> str:
    """The licence of a package as an SPDX expression, where its metadata says as much."""
    metadata = package.metadata
    if expression := next(iter(metadata.get_all("License-Expression", [])), ""):
        return str(expression)
    marks = [item for item in metadata.get_all("Classifier", []) if item.startswith("License ::")]
    if marks:
        return " AND ".join(item.rpartition("::")[2].strip() for item in marks)
    lines = next(iter(metadata.get_all("License", [])), "").strip().splitlines()
    return lines[0].strip() if lines else ""


def is_accepted(expression: str) -> bool:
    """Whether one alternative of an expression has only allowed licences.

    >>> is_accepted("MIT OR GPL-3.0-only"), is_accepted("MIT AND GPL-3.0-only")
    (True, False)
    """
    alternatives = re.split(r"\s+OR\s+", expression.replace("(ISCL)", "[ISCL]"))
    return any(
        all(part.strip() in _ALLOWED_PARTS for part in re.split(r"\s+AND\s+", _bare(choice)))
        for choice in alternatives
    )


def _bare(text: str) -> str:
    return re.sub(r"^\(|\)$", "", text.strip())


_ALLOWED_PARTS = {_bare(name.replace("(ISCL)", "[ISCL]")) for name in ALLOWED}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
