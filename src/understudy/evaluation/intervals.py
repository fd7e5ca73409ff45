"""Intervals: how far a number would move with other rows, other draws or another seed.

Two tools cover every measure. The delete-a-group jackknife suits statistics of two whole data sets (a
distance between distributions), where a bootstrap would add its own bias. The row bootstrap suits scores
that are computed from one prediction per test row; it is joined with the spread over training seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import stats

from understudy.errors import EvaluationError

__all__ = ["Estimate", "Progress", "from_seeds", "jackknife", "wilson"]

Floats = npt.NDArray[np.floating[Any]]
Rows = TypeVar("Rows")
Progress = Callable[[str, float], None]
"""Called with what is being done and the share (0..1) of the whole that is finished."""

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def around(
        cls, value: float, half_width: float, low: float = -math.inf, high: float = math.inf
    ) -> Estimate:
        """Symmetric interval, cut at the limits of what the quantity can be."""
        return cls(value, max(low, value - half_width), min(high, value + half_width))


def jackknife(
    statistic: Callable[..., float],
    *samples: Any,
    groups: int = 10,
    seed: int = 0,
    low: float = -math.inf,
    high: float = math.inf,
) -> Estimate:
    """The statistic of whole samples with a delete-a-group jackknife interval.

    Each sample is cut at random into the same number of groups; the statistic is computed `groups` times
    more, each time without one group of every sample.

    Args:
        statistic: takes the samples, returns a number.
        samples: arrays (or anything that is indexed by an integer array along its rows).
        groups: how many groups; fewer if a sample has fewer rows.
        seed: of the random cut.
        low: smallest possible value of the statistic.
        high: largest possible value of the statistic.
    """
    value = statistic(*samples)
    rows = [len(sample) for sample in samples]
    groups = min(groups, *rows)
    if groups < 2:
        return Estimate(value, math.nan, math.nan)
    generator = np.random.default_rng(seed)
    parts = [generator.permutation(count) % groups for count in rows]
    left_out = np.array(
        [
            statistic(*(s[np.flatnonzero(p != group)] for s, p in zip(samples, parts, strict=True)))
            for group in range(groups)
        ]
    )
    variance = (groups - 1) / groups * float(((left_out - left_out.mean()) ** 2).sum())
    half_width = float(stats.t.ppf(0.975, groups - 1)) * math.sqrt(variance)
    return Estimate.around(value, half_width, low, high)


def from_seeds(
    score: Callable[[npt.NDArray[np.intp]], Sequence[float]],
    rows: int,
    *,
    strata: npt.NDArray[Any] | None = None,
    replicates: int = 50,
    seed: int = 0,
    low: float = 0.0,
    high: float = 1.0,
) -> Estimate:
    """A score averaged over training seeds, with the spread over seeds and over test rows in its interval.

    Args:
        score: takes row numbers, returns the score on these rows for each training seed.
        rows: number of test rows.
        strata: a class for each row; a resample that lacks one is drawn again within the classes, so that a score
            which needs all of them is always defined.
        replicates: bootstrap resamples of the rows.
        seed: of the bootstrap.
        low: smallest possible score.
        high: largest possible score.
    """
    if rows == 0:
        raise EvaluationError("a score needs at least one test row, got none.")
    per_seed = np.asarray(score(np.arange(rows)), dtype=float)
    generator = np.random.default_rng(seed)
    resampled = np.array([np.mean(score(_resample(rows, strata, generator))) for _ in range(replicates)])
    defined = resampled[~np.isnan(resampled)]
    between_rows = Z95 * float(np.std(defined, ddof=1)) if len(defined) > 1 else 0.0
    between_seeds = 0.0
    if len(per_seed) > 1:
        quantile = float(stats.t.ppf(0.975, len(per_seed) - 1))
        between_seeds = quantile * float(per_seed.std(ddof=1)) / math.sqrt(len(per_seed))
    return Estimate.around(float(per_seed.mean()), math.hypot(between_rows, between_seeds), low, high)


def _resample(
    rows: int, strata: npt.NDArray[Any] | None, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Rows drawn with replacement; drawn again within each class if one of the classes was missed."""
    drawn = generator.integers(0, rows, rows)
    if strata is None or len(np.unique(strata[drawn])) == len(np.unique(strata)):
        return drawn
    groups = [np.flatnonzero(strata == one) for one in np.unique(strata)]
    return np.concatenate([group[generator.integers(0, len(group), len(group))] for group in groups])


def wilson(successes: int, trials: int) -> Estimate:
    """A share with Wilson's score interval, which stays sensible at 0 and at 1."""
    if trials < 1:
        raise EvaluationError("a share of nothing is not defined: no trials.")
    share = successes / trials
    centre = (share + Z95**2 / (2 * trials)) / (1 + Z95**2 / trials)
    half = Z95 / (1 + Z95**2 / trials) * math.sqrt(share * (1 - share) / trials + Z95**2 / (4 * trials**2))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Estimate(share, low, high)
