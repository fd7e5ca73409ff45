"""What noisy counts of lengths and of codes say when the noise is as large as most of them. All post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["believed_counts", "smoothed_lengths", "thinned"]

_LOUD = 4.5
"""By how many standard deviations a length must differ from the smooth curve to be believed as it is: noise does so in
one of 2,000 runs, and then makes a few records of sixty codes, in which everything meets everything."""

_USUAL, _UNUSUAL = 0.6, 0.4
"""The standard deviation of lengths over their mean, and by which factor (as a logarithm) it varies between data."""

_BELIEVED = 1.0
"""How many standard deviations of the noise the count of a code must have to be made at all."""

_SHAPELESS = 0.9
"""The share of known codes below which lengths lose their shape."""

_SURE = 6.0
"""From how many standard deviations on a count is taken as it is."""

_LEVELS = 48
_ROUNDS = 100


def smoothed_lengths(counts: Floats, records: float, noise: float) -> Floats:
    """The chances of 0, 1, 2, … codes: a smooth curve, and the noisy counts where they differ from it loudly.

    The curve is the likeliest gamma distribution, rounded to whole numbers.

    Args:
        counts: noisy counts of records with 0, 1, 2, … codes.
        records: how many there are together.
        noise: the standard deviation of each count.
    """
    curve = max(records, 1.0) * _likeliest_curve(counts / max(records, 1.0), noise / max(records, 1.0))
    found = np.where(np.abs(counts - curve) > _LOUD * noise, np.maximum(counts, 0.0), curve)
    chances: Floats = found / found.sum() if found.sum() > 0 else curve / curve.sum()
    return chances


def _likeliest_curve(shares: Floats, noise: float) -> Floats:
    """The likeliest rounded gamma distribution of a public grid; where noise decides, spreads are usual ones."""
    from scipy.stats import gamma

    longest = len(shares) - 1
    means = np.concatenate([[0.05], np.arange(0.25, longest + 0.25, 0.25)])[:, None, None]
    spreads = np.geomspace(0.05, 2.0, 24)[:, None]
    edges = np.append(np.arange(longest) + 0.5, np.inf)
    below = gamma.cdf(edges, spreads**-2, scale=means * spreads**2)
    curves = np.diff(below, axis=-1, prepend=0.0)
    distance = np.square(curves - shares).sum(axis=2) / max(noise, 1e-6) ** 2
    unusual = np.square(np.log(spreads[:, 0] / _USUAL) / _UNUSUAL)
    likeliest: Floats = curves.reshape(-1, longest + 1)[np.argmin(distance + unusual)]
    return likeliest


def believed_counts(counts: Floats, noise: float) -> Floats:
    """Counts of codes with the noise taken out, not negative.

    How counts are distributed is itself learned from all of them (the likeliest mixture of levels), and each becomes
    its mean given what was seen. Codes that do not stand out of the noise are left out, but for the largest: most of
    them are in no record, and together they would be many.

    Args:
        counts: noisy counts of records with each code.
        noise: the standard deviation of each.
    """
    if noise == 0:
        return np.maximum(counts, 0.0)
    loud = counts >= min(_BELIEVED * noise, float(counts.max()))
    believed: Floats = np.where(loud, _posterior_means(counts / noise) * noise, 0.0)
    return believed


def thinned(chances: Floats, share: float) -> Floats:
    """The chances of 0, 1, 2, … codes if only a share of all codes is known well enough to be made.

    Each code of a record stays with that chance. If many are lost, nothing is left of the shape, and the number is
    that of independent codes (Poisson): fixed numbers of few codes would keep frequent ones from meeting.
    """
    from scipy.stats import binom, poisson

    numbers = np.arange(len(chances))
    if share < _SHAPELESS:
        fewer = poisson.pmf(numbers, share * float(chances @ numbers))
    else:
        fewer = chances @ binom.pmf(numbers, numbers[:, None], min(1.0, share))
    stay: Floats = fewer / fewer.sum()
    return stay


def _posterior_means(seen: Floats) -> Floats:
    """The means of levels that gave these values with noise of deviation 1, by the likeliest mixture of levels."""
    top = max(float(seen.max()), 1.0)
    levels = np.concatenate([[0.0], np.geomspace(0.05, top, _LEVELS)])
    likely = np.exp(-0.5 * np.square(seen[:, None] - levels).clip(max=1400.0)) + 1e-300
    weights = np.full(len(levels), 1 / len(levels))
    for _ in range(_ROUNDS):
        joint = likely * weights
        weights = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    joint = likely * weights
    means: Floats = joint @ levels / joint.sum(axis=1)
    return np.where(seen > _SURE, seen, means)
