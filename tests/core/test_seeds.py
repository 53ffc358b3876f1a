"""Seeds that derive from the study's seed."""

from __future__ import annotations

from hpo_ops.core import derive_seed


def test_a_seed_stays_the_same_in_every_version() -> None:
    # Studies that run now must keep their trials after an upgrade.
    assert derive_seed(7, "trial", 3) == 1437387231


def test_every_part_of_the_path_counts() -> None:
    seeds = {
        derive_seed(7, "trial", 3),
        derive_seed(8, "trial", 3),
        derive_seed(7, "round", 3),
        derive_seed(7, "trial", 4),
        derive_seed(7, "trial"),
    }
    assert len(seeds) == 5
    assert all(0 <= seed < 2**32 for seed in seeds)
