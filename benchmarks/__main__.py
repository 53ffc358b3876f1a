"""Runs the benchmarks, all or one: ``python -m benchmarks [name [options]]``; ``list`` lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NOT_BENCHMARKS = ("__init__", "__main__", "lab", "trained")
PLATFORM = ("overhead", "flows", "ledger")
"""The benchmarks that run if none is named; those of policies need data and hours."""


def main(arguments: list[str]) -> int:
    """Runs the benchmark that the command line names."""
    names = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NOT_BENCHMARKS)
    if not arguments:
        return max(_run(each, []) for each in PLATFORM)
    name, *options = arguments
    if name in names:
        return _run(name, options)
    print("usage: python -m benchmarks [NAME [options]]\n")
    for each in names:
        print(f"  {each:10} {_first_line(each)}")
    print(f"\nWithout a name: {', '.join(PLATFORM)}, one after the other.")
    return 0 if name in ("list", "-h", "--help") else 2


def _run(name: str, options: list[str]) -> int:
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options]).returncode


def _first_line(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8").partition("\n")[0].strip('"')


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
