"""Splits samples into a training and a validation part for one fold of cross-validation."""

from __future__ import annotations

from random import Random

WITHOUT_FOLDS = 5
"""A study without folds holds out the first of this many parts."""


def split_fold(
    samples: int, *, fold: int | None, folds: int | None, seed: int
) -> tuple[list[int], list[int]]:
    """Indices of the training and of the validation samples, each in ascending order.

    The samples are shuffled and dealt to the folds in turn, so that each sample is in the
    validation part of exactly one fold, and the sizes of the parts differ by at most one.

    >>> [split_fold(5, fold=fold, folds=2, seed=0)[1] for fold in (0, 1)]
    [[0, 2, 3], [1, 4]]

    Args:
        samples: Number of samples.
        fold: The fold, 0 and up; None uses all samples for both parts.
        folds: Number of folds; None holds out the first of five parts.
        seed: Seed of the shuffling.

    Raises:
        ValueError: There are fewer samples than folds.
    """
    count = folds or WITHOUT_FOLDS
    if samples < count:
        raise ValueError(f"samples is {samples}, but must be {count} or more for {count} folds")
    if folds is not None and fold is None:
        return list(range(samples)), list(range(samples))
    order = list(range(samples))
    Random(seed).shuffle(order)  # noqa: S311  not for secrets
    held_out = set(order[fold or 0 :: count])
    train = [index for index in range(samples) if index not in held_out]
    return train, sorted(held_out)
