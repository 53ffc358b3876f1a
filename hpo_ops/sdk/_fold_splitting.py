"""Splits samples into a training and a validation part for one fold of cross-validation."""

from __future__ import annotations

from random import Random

WITHOUT_FOLDS = 5
"""Number of parts of which a study without folds uses the first for validation."""


def split_fold(
    samples: int, *, fold: int | None, folds: int | None, seed: int
) -> tuple[list[int], list[int]]:
    """Returns the indices of a fold's training samples and of its validation samples, ascending.

    The samples are shuffled and assigned to the folds in turn, so that each sample is in the
    validation part of exactly one fold, and the sizes of the validation parts differ by at most
    one.

    >>> [split_fold(5, fold=fold, folds=2, seed=0)[1] for fold in (0, 1)]
    [[0, 2, 3], [1, 4]]

    Args:
        samples: Number of samples.
        fold: Number of the fold, starting at 0. None, in a study with folds, uses all samples for
            both training and validation.
        folds: Number of folds. None, for a study without folds, uses a fifth of the samples for
            validation.
        seed: Seed of the shuffling.

    Raises:
        ValueError: There are fewer samples than folds or, if `folds` is None, fewer than five.
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
