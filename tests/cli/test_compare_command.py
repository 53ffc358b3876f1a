from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpo_ops.cli.command_errors import CommandError
from hpo_ops.cli.compare_command import rank_experiments, standings_table, variants
from hpo_ops.cli.experiment_command import (
    draw_bands,
    estimate_text,
    experiment_json,
    experiment_lines,
)
from hpo_ops.client import Experiment, Repeat
from hpo_ops.config import StudyConfig, StudyError, parse_study
from hpo_ops.core.experiment_statistics import estimate
from tests.studies import study_data


def study(**changes: Any) -> StudyConfig:
    return parse_study(study_data(**changes), source="test")


def experiment(name: str, bests: list[float | None], **changes: Any) -> Experiment:
    values: dict[str, Any] = {
        "study": name,
        "dag_id": "hpo_study",
        "run_id": f"manual_{name}",
        "metric": "accuracy",
        "direction": "maximize",
        "wanted": len(bests),
        "repeats": [
            Repeat(
                number=number,
                study_id=number,
                run_id="run",
                seed=number,
                state="ended",
                best=best,
                curve=[None, best],
            )
            for number, best in enumerate(bests)
        ],
        **changes,
    }
    return Experiment(**values)


def test_each_sampler_runs_with_each_scheduler_and_the_same_seed() -> None:
    made = variants(study(), ["random,tpe"], ["default", "asha:eta=4"], 5)
    assert [item.name for item in made] == [
        "small.random.default",
        "small.random.asha-eta-4",
        "small.tpe.default",
        "small.tpe.asha-eta-4",
    ]
    assert {(item.seed, item.repeats, item.flow.value) for item in made} == {(7, 5, "rolling")}
    assert made[1].scheduler.options == {"eta": 4, "max_steps": 9}  # steps as in the study
    assert made[0].create_scheduler().max_steps == 9


def test_the_studys_own_scheduler_keeps_its_options() -> None:
    own, _ = variants(study(), [], ["asha", "median"], None)
    assert own.scheduler == study().scheduler
    assert own.repeats == 10


def test_one_alone_and_a_wrong_name_are_refused() -> None:
    with pytest.raises(CommandError, match="only one variant"):
        variants(study(), ["random"], [], None)
    with pytest.raises(StudyError, match="sampler is 'magic'"):
        variants(study(), ["random", "magic"], [], None)


def test_an_experiment_is_shown_with_the_papers_numbers() -> None:
    found = experiment("small", [0.81, 0.79, 0.83, 0.80])
    assert experiment_lines(found) == [
        "small  4 of 4 repeats have ended with a value",
        "Best accuracy:  0.8075 ± 0.01708 (95 %: 0.7803 to 0.8347)",
    ]
    assert experiment_json(found)["best_so_far"][2]["mean"] == pytest.approx(0.8075)
    assert estimate_text(estimate([0.5])) == "0.5"


def test_studies_are_ranked_with_their_chances() -> None:
    good = experiment("good", [0.9, 0.91, 0.92, 0.9, 0.93, 0.9])
    bad = experiment("bad", [0.8, 0.82, 0.81, 0.8, 0.85, None])
    first, second = rank_experiments([bad, good])
    assert (first.name, second.name, second.pairs) == ("good", "bad", 5)
    assert second.chance == 2 / 32
    assert standings_table([first, second], "accuracy").row_count == 2


def test_what_cannot_be_compared_is_said() -> None:
    good = experiment("good", [0.9])
    with pytest.raises(CommandError, match=r"different metrics: accuracy .*, loss"):
        rank_experiments([good, experiment("other", [0.1], metric="loss", direction="minimize")])
    with pytest.raises(CommandError, match="no repeat of empty has ended with a value yet"):
        rank_experiments([good, experiment("empty", [None])])
    with pytest.raises(CommandError, match="given twice"):
        rank_experiments([good, good])


def test_the_best_so_far_is_drawn_with_its_band(tmp_path: Path) -> None:
    path = tmp_path / "band.png"
    draw_bands({"a": experiment("a", [0.8, 0.9]), "b": experiment("b", [0.7])}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CommandError, match="nothing to draw"):
        draw_bands({"a": experiment("a", [None])}, path)
    with pytest.raises(CommandError, match="cannot be written"):
        draw_bands({"a": experiment("a", [0.8])}, tmp_path / "missing" / "band.png")
