"""End to end: what an attacker learns about membership from samples of the released generator alone.

Two attacks, on encoded records (rows of numbers):

* `distance_scores`: a record close to its nearest synthetic neighbour, compared with its distance to reference rows
  that were surely not used, is guessed to be a member (after Chen et al., "GAN-Leaks", 2020).
* `shadow_scores`: the same distance, judged by its distribution over shadow generators trained with and without the
  record: a likelihood ratio (after Hayes et al., "LOGAN", 2019, and Carlini et al., "LiRA", 2022).

They are alarms for gross leaks. Under differential privacy they find next to nothing, and finding nothing proves
nothing; the bound that (ε, δ) implies is shown beside what they reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["MembershipResult", "distance_scores", "largest_power", "membership", "shadow_scores"]


@dataclass(frozen=True)
class MembershipResult:
    """How often members are found when non-members are accused at a given rate.

    Args:
        attack: which attack.
        false_positive_rate: the share of non-members that are accused.
        true_positive_rate: the share of members that are found.
        low: lower end of its interval.
        high: upper end of its interval.
        bound: the largest true positive rate that (ε, δ) allows.
        contradicts: whether even the lower end exceeds the bound.
    """

    attack: str
    false_positive_rate: float
    true_positive_rate: float
    low: float
    high: float
    bound: float
    contradicts: bool


_BLOCK = 256


def _distances(rows: Floats, synthetic: Floats) -> Floats:
    """The distance of each row to its nearest synthetic one."""
    squares = np.square(synthetic).sum(axis=1)
    nearest = [
        (np.square(part).sum(axis=1)[:, None] - 2 * part @ synthetic.T + squares).min(axis=1)
        for part in (rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK))
    ]
    distances: Floats = np.sqrt(np.maximum(np.concatenate(nearest), 0.0))
    return distances


def distance_scores(rows: Floats, synthetic: Floats, reference: Floats) -> Floats:
    """Per row, log of its distance to the nearest reference row over that to the nearest synthetic one."""
    near, far = _distances(rows, synthetic), _distances(rows, reference)
    scores: Floats = np.log(far + 1e-12) - np.log(near + 1e-12)
    return scores


def shadow_scores(rows: Floats, synthetic: Floats, shadows: Sequence[tuple[Floats, Bools]]) -> Floats:
    """Per row, the log-likelihood ratio of its distance under shadows that had it over shadows that had not.

    Args:
        rows: the records in question.
        synthetic: samples of the released generator.
        shadows: samples of each shadow generator, and which rows it was trained with. Every row needs at least two
            shadows with it and two without.
    """
    inside = np.stack([held for _, held in shadows])
    if (inside.sum(axis=0) < 2).any() or ((~inside).sum(axis=0) < 2).any():
        raise EvaluationError(
            "every row needs at least two shadow generators that had it and two that had not: train more shadows."
        )
    seen = np.log(np.stack([_distances(rows, samples) for samples, _ in shadows]) + 1e-12)
    target = np.log(_distances(rows, synthetic) + 1e-12)

    def log_density(mask: Bools) -> Floats:
        count = mask.sum(axis=0)
        mean = np.where(mask, seen, 0.0).sum(axis=0) / count
        # One common spread: a few shadows cannot tell a row's own.
        spread = (
            np.sqrt(np.where(mask, np.square(seen - mean), 0.0).sum() / (mask.sum() - mask.shape[1])) + 1e-6
        )
        density: Floats = np.asarray(stats.norm.logpdf(target, mean, spread), dtype=np.float64)
        return density

    return log_density(inside) - log_density(~inside)


def largest_power(false_positive_rate: float, epsilon: float, delta: float) -> float:
    """The largest true positive rate of any test, by (ε, δ) (Kairouz, Oh and Viswanath 2015)."""
    a = false_positive_rate
    return float(min(1.0, np.exp(epsilon) * a + delta, 1 - np.exp(-epsilon) * (1 - delta - a)))


def membership(
    attack: str,
    scores: Floats,
    members: Bools,
    *,
    epsilon: float,
    delta: float,
    false_positive_rate: float = 0.01,
    confidence: float = 0.99,
) -> MembershipResult:
    """The power of an attack at a low false positive rate, with its interval, beside the bound.

    The threshold is set on a random-free half of the non-members (every other one) and both rates are measured on
    the rest; intervals are exact (Clopper and Pearson). The bound is taken at the upper end of the false positive
    rate, so that a contradiction is one in spite of both uncertainties.

    Args:
        attack: its name.
        scores: one per record; larger means more likely a member.
        members: which records were used in training.
        epsilon: what the release claims.
        delta: its δ.
        false_positive_rate: at which rate the threshold is set.
        confidence: of the intervals, both together.
    """
    outside = scores[~members]
    if len(outside) < 4 / false_positive_rate or not members.any():
        raise EvaluationError(
            f"a false positive rate of {false_positive_rate:g} needs {4 / false_positive_rate:.0f} records that "
            f"were not used, and some that were; got {len(outside)} and {int(members.sum())}."
        )
    threshold = np.quantile(outside[::2], 1 - false_positive_rate)
    alpha = (1 - confidence) / 2
    accused, found = outside[1::2] > threshold, scores[members] > threshold
    worst_rate = _interval(int(accused.sum()), len(accused), alpha)[1]
    low, high = _interval(int(found.sum()), len(found), alpha)
    bound = largest_power(worst_rate, epsilon, delta)
    return MembershipResult(
        attack, float(accused.mean()), float(found.mean()), low, high, bound, bool(low > bound)
    )


def _interval(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    exact = stats.binomtest(hits, trials).proportion_ci(1 - alpha, method="exact")
    return float(exact.low), float(exact.high)
