"""`python -m tests.audit`: pinned versions, licences, security rules, known vulnerabilities."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import distributions
from pathlib import Path

from tests.audit.advisories import NoAdvisoriesError, from_export, from_index, index_address
from tests.audit.licences import EXCEPTIONS, licence_problems
from tests.audit.pinned_versions import pin_problems, read_pins
from tests.audit.silenced_rules import rule_problems

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Prints what was looked at and found; 1 where there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument(
        "--advisories", type=Path, metavar="ZIP", help="an export of OSV records for PyPI"
    )
    parser.add_argument(
        "--offline", action="store_true", help="leaves out what needs the package index"
    )
    options = parser.parse_args()
    packages = list(distributions())
    pins = read_pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    failed = _tell(f"pinned versions: {len(pins)} pins", pin_problems(pins, packages))
    failed |= _tell(
        f"licences: {len(packages)} installed packages, {len(EXCEPTIONS)} named exceptions",
        licence_problems(packages),
    )
    failed |= _tell("security rules of ruff (S)", rule_problems(ROOT))
    if not options.offline:
        failed |= _advisories(pins, options.advisories)
    return int(failed)


def _advisories(pins: dict[str, str], export: Path | None) -> bool:
    try:
        found = from_export(export, pins) if export else from_index(index_address(), pins)
    except NoAdvisoriesError as error:
        print(
            f"known vulnerabilities: NOT CHECKED, {error}. Give an export of OSV records: "
            "make audit ADVISORIES=all.zip"
        )
        return False
    return _tell(f"known vulnerabilities: {len(pins)} pinned versions", found)


def _tell(subject: str, problems: list[str]) -> bool:
    print(f"{subject}: {len(problems) or 'no'} finding{'s' * (len(problems) != 1)}")
    for problem in problems:
        print(f"  {problem}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
