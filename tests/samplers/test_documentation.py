"""The code in docs/samplers.md is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from optuna.storages import InMemoryStorage

from hpo_ops.core import Direction, TrialState
from hpo_ops.core.search_space import Categorical, Float, Int, Space
from hpo_ops.samplers._sampler_registry import check_sampler
from hpo_ops.samplers.optuna_search import Search
from hpo_ops.samplers.user_algorithm import close_processes

PAGE = (Path(__file__).parents[2] / "docs" / "samplers.md").read_text(encoding="utf-8")
SPACE = Space(
    {
        "lr": Float(low=0, high=1),
        "width": Int(low=1, high=9),
        "optimizer": Categorical(choices=("adam", "sgd")),
        "momentum": Float(low=0, high=1, when={"optimizer": ("sgd",)}),
    }
)


@pytest.fixture(autouse=True)
def _end_processes() -> Iterator[None]:
    yield
    close_processes()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_options_on_the_page_are_options() -> None:
    sampler = yaml.safe_load(blocks("yaml")[0])["sampler"]
    check_sampler(sampler.pop("name"), sampler, SPACE)


@pytest.mark.timeout(120)
def test_the_algorithm_on_the_page_searches(tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "annealing.py").write_text(code)
    options = yaml.safe_load(blocks("yaml")[1])["sampler"]
    asking = Search(
        storage=InMemoryStorage(),
        name="page",
        space=SPACE,
        directions=[Direction.MINIMIZE],
        sampler=options.pop("name"),
        options=options,
        seed=1,
        code=str(tmp_path),
    )
    losses = []
    for number in range(60):
        params = asking.ask(number)
        losses.append(abs(float(params["lr"] or 0) - 0.9) + abs(int(params["width"] or 0) - 8))
        asking.tell(number, TrialState.COMPLETED, values=[losses[-1]])
    assert sum(losses[-20:]) < sum(losses[:20])
