"""Runs fuzz targets: a few fixed inputs in the quick tests, many random ones by `make fuzz`.

`HPO_FUZZ_INPUTS` is the number of inputs of a long run, over all targets; `HPO_FUZZ_SEED` its
seed, chosen and printed when it is not given. Failing inputs of a long run are kept in
`.hypothesis/fuzz`, and are tried first by the next one.
"""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.strategies import SearchStrategy

from tests.fuzz.gateway_target import target

__all__ = ["target"]

T = TypeVar("T")
Fuzz = Callable[[SearchStrategy[T], Callable[[T], Counter[str]]], None]

INPUTS, SEED = "HPO_FUZZ_INPUTS", "HPO_FUZZ_SEED"
_SPARE = 1.2
"""Some operations have only one possible input; the others make up for them."""
_SCALE = pytest.StashKey[float]()


def _is_long() -> bool:
    return bool(os.environ.get(INPUTS))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "fuzz(inputs, senders=1): a fuzz target with its inputs in a quick run; each example is "
        "sent by so many callers, and counts as often",
    )
    if _is_long() and not os.environ.get(SEED):
        os.environ[SEED] = str(random.SystemRandom().randrange(1 << 32))


def pytest_report_header() -> list[str]:
    if not _is_long():
        return []
    return [f"fuzzing: {os.environ[INPUTS]} inputs, {SEED}={os.environ[SEED]}"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = [item.get_closest_marker("fuzz") for item in items]
    quick = sum(mark.args[0] for mark in marks if mark is not None)
    wanted = int(os.environ.get(INPUTS) or 0)
    config.stash[_SCALE] = max(1.0, _SPARE * wanted / quick) if quick else 1.0


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Any:
    """Calls a check with inputs of a strategy; the check returns what it saw, to be counted."""
    mark = request.node.get_closest_marker("fuzz")
    inputs, senders = mark.args[0], mark.kwargs.get("senders", 1)
    examples = math.ceil(inputs * request.config.stash[_SCALE] / senders)

    def run(strategy: SearchStrategy[T], check: Callable[[T], Counter[str]]) -> None:
        seen: Counter[str] = Counter()
        began = time.monotonic()

        def example(value: T) -> None:
            note(f"input: {value!r:.4000}")
            seen.update(check(value))

        # Failing inputs are kept by the name of the function.
        example.__name__ = re.sub(r"\W+", "_", request.node.name)
        test = settings(_settings(examples))(given(strategy)(example))
        if _is_long():
            test = seed(int(os.environ[SEED]))(test)
        try:
            test()
        finally:
            target = request.node.path.stem.removeprefix("test_").replace("_", " ")
            record_property("fuzz", [target, dict(seen), time.monotonic() - began])

    return run


def _settings(examples: int) -> settings:
    base = settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
    )
    if not _is_long():
        return settings(base, derandomize=True, database=None, phases=[Phase.generate])
    place = DirectoryBasedExampleDatabase(".hypothesis/fuzz")
    return settings(base, derandomize=False, database=place, print_blob=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_terminal_summary(terminalreporter: Any) -> Any:
    yield
    figures: dict[str, tuple[Counter[str], float]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "fuzz" and getattr(report, "when", "") == "call":
                    target, seen, seconds = value
                    counts, spent = figures.get(target, (Counter(), 0.0))
                    figures[target] = (counts + Counter(seen), spent + seconds)
    if not figures:
        return
    terminalreporter.section("fuzzing")
    for target, (counts, seconds) in sorted(figures.items()):
        answers = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        terminalreporter.write_line(
            f"{target:20} {counts.total():7} inputs  {seconds:7.1f} s  {answers}"
        )
    total = sum(counts.total() for counts, _ in figures.values())
    seed_used = f"  {SEED}={os.environ[SEED]}" if _is_long() else ""
    terminalreporter.write_line(f"{'all':20} {total:7} inputs{seed_used}")
