"""Instrumented readings: what the noisy gradients of the running step say when we know who was in the batch.

The auditor composes the batches, so for each canary and each round it knows whether the canary was in. The
projection of the noisy gradient on the canary's direction, in units of the claimed sensitivity, must then be
Gaussian with standard deviation σ (the claimed noise multiplier), moved by at most 1 when the canary is in.
Both numbers are measured with intervals; the unfavourable ends give the largest noise multiplier that the
observations allow, and the accountant turns that into a lower bound on ε. This tests the code, not an
adversary, and is far sharper than any membership attack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.auditing.verdict import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from understudy.auditing.claims import Claim

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

_HUGE = 1e9
_MOST_COORDINATES = 4096

__all__ = [
    "Applied",
    "Projections",
    "Spread",
    "applied_multiplier",
    "attack_direction",
    "divisor",
    "every_tensor",
    "every_tensor_of",
    "independence",
    "multiplier",
    "normality",
    "opposed",
    "project",
    "reuse",
    "separation",
    "variance",
]


@dataclass(frozen=True)
class Projections:
    """Noisy gradients projected on canaries, in units of the claimed sensitivity.

    Args:
        values: one row per round, one column per canary.
        included: whether that canary was in that round's batch.
        sizes: how many records each round's batch held.
        shared: one row per round: the coordinates that all records have in common (biases), same units.
        noise: one row per round: the noise of many coordinates, each of mean 0 and variance 1; None takes `values`.
    """

    values: Floats
    included: Bools
    sizes: NDArray[np.int64]
    shared: Floats
    noise: Floats | None = None

    def residuals(self) -> Floats:
        """Values minus the mean of their kind (in or out): what is left is the noise."""
        means = np.where(self.included, self.values[self.included].mean(), self.values[~self.included].mean())
        residuals: Floats = self.values - means
        return residuals


@dataclass(frozen=True)
class Spread:
    """The noise observed in one tensor: sum of squares (in claimed units) of `count` independent draws."""

    squares: float
    count: int


def attack_direction(blocks: Floats, included: Bools) -> Floats:
    """The unit vector in a canary's own coordinates that separates in from out best (Fisher's direction).

    Args:
        blocks: rounds × canaries × coordinates, the part of the gradient that belongs to each canary.
        included: rounds × canaries.

    Coordinates that carry less noise count more, so a tensor that was left without noise is found.
    """
    mean_in, mean_out = blocks[included].mean(axis=0), blocks[~included].mean(axis=0)
    means = np.where(included[..., None], mean_in, mean_out)
    spread = np.square(blocks - means).mean(axis=(0, 1))
    floor = max(1e-6 * float(spread.max()), 1e-30)
    weights = (mean_in - mean_out) / np.maximum(spread, floor)
    norm = float(np.linalg.norm(weights))
    if norm == 0 or not math.isfinite(norm):
        weights, norm = np.ones_like(weights), math.sqrt(weights.size)
    direction: Floats = weights / norm
    return direction


def project(blocks: Floats, shared: Floats, included: Bools, sizes: NDArray[np.int64]) -> Projections:
    """Project each half of the rounds on the direction learned from the other half.

    The direction is independent of the rounds it is applied to, so intervals keep their confidence.
    """
    half = _halves(len(blocks))
    values = np.empty(blocks.shape[:2])
    for mine, other in ((half, ~half), (~half, half)):
        values[mine] = blocks[mine] @ attack_direction(blocks[other], included[other])
    return Projections(values, included, sizes, shared, _coordinate_noise(blocks, included))


def _coordinate_noise(blocks: Floats, included: Bools) -> Floats:
    """The first few thousand coordinates around their means in and out, scaled to variance 1."""
    some = blocks[:, : max(1, _MOST_COORDINATES // blocks.shape[2])]
    here = included[:, : some.shape[1]]
    means = [some[mask].mean(axis=0) if mask.any() else 0.0 for mask in (here, ~here)]
    residuals = some - np.where(here[..., None], *means)
    noise: Floats = residuals / np.maximum(np.sqrt(np.square(residuals).mean(axis=(0, 1))), 1e-300)
    return noise.reshape(len(blocks), -1)


def _halves(rounds: int) -> Bools:
    """Rounds come in pairs with equal batches, and small and large batches alternate: keep all four together."""
    halves: Bools = np.arange(rounds) // 4 % 2 == 0
    return halves


@dataclass(frozen=True)
class _Separation:
    """Shift divided by noise, with the ends of its interval."""

    value: float
    low: float
    high: float


def separation(value: float, error: float, freedom: int, alpha: float) -> _Separation:
    """Interval of a shift divided by a standard deviation that was estimated from the same noise.

    The quotient follows a noncentral t distribution; this is its normal approximation (Abramowitz and Stegun
    26.7.10). Its lower end, which can fail a step, errs with less than α / 2 at any number of observations.

    Args:
        value: the estimated quotient.
        error: the standard error of the shift, in standard deviations.
        freedom: degrees of freedom of the standard deviation.
        alpha: the probability that either end errs.
    """
    centre = value * (1 - 1 / (4 * freedom))
    reach = float(stats.norm.ppf(1 - alpha / 2)) * math.hypot(error, value / math.sqrt(2 * freedom))
    return _Separation(value, max(0.0, centre - reach), max(0.0, centre + reach))


def _own_separation(projections: Projections, alpha: float) -> tuple[_Separation, float, float]:
    """How far a canary moves its own coordinates, in standard deviations; also the shift and the deviation."""
    inside, outside = projections.values[projections.included], projections.values[~projections.included]
    error = math.sqrt(inside.var(ddof=1) / inside.size + outside.var(ddof=1) / outside.size)
    shift = float(inside.mean() - outside.mean())
    deviation = _deviation(projections, alpha)[0]
    own = separation(max(0.0, shift) / deviation, error / deviation, projections.values.size - 2, alpha)
    return own, shift, deviation


def _shared_separation(projections: Projections, alpha: float) -> _Separation:
    """How far a canary moves the coordinates that all records share, in standard deviations.

    The others in the batch move them too, so the released values are regressed on how many canaries and how many
    ordinary records were in. The direction is learned from the other half of the rounds.
    """
    shared, rounds = projections.shared, len(projections.shared)
    if shared.shape[1] == 0:
        return _Separation(0.0, 0.0, 0.0)
    canaries = projections.included.sum(axis=1)
    design = np.column_stack([np.ones(rounds), canaries, projections.sizes - canaries]).astype(np.float64)
    half, projected = _halves(rounds), np.empty(rounds)
    for mine, other in ((half, ~half), (~half, half)):
        slope = np.linalg.lstsq(design[other], shared[other], rcond=None)[0][1]
        projected[mine] = shared[mine] @ slope / max(float(np.linalg.norm(slope)), 1e-300)
    coefficients = np.linalg.lstsq(design, projected, rcond=None)[0]
    freedom = rounds - design.shape[1]
    noise = math.sqrt(float(np.square(projected - design @ coefficients).sum()) / freedom)
    error = math.sqrt(float(np.linalg.inv(design.T @ design)[1, 1]))
    return separation(max(0.0, float(coefficients[1])) / max(noise, 1e-300), error, freedom, alpha)


def _deviation(projections: Projections, alpha: float) -> tuple[float, float, float]:
    """Standard deviation around the two means, with its two-sided chi-square interval."""
    residuals = projections.residuals()
    squares, freedom = float(np.square(residuals).sum()), residuals.size - 2
    low, high = (math.sqrt(squares / float(stats.chi2.ppf(p, freedom))) for p in (1 - alpha / 2, alpha / 2))
    return max(math.sqrt(squares / freedom), 1e-300), max(low, 1e-300), max(high, 1e-300)


@dataclass(frozen=True)
class Applied:
    """The noise multiplier really applied: estimate and interval, and the shift and noise it comes from."""

    value: float
    low: float
    high: float
    shift: float
    deviation: float


def applied_multiplier(projections: Projections, alpha: float) -> Applied:
    """The noise multiplier that the observations show, with an interval that errs with probability α at most."""
    own, shift, deviation = _own_separation(projections, alpha / 2)
    shared = _shared_separation(projections, alpha / 2)
    # Own and shared coordinates carry independent noise, so their separations add as squares. The shared part
    # counts only when it is there beyond doubt; otherwise its estimate is noise.
    there = shared.low > 0
    value, low, high = (
        1 / max(math.hypot(mine, theirs if there else 0.0), 1 / _HUGE)
        for mine, theirs in ((own.value, shared.value), (own.high, shared.high), (own.low, shared.low))
    )
    return Applied(value, low, high, shift, deviation)


def multiplier(
    projections: Projections, claim: Claim, alpha: float, resolution: float, *, seen_elsewhere: bool = False
) -> Reading:
    """The noise multiplier really applied, and the lower bound on ε that follows.

    Fails when even the largest multiplier that the observations allow is below the claim; passes only when even
    the smallest one is within `resolution` of the claim, and a record was seen to move the release at all (here,
    or elsewhere: in a microbatch many canaries drown each other); otherwise says how many canaries would decide.
    """
    sigma = claim.mechanism.noise_multiplier
    seen = applied_multiplier(projections, alpha)
    bound = claim.epsilon_with(seen.high)
    needed = None
    if seen.high < sigma:
        outcome = Outcome.FAIL
    elif (seen.high < _HUGE / 2 or seen_elsewhere) and seen.low >= (1 - resolution) * sigma:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
        needed = _canaries_to_decide(projections.values.shape[1], seen.value, seen.low, sigma, resolution)
    says = (
        f"one record moves the release by {seen.shift:.3f} and the noise is {seen.deviation:.4g} (claimed: at most "
        f"1, and {sigma:.4g}): noise multiplier between {seen.low:.4g} and {seen.high:.4g}, so ε ≥ {bound:.4g}."
    )
    return Reading(
        "multiplier", outcome, seen.value, seen.low, seen.high, sigma, says, bound, canaries_needed=needed
    )


def _canaries_to_decide(canaries: int, value: float, low: float, sigma: float, resolution: float) -> int:
    """Canaries at which a step that keeps its claim would pass: the interval shrinks with their root.

    A third is added to the width, because the estimate itself will lie beside the claim.
    """
    width = min(max(value, sigma), 2 * sigma) / max(low, 1e-9) - 1
    room = resolution / (1 - resolution)
    return max(canaries + 1, math.ceil(canaries * (4 / 3 * width / room) ** 2))


def variance(projections: Projections, claim: Claim, alpha: float) -> Reading:
    """Whether the noise has the claimed variance: the sharpest reading when the scale is known."""
    sigma = claim.mechanism.noise_multiplier
    deviation, low, high = _deviation(projections, alpha)
    wrong = high < sigma or low > sigma
    says = (
        f"standard deviation of the noise {deviation:.4g}, interval {low:.4g} to {high:.4g}, "
        f"claimed {sigma:.4g} ({100 * (deviation / sigma - 1):+.1f} %)."
    )
    return Reading("variance", _fails(wrong), deviation, low, high, sigma, says)


def opposed(values: Floats, present: Bools, claim: Claim, alpha: float) -> Reading:
    """How far one record can move the release when all others pull the other way.

    A rule that clips records one by one gives at most 1; one that clips averages or microbatches gives up to 2.

    Args:
        values: one projection per round, on the crowd's direction.
        present: whether the opposing record was in that round's batch.
        claim: what is claimed.
        alpha: the probability of a false alarm.
    """
    inside, outside = values[present], values[~present]
    shift = abs(float(outside.mean() - inside.mean()))
    error = math.sqrt(inside.var(ddof=1) / inside.size + outside.var(ddof=1) / outside.size)
    reach = float(stats.t.ppf(1 - alpha, min(inside.size, outside.size) - 1)) * error
    sigma = claim.mechanism.noise_multiplier
    bound = claim.epsilon_with(sigma / (shift - reach)) if shift > reach else None
    says = f"a record against the crowd moves the release by {shift:.3f} (at least {shift - reach:.3f}); allowed: 1."
    return Reading(
        "opposed", _fails(shift - reach > 1), shift, shift - reach, shift + reach, 1.0, says, bound
    )


def normality(projections: Projections, alpha: float) -> Reading:
    """Kolmogorov-Smirnov: whether the noise is Gaussian at all, whatever its scale."""
    residuals = projections.residuals().ravel()
    result = stats.kstest(residuals / max(residuals.std(), 1e-300), "norm")
    says = f"Kolmogorov-Smirnov distance from a Gaussian {result.statistic:.2g}, p = {result.pvalue:.2g}."
    wrong = bool(result.pvalue < alpha)
    return Reading("normality", _fails(wrong), float(result.statistic), 0.0, 1.0, 0.0, says)


def independence(projections: Projections, alpha: float, lag: int = 1) -> Reading:
    """Autocorrelation of the noise of one coordinate between a round and the next."""
    noise = _standard(projections)
    products = noise[:-lag] * noise[lag:]
    score = float(products.sum() / math.sqrt(products.size))
    reach = float(stats.norm.ppf(1 - alpha / 2))
    value, error = score / math.sqrt(products.size), 1 / math.sqrt(products.size)
    says = f"correlation of the noise of consecutive rounds {value:+.4f} (z = {score:+.1f}); claimed 0."
    return Reading(
        "independence",
        _fails(abs(score) > reach),
        value,
        value - reach * error,
        value + reach * error,
        0.0,
        says,
    )


def reuse(projections: Projections, alpha: float) -> Reading:
    """The largest correlation between the noise of any two rounds: finds a repeated draw at any distance."""
    noise = _standard(projections) if projections.noise is None else projections.noise
    rounds, count = noise.shape
    gram = noise @ noise.T / count
    worst = float(np.abs(gram[np.triu_indices(rounds, 1)]).max())
    tail = alpha / (rounds * (rounds - 1) / 2)
    # A product of two Gaussians has heavier tails than a Gaussian; this Bernstein limit covers a sum of them.
    log_term = math.log(2 / tail)
    limit = math.sqrt(2 * log_term / count) + log_term / count
    says = (
        f"largest correlation between the noise of two rounds {worst:.3f}; below {limit:.3f} without reuse."
    )
    return Reading("reuse", _fails(worst > limit), worst, 0.0, limit, 0.0, says)


def divisor(projections: Projections, alpha: float) -> Reading:
    """Whether noise has the same scale in small and in large batches, as a public divisor makes it."""
    noise = projections.residuals()
    large = projections.sizes > np.median(projections.sizes)
    small_part, large_part = noise[~large], noise[large]
    ratio = float(np.sqrt(small_part.var() / max(large_part.var(), 1e-300)))
    error = math.sqrt(0.5 / small_part.size + 0.5 / large_part.size)
    reach = float(stats.norm.ppf(1 - alpha / 2)) * error
    low, high = ratio * math.exp(-reach), ratio * math.exp(reach)
    says = f"noise in small batches is {ratio:.4f} times that in large ones (claimed: 1)."
    return Reading("divisor", _fails(low > 1 or high < 1), ratio, low, high, 1.0, says)


def every_tensor(spreads: Mapping[str, Spread], claim: Claim, alpha: float, name: str = "tensors") -> Reading:
    """Whether every tensor of the gradient carries at least the claimed noise; the worst one speaks."""
    return every_tensor_of("tensor", spreads, claim.mechanism.noise_multiplier, alpha, name)


def every_tensor_of(
    what: str, spreads: Mapping[str, Spread], sigma: float, alpha: float, name: str
) -> Reading:
    """The same for anything that has a name and should carry noise of deviation `sigma`."""
    tail = alpha / len(spreads)
    worst, worst_p, missing = "", 2.0, 1.0
    for one, spread in spreads.items():
        p = float(stats.chi2.cdf(spread.squares / sigma**2, spread.count))
        if p < worst_p:
            worst, worst_p = one, p
            missing = math.sqrt(spread.squares / spread.count) / sigma
    says = f"{what} {worst!r} carries {missing:.4g} of the claimed noise (p = {worst_p:.2g})."
    return Reading(name, _fails(worst_p < tail), missing, 0.0, missing, 1.0, says)


def _standard(projections: Projections) -> Floats:
    residuals = projections.residuals()
    standard: Floats = residuals / max(float(residuals.std()), 1e-300)
    return standard


def _fails(wrong: bool) -> Outcome:
    return Outcome.FAIL if wrong else Outcome.PASS
