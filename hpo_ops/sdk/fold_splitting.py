"""Which samples a fold trains on, and which it is judged by."""

from __future__ import annotations

from random import Random

WITHOUT_FOLDS = 5
"""Of a study without folds, the first of so many is held out."""


def split_fold(
    samples: int, *, fold: int | None, folds: int | None, seed: int
) -> tuple[list[int], list[int]]:
    """Indices to train on and indices to validate on, each in rising order.

    The samples are shuffled and dealt out in turn, so that every one is in the validation part of
    exactly one fold, and parts differ by at most one.

    >>> [split_fold(5, fold=fold, folds=2, seed=0)[1] for fold in (0, 1)]
    [[0, 2, 3], [1, 4]]

    Args:
        samples: How many there are.
        fold: The fold, 0 and up; None trains on all, and validates on the same.
        folds: How many there are; None holds out the first of five.
        seed: Another one shuffles in another way.

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
