"""How often a code occurs in a record that has it: once, and then again with the same chance each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.codes.drawing import SURE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["chance_of_repeats"]


def chance_of_repeats(extra: Floats, codes: Floats, noise: float, most: int) -> Floats:
    """For each code the chance of one more occurrence, from noisy sums of repetitions and noisy counts of records.

    The mean number of repetitions of a code is drawn towards that of all codes, the more the larger the noise: as if
    codes differed from the average by about the average itself.

    Args:
        extra: occurrences beyond the first in a record, summed over records.
        codes: how many records have each code.
        noise: the standard deviation of `extra`.
        most: the largest number of occurrences.
    """
    records = np.maximum(codes, 0)
    average = float(np.clip(extra.sum() / max(records.sum(), 1.0), 0, most - 1))
    signal = np.square(records * average)
    weight = signal / np.maximum(signal + noise**2, 1e-300)
    means = average + weight * (extra / np.maximum(records, 1e-9) - average)
    return _chance_for(np.clip(means, 0, most - 1), most)


def _chance_for(means: Floats, most: int) -> Floats:
    """The chance of one more at which the mean number of repetitions, at most `most` − 1, is as given; by halving."""
    low, high = np.zeros_like(means), np.full_like(means, SURE)
    for _ in range(60):
        middle = (low + high) / 2
        below = _mean(middle, most) < means
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(means <= 0, 0.0, low)


def _mean(chance: Floats, most: int) -> Floats:
    """The mean of a geometric number that is known to be below `most`."""
    found: Floats = chance / (1 - chance) - most * chance**most / (1 - chance**most)
    return found
