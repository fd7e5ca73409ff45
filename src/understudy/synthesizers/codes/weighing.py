"""How much a record may weigh in a sum of codes or pairs, and which codes are compared. All post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Compared", "Weighing", "compared_items", "weighing"]

_DEPENDENCE = 0.5
"""By which part of what chance gives, codes are expected to meet more or less often."""

_USUAL = 0.7
"""The share of records that count in full however loud the noise is: what differs between short and long records would
else be mistaken for what codes have in common."""

_NUMBERS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""How many of the most frequent codes may be compared."""


@dataclass(frozen=True)
class Weighing:
    """What a record counts for.

    Args:
        full: the most entries (codes, or pairs) with which a record weighs 1; one with more weighs less.
        scale: by what a sum is multiplied to make up for that, on average.
    """

    full: int
    scale: float


def weighing(
    entries: NDArray[np.int64], chances: Floats, count: float, covered: float, sigma: float, cells: int
) -> Weighing:
    """The least bound that a share `covered` of the records do not exceed, or where noise is loud, the best one.

    Noise is loud if it would exceed the mean of what is counted. Then the bound is the one at which it is least beside
    what is counted, of those that let most records count in full.

    Args:
        entries: numbers of entries that a record may add to, rising.
        chances: of each of these.
        count: the number of records.
        covered: share of the records.
        sigma: of the noise, for sensitivity 1.
        cells: how many numbers are published.
    """
    mean = float(chances @ entries)
    below = np.cumsum(chances) / max(float(chances.sum()), 1e-300)
    least, most = (
        max(1, int(entries[min(len(entries) - 1, int(np.searchsorted(below, part)))]))
        for part in (min(_USUAL, covered), covered)
    )
    if sigma * math.sqrt(most) > count * mean / cells:
        bounds = [int(one) for one in np.unique(entries) if least <= one <= most]
        most = min(bounds, key=lambda full: math.sqrt(full) / max(_seen(entries, chances, full), 1e-12))
    return Weighing(most, mean / max(_seen(entries, chances, most), 1e-12) if mean > 0 else 1.0)


def _seen(entries: NDArray[np.int64], chances: Floats, full: int) -> float:
    """What a record adds on average."""
    return float(chances @ np.minimum(entries, np.sqrt(full * entries)))


@dataclass(frozen=True, eq=False)
class Compared:
    """What is counted in pairs.

    Args:
        codes: how many of the most frequent codes.
        groups: whether the groups that other codes are in take part too.
        full: the most pairs with which a record weighs 1.
        weights: for records of 0, 1, 2, … codes the mean weight with which a pair of theirs counts.
    """

    codes: int
    groups: bool
    full: int
    weights: Floats


def compared_items(
    codes: Floats, groups: Floats, lengths: Floats, count: float, covered: float, sigma: float
) -> Compared:
    """What to compare so that most is learned: more pairs tell more, and make a record add to more of them.

    Args:
        codes: for each code, in falling order, the share of records that are believed to have it.
        groups: for each group of other codes the mean number of its codes in a record; none without a tree.
        lengths: the chances of 0, 1, 2, … codes.
        count: the number of records.
        covered: as for `weighing`.
        sigma: of the noise of pairs, for sensitivity 1.
    """
    found: list[tuple[float, Compared]] = []
    mean = max(float(lengths @ np.arange(len(lengths))), 1e-9)
    for number in sorted({min(one, len(codes)) for one in _NUMBERS}):
        for grouped in (False, True) if len(groups) else (False,):
            items = np.concatenate([codes[:number], -np.expm1(-groups) if grouped else []])
            share = min(1.0, float(items.sum()) / mean)
            present = _thinned(lengths, share)
            numbers = np.arange(len(lengths))
            pairs = math.comb(len(items), 2)
            bound = weighing(numbers * (numbers - 1) // 2, present, count, covered, sigma, pairs)
            noise = sigma * math.sqrt(bound.full) * bound.scale
            signal = np.square(_DEPENDENCE * count * np.outer(items, items))
            np.fill_diagonal(signal, 0.0)
            gain = float((np.square(signal) / (signal + noise**2 + 1e-12)).sum())
            found.append(
                (gain, Compared(number, grouped, bound.full, _pair_weights(lengths, share, bound.full)))
            )
    return max(found, key=lambda one: one[0])[1]


def _pair_weights(lengths: Floats, share: float, full: int) -> Floats:
    """For records of 0, 1, 2, … codes the mean weight of a pair, if each further code is compared with this chance."""
    from scipy.stats import binom

    others = np.arange(len(lengths))
    pairs = (others + 2) * (others + 1) / 2
    chances = binom.pmf(others, np.maximum(others - 2, 0)[:, None], share)
    means: Floats = chances @ np.minimum(1.0, np.sqrt(full / pairs))
    return means


def _thinned(chances: Floats, share: float) -> Floats:
    """The chances of 0, 1, 2, … codes if each stays with this chance."""
    from scipy.stats import binom

    numbers = np.arange(len(chances))
    fewer: Floats = chances @ binom.pmf(numbers, numbers[:, None], share)
    return fewer
