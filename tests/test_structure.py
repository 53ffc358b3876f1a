"""The shape of the package: sizes, names, and which modules are a room's public face."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hpo_ops"
MAX_LINES = 400
NESTED_ROOMS = ("gateway", "runners")
"""Folders whose subfolders are rooms of their own."""
WITHOUT_A_FACE = ("cli",)
"""Rooms that nothing imports, so that all of their modules would be private."""
SPECIAL = ("__init__", "__main__")
PORT_MODULES = ("runner", "operator")
"""Modules that each runner has, by the names that the port gives them."""
USERS = ("hpo_ops", "dags", "plugins", "config", "examples")


@cache
def modules() -> dict[str, Path]:
    """The modules of the package, by their dotted names, without migrations."""
    paths = [path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def room_of(path: Path) -> str:
    """The room that a file belongs to, such as ``core`` or ``gateway/http``."""
    parts = path.relative_to(PACKAGE).parts
    if len(parts) == 1:
        return ""
    return "/".join(parts[:2] if parts[0] in NESTED_ROOMS and len(parts) > 2 else parts[:1])


def imports(path: Path) -> set[str]:
    """The dotted names that a file imports, those inside of functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_no_file_of_the_package_is_long() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_a_base_name_tells_a_module_from_all_others() -> None:
    places = defaultdict(list)
    for path in modules().values():
        name = path.stem.lstrip("_")
        if path.stem not in SPECIAL:
            places[name].append(room_of(path))
    shared = {
        name: rooms
        for name, rooms in places.items()
        # The same thing for two backends has the same name: each runner has its `runner.py`.
        if len(rooms) > 1 and not all(room.startswith("runners/") for room in rooms)
    }
    assert shared == {}


def test_a_private_module_is_imported_by_its_own_room_only() -> None:
    wrong = []
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            own = room_of(path) if folder == "hpo_ops" else None
            wrong += [
                f"{path.relative_to(ROOT)} imports {name}"
                for name in imports(path)
                if name in modules()
                and modules()[name].stem.startswith("_")
                and modules()[name].stem not in SPECIAL
                and room_of(modules()[name]) != own
            ]
    assert wrong == []


def test_the_documentation_shows_no_private_module() -> None:
    private = [name for name, path in modules().items() if path.stem.startswith("_")]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = [
        f"{page.name}: {name}"
        for page in pages
        for name in private
        if not name.endswith(SPECIAL) and f"import {name}" in page.read_text(encoding="utf-8")
    ]
    assert named == []


def test_a_module_without_an_underscore_is_used_by_another_room() -> None:
    used = set()
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            own = room_of(path) if folder == "hpo_ops" else None
            used |= {name for name in imports(path) if room_of_name(name) != own}
    docs = text_of([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    settings = text_of([*(ROOT / "docker").glob("*"), *ROOT.glob("*.yml"), *ROOT.glob("*.toml")])
    code = text_of(PACKAGE.rglob("*.py"))
    unused = [
        name
        for name, path in modules().items()
        if not path.stem.startswith("_")
        and room_of(path) not in ("", *WITHOUT_A_FACE)
        and path.stem not in (*SPECIAL, *PORT_MODULES)
        and name not in used
        # Shown to users, named by a setting, or started as a program.
        and name not in docs
        and name not in settings
        and f'"{path.name}"' not in code
        and f'"{name}' not in code
    ]
    assert unused == []


def room_of_name(name: str) -> str | None:
    return room_of(modules()[name]) if name in modules() else None


def text_of(paths: Iterable[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
