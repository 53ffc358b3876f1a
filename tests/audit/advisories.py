"""Known vulnerabilities of the pinned versions, from the package index or an OSV export.

The data come from one of two places: a zip of OSV records, as osv.dev exports them for each
ecosystem, which works offline; or the JSON API of the index that pip is configured for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.audit.pinned_versions import normal_name

ACCEPTED: Mapping[str, str] = {}
"""Advisories (by id) that do not concern this project, with the reason."""
TIMEOUT_SECONDS = 20.0


class NoAdvisoriesError(LookupError):
    """The data cannot be had; says why."""


def from_export(file: Path, pins: Mapping[str, str]) -> list[str]:
    """Vulnerabilities of the pinned versions in a zip of OSV records."""
    problems = []
    with zipfile.ZipFile(file) as export:
        for name in export.namelist():
            record = json.loads(export.read(name))
            problems += _of_record(record, pins)
    return sorted(problems)


def _of_record(record: dict[str, Any], pins: Mapping[str, str]) -> list[str]:
    if record.get("withdrawn") or record["id"] in ACCEPTED:
        return []
    return [
        f"{name} {pins[name]}: {record['id']} {record.get('summary', '')}".strip()
        for affected in record.get("affected", [])
        if (name := normal_name(affected.get("package", {}).get("name", ""))) in pins
        and pins[name] in affected.get("versions", [])
    ]


Fetch = Callable[[str], dict[str, Any]]


def from_index(address: str, pins: Mapping[str, str], fetch: Fetch | None = None) -> list[str]:
    """Vulnerabilities that the index's JSON API knows of the pinned versions.

    Raises:
        NoAdvisoriesError: The index has no such API, or cannot be reached.
    """
    fetch = fetch or _fetch
    first = next(iter(pins))
    _read(fetch, f"{address}/{first}/{pins[first]}/json")  # one answer tells whether it has any

    def look_up(pin: tuple[str, str]) -> list[str]:
        name, version = pin
        data = _read(fetch, f"{address}/{name}/{version}/json")
        return [
            f"{name} {version}: {item['id']} {item.get('summary') or ''}".strip()
            for item in data["vulnerabilities"]
            if not item.get("withdrawn") and item["id"] not in ACCEPTED
        ]

    with ThreadPoolExecutor(8) as pool:
        return sorted(problem for found in pool.map(look_up, pins.items()) for problem in found)


def _read(fetch: Fetch, address: str) -> dict[str, Any]:
    try:
        data = fetch(address)
    except (OSError, ValueError) as error:
        raise NoAdvisoriesError(f"the package index gave no advisories: {error}") from error
    if "vulnerabilities" not in data:
        raise NoAdvisoriesError("the package index answers without advisories")
    return data


def _fetch(address: str) -> dict[str, Any]:
    if not address.startswith("https://"):
        raise NoAdvisoriesError("the package index does not speak https")
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  https
            data: dict[str, Any] = json.load(answer)
            return data
    except urllib.error.HTTPError as error:
        raise OSError(f"HTTP {error.code}") from error


def index_address() -> str:
    """The address of the JSON API beside the index that pip is configured for."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    configured = asked.stdout.strip().rstrip("/")
    if asked.returncode == 0 and configured:
        return configured.removesuffix("/simple") + "/pypi"
    from pip._internal.models.index import PyPI  # pip's default

    return str(PyPI.pypi_url).rstrip("/")
