"""Sampler readings: whether batches are drawn as the claimed event says.

Poisson sampling puts every record into every batch independently with probability q. Shuffled epochs, fixed
batch sizes and contiguous slices all keep the mean and break the independence, which no gradient reading can see.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.auditing.verdict import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from understudy.auditing.claims import Claim

__all__ = ["draw_inclusions", "sampler_readings"]

_MOST_ROWS_IN_PAIRS = 1000
_LEAST_MEETINGS = 5000


def draw_inclusions(sampler: Callable[[int], NDArray[np.int64]], rows: int, rounds: int) -> NDArray[np.bool_]:
    """Rounds × rows: which rows each of the sampler's batches held (a row drawn twice in a batch counts once)."""
    inclusions = np.zeros((rounds, rows), dtype=bool)
    for batch in inclusions:
        batch[sampler(rows)] = True
    return inclusions


def sampler_readings(inclusions: NDArray[np.bool_], claim: Claim, alpha: float) -> tuple[Reading, ...]:
    """Inclusion rate, batch sizes and pairwise independence against the claimed event.

    Args:
        inclusions: rounds × rows, as drawn by the running sampler.
        claim: what is claimed; a batch cap widens only the test of sizes.
        alpha: the probability of a false alarm, shared by the four readings.
    """
    q = claim.mechanism.sampling_rate
    counts = inclusions.astype(np.float64)
    if q == 1:
        return (_rate(counts, q, alpha),)
    readings = [_rate(counts, q, alpha / 4), _sizes(counts, q, alpha / 4), _overlap(counts, q, alpha / 4)]
    some = counts[:, :_MOST_ROWS_IN_PAIRS]
    if some.size * some.shape[1] * q**2 >= _LEAST_MEETINGS:
        readings.append(_pairs(some, q, alpha / 4))
    return tuple(readings)


def _z(name: str, value: float, expected: float, error: float, alpha: float, what: str) -> Reading:
    """A two-sided z-reading."""
    reach = float(stats.norm.ppf(1 - alpha / 2)) * error
    outcome = Outcome.FAIL if abs(value - expected) > reach else Outcome.PASS
    z = (value - expected) / error if error > 0 else 0.0
    says = f"{what} {value:.5g}, claimed {expected:.5g} (z = {z:+.1f})."
    return Reading(name, outcome, value, value - reach, value + reach, expected, says)


def _rate(counts: NDArray[np.float64], q: float, alpha: float) -> Reading:
    error = math.sqrt(q * (1 - q) / counts.size)
    return _z("sampling-rate", float(counts.mean()), q, error, alpha, "share of records per batch")


def _sizes(counts: NDArray[np.float64], q: float, alpha: float) -> Reading:
    """Variance of the batch size against N q (1 − q), by its chi-square interval."""
    rounds, rows = counts.shape
    expected = rows * q * (1 - q)
    value = float(np.square(counts.sum(axis=1) - rows * q).sum() / rounds)
    # Excess kurtosis of a binomial widens the spread of its sample variance a little.
    excess = (1 - 6 * q * (1 - q)) / max(expected, 1e-12)
    error = expected * math.sqrt((2 + excess) / rounds)
    low = value * rounds / float(stats.chi2.ppf(1 - alpha / 2, rounds))
    high = value * rounds / float(stats.chi2.ppf(alpha / 2, rounds))
    outside = not low <= expected <= high
    far = abs(value - expected) > float(stats.norm.ppf(1 - alpha / 2)) * error
    outcome = Outcome.FAIL if outside and far else Outcome.PASS
    says = f"variance of the batch size {value:.4g}, claimed {expected:.4g}."
    return Reading("batch-size", outcome, value, low, high, expected, says)


def _overlap(counts: NDArray[np.float64], q: float, alpha: float) -> Reading:
    """How many records two consecutive batches share: N q² on average when batches are independent."""
    shared = (counts[:-1] * counts[1:]).sum()
    pairs = counts[:-1].size
    error = math.sqrt(pairs * (q**2 * (1 - q**2) + 2 * q**3 * (1 - q))) / pairs
    return _z(
        "consecutive-batches",
        float(shared / pairs),
        q**2,
        error,
        alpha,
        "share of records in two batches running",
    )


def _pairs(counts: NDArray[np.float64], q: float, alpha: float) -> Reading:
    """How unequal the joint inclusions of pairs of records are: mean squared correlation over all pairs."""
    rounds, rows = counts.shape
    centred = (counts - q) / math.sqrt(q * (1 - q))
    correlation = (centred.T @ centred) / math.sqrt(rounds)
    upper = np.square(correlation[np.triu_indices(rows, 1)])
    kurtosis = 3 + (1 - 6 * q * (1 - q)) / (q * (1 - q))
    # Pairs that share a record are correlated through that record's own number of inclusions.
    shared = 2 * (rows - 2) * (kurtosis - 1) / rounds
    error = math.sqrt((2 + (kurtosis**2 - 3) / rounds + shared) / upper.size)
    return _z("pairs", float(upper.mean()), 1.0, error, alpha, "mean squared correlation of pairs of records")
