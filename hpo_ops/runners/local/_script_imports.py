"""Finds the third-party modules that a script imports at its top level."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LATER = {"torch": "torch._dynamo"}
"""By package, a slow module that the package imports only on first use.

torch imports ``torch._dynamo`` when the first optimiser is created.
"""

Import = tuple[str, tuple[str, ...]]


def third_party_imports(script: Path) -> list[Import]:
    """Returns the third-party modules that a script imports, each with the imported names.

    If the script imports files beside it, the third-party modules that these files import are
    included.
    """
    found: dict[str, set[str]] = {}
    seen: set[Path] = set()
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for module, names in _imports(path):
            top = module.partition(".")[0]
            local = _local_file(script.parent, module)
            if local is not None:
                waiting.append(local)
            elif top not in sys.stdlib_module_names:
                found.setdefault(module, set()).update(names)
                if top in LATER:
                    found.setdefault(LATER[top], set())
    return [(module, tuple(sorted(names))) for module, names in sorted(found.items())]


def _imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in _top_level(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, [alias.name for alias in node.names if alias.name != "*"]


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.Try):
            yield from _top_level(node.body)


def _local_file(folder: Path, module: str) -> Path | None:
    top = folder / module.partition(".")[0]
    deepest = folder.joinpath(*module.split("."))
    for path in (deepest.with_suffix(".py"), deepest / "__init__.py", top.with_suffix(".py")):
        if path.is_file():
            return path
    return top if top.is_dir() else None
