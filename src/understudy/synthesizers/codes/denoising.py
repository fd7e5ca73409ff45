"""What noisy counts of lengths and of codes say when the noise is as large as most of them. All post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["believed_counts", "believed_pairs", "smoothed_lengths"]

_LOUD = 4.5
"""By how many standard deviations a length must differ from the smooth curve to be believed as it is: noise does so in
one of 2,000 runs, and then makes a few records of sixty codes, in which everything meets everything."""

_USUAL, _UNUSUAL = 0.5, 0.25
"""The standard deviation of lengths over their mean, and by which factor (as a logarithm) it varies between data."""

_BELIEVED, _CERTAIN = 1.5, 3.0
"""How many standard deviations of the noise the count of a code must have to be made at all, and from how many on it
takes no part of the mentions that nobody knows the code of."""

_SURE = 6.0
"""From how many standard deviations on a count is taken as it is."""

_LIKE_THE_REST = 10.0
"""How many codes of its group it takes to say as much about a code as all codes do."""

_LEVELS = 48
_ROUNDS = 100


def smoothed_lengths(counts: Floats, records: float, noise: float) -> Floats:
    """The chances of 0, 1, 2, … codes: a smooth curve, and the noisy counts where they differ from it loudly.

    The curve is the likeliest gamma distribution, rounded to whole numbers. A loud count is taken out, the loudest
    first, and the curve is fitted to the others anew: many records have exactly as many codes as a form has lines.

    Args:
        counts: noisy counts of records with 0, 1, 2, … codes.
        records: how many there are together.
        noise: the standard deviation of each count.
    """
    shares, deviation = counts / max(records, 1.0), max(noise / max(records, 1.0), 1e-6)
    curves, unlikely = _curves(len(shares) - 1)
    quiet = np.ones(len(shares), dtype=bool)
    while True:
        curve = _likeliest(curves, unlikely, shares, quiet, deviation)
        differs = np.where(quiet, np.abs(shares - curve), 0.0)
        if differs.max() <= _LOUD * deviation:
            break
        quiet[np.argmax(differs)] = False
    found = np.where(quiet, curve, np.maximum(shares, 0.0))
    chances: Floats = found / found.sum() if found.sum() > 0 else curves[0]
    return chances


def _curves(longest: int) -> tuple[Floats, Floats]:
    """Rounded gamma distributions of a public grid, and how unusual each is."""
    from scipy.stats import gamma

    means = np.concatenate([[0.05], np.arange(0.25, longest + 0.25, 0.25)])[:, None, None]
    spreads = np.geomspace(0.05, 2.0, 24)[:, None]
    edges = np.append(np.arange(longest) + 0.5, np.inf)
    below = gamma.cdf(edges, spreads**-2, scale=means * spreads**2)
    curves = np.diff(below, axis=-1, prepend=0.0).reshape(-1, longest + 1)
    unusual = np.square(np.log(spreads[:, 0] / _USUAL) / _UNUSUAL)
    return curves, np.tile(unusual, len(means))


def _likeliest(
    curves: Floats, unusual: Floats, shares: Floats, quiet: NDArray[np.bool_], noise: float
) -> Floats:
    """The likeliest curve through the quiet lengths, which share what the others leave."""
    left = max(0.0, 1 - np.maximum(shares[~quiet], 0.0).sum())
    among = curves * quiet
    mass = among.sum(axis=1, keepdims=True)
    scaled = among * left / np.maximum(mass, 1e-9)
    distance = np.square((scaled - shares) * quiet).sum(axis=1) / noise**2
    misplaced = np.where(mass[:, 0] < 0.01, np.inf, 0.0)
    likeliest: Floats = scaled[np.argmin(distance + unusual + misplaced)]
    return likeliest


def believed_counts(
    counts: Floats, noise: float, total: float, levels: Sequence[NDArray[np.int64]] = ()
) -> Floats:
    """Counts of codes with the noise taken out, not negative, which add up to all mentions of codes.

    How counts are distributed is itself learned from all of them (the likeliest mixture of levels, for each group of a
    public tree its own), and each becomes its mean given what was seen. Codes that hardly stand out of the noise are
    left out, but for the largest: most of them are in no record. Mentions that are then missing go to codes that are
    not certain; frequent ones do not take their place.

    Args:
        counts: noisy counts of records with each code.
        noise: the standard deviation of each.
        total: how many mentions there are.
        levels: for each level of a public tree, the coarsest first, the group of each code.
    """
    believed = np.maximum(counts, 0.0)
    if noise > 0:
        loud = counts >= min(_BELIEVED * noise, float(counts.max()))
        believed = np.where(
            loud, _posterior_means(counts / noise, _levels(float(counts.max()) / noise), levels) * noise, 0.0
        )
    missing = total - believed.sum()
    doubtful = believed * (counts < _CERTAIN * noise)
    if missing <= 0 or doubtful.sum() <= 0:
        return believed * total / max(float(believed.sum()), 1e-9)
    filled: Floats = believed + missing * doubtful / doubtful.sum()
    return filled


def believed_pairs(pairs: Floats, chance: Floats, noise: float) -> Floats:
    """Noisy pairs with the noise taken out: how far each is from chance becomes its mean given all of them.

    Args:
        pairs: the noisy share of records with each pair.
        chance: the same, if codes were independent.
        noise: the standard deviation of each.
    """
    if noise == 0 or not len(pairs):
        return pairs
    seen = (pairs - chance) / noise
    levels = _levels(float(np.abs(seen).max()))
    means = _posterior_means(seen, np.concatenate([-levels[:0:-1], levels]), ())
    believed: Floats = np.maximum(0.0, chance + noise * means)
    return believed


def _levels(top: float) -> Floats:
    """Levels from 0 up to the largest value, finer below."""
    return np.concatenate([[0.0], np.geomspace(0.05, max(top, 1.0), _LEVELS)])


def _posterior_means(seen: Floats, levels: Floats, groups: Sequence[NDArray[np.int64]]) -> Floats:
    """The means of levels that gave these values with noise of deviation 1, by the likeliest mixture of levels."""
    likely = np.exp(-0.5 * np.square(seen[:, None] - levels).clip(max=1400.0)) + 1e-300
    weights = np.full((1, len(levels)), 1 / len(levels))
    for _ in range(_ROUNDS):
        joint = likely * weights
        joint /= joint.sum(axis=1, keepdims=True)
        weights = joint.mean(axis=0, keepdims=True)
        for group in groups:
            held = np.bincount(group)[:, None]
            sums = np.zeros((len(held), len(levels)))
            np.add.at(sums, group, joint)
            mean = (sums / np.maximum(held, 1))[group]
            weights = weights + held[group] / (held[group] + _LIKE_THE_REST) * (mean - weights)
    joint = likely * weights
    means: Floats = joint @ levels / joint.sum(axis=1)
    return np.where(np.abs(seen) > _SURE, seen, means)
