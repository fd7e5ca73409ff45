"""Formal lower bounds on ε from one training run with many canaries.

Each canary was put into the data by an independent fair coin; the auditor scores every canary from the noisy
gradients alone and guesses the coins it is surest of. Too many right guesses contradict the claim:

* `one_run`: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023). Holds for any
  mechanism.
* `one_run_fdp`: Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run" (2024). Sharper,
  for trade-off curves of Gaussian shape, which composed private training approaches.

Both have a ceiling: even perfect guesses about m canaries prove no more than some ε. It is reported beside the bound,
because a low bound under a low ceiling is no evidence of safety.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from understudy.auditing.verdict import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from understudy.auditing.claims import Claim
    from understudy.auditing.readings import Floats

    Bound = Callable[[int, int, int, float, float], float]

__all__ = [
    "gaussian_epsilon",
    "likelihood_scores",
    "one_run",
    "one_run_bound",
    "one_run_fdp",
    "one_run_fdp_bound",
    "one_run_p_value",
]

_LARGEST = 60.0
_GUESS_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


def likelihood_scores(projections: Floats, sampling_rate: float, noise_multiplier: float) -> Floats:
    """Per canary, the log-likelihood ratio of "in the data, sampled at rate q" over "not in the data".

    Args:
        projections: rounds × canaries, in units of the sensitivity.
        sampling_rate: the claimed q.
        noise_multiplier: the claimed σ.
    """
    lift = (2 * projections - 1) / (2 * noise_multiplier**2)
    absent = math.log1p(-sampling_rate) if sampling_rate < 1 else -math.inf
    scores: Floats = np.logaddexp(absent, math.log(sampling_rate) + lift).sum(axis=0)
    return scores


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Probability of at least so many correct guesses if the run were (ε, δ)-private (Theorem 5.2 there)."""
    accuracy = float(special.expit(epsilon))
    tail = float(stats.binom.sf(correct - 1, guesses, accuracy))
    if delta == 0 or correct == 0:
        return min(tail, 1.0)
    near = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, accuracy))
    slack = float((near / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * delta * slack)


def one_run_bound(canaries: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """The largest ε that so many correct guesses contradict, with probability of error at most α."""
    return _largest(lambda epsilon: one_run_p_value(canaries, guesses, correct, epsilon, delta) < alpha)


def one_run_fdp_bound(canaries: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """The same with the sharper recursion, for Gaussian trade-off curves."""
    mu = _largest(lambda mu: _contradicts_gaussian(canaries, guesses, correct, mu, alpha))
    return gaussian_epsilon(mu, delta)


def _contradicts_gaussian(canaries: int, guesses: int, correct: int, mu: float, alpha: float) -> bool:
    """Whether μ-Gaussian privacy cannot give so many correct guesses with probability α.

    `right` and `wrong` are the shares of mass on guesses that are right and wrong. Starting from the mass α at
    `correct` right guesses, the curve forces mass at one right guess fewer, and so on. If more mass is forced than
    exists, the hypothesis is false.
    """
    right, wrong = alpha * correct / canaries, alpha * (guesses - correct) / canaries
    for count in range(correct - 1, -1, -1):
        forced = max(wrong, _wrong_at_least(right, mu))
        if forced == wrong and count < correct - 1:
            break
        right += count / (guesses - count) * (forced - wrong)
        wrong = forced
        if right + wrong > guesses / canaries:
            return True
    return False


def _wrong_at_least(right: float, mu: float) -> float:
    """The least mass of wrong guesses that the Gaussian trade-off allows beside this mass of right ones."""
    if right >= 1:
        return 1.0
    return float(special.ndtr(special.ndtri(right) - mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε at δ of μ-Gaussian differential privacy."""
    if mu <= 0:
        return 0.0

    def delta_at(epsilon: float) -> float:
        second = math.exp(min(epsilon + float(special.log_ndtr(-epsilon / mu - mu / 2)), 0.0))
        return float(special.ndtr(-epsilon / mu + mu / 2)) - second

    low, high = 0.0, 1.0
    if delta_at(0.0) <= delta:
        return 0.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return low


def _largest(contradicted: Callable[[float], bool]) -> float:
    """The largest value in [0, 60] that is contradicted, 0 if none is; contradiction is monotone."""
    if not contradicted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while contradicted(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if contradicted(middle) else (low, middle)
    return low


def _best(
    scores: Floats,
    inserted: NDArray[np.bool_],
    delta: float,
    alpha: float,
    bound: Bound,
) -> float:
    """The best bound over a fixed list of numbers of guesses; α is shared among them."""
    canaries = len(scores)
    order = np.argsort(scores, kind="stable")
    best = 0.0
    for share in _GUESS_SHARES:
        each = max(1, int(share * canaries / 2))
        correct = int(inserted[order[-each:]].sum()) + int((~inserted[order[:each]]).sum())
        best = max(best, bound(canaries, 2 * each, correct, delta, alpha / len(_GUESS_SHARES)))
    return best


@functools.lru_cache(maxsize=64)
def _ceiling(canaries: int, delta: float, alpha: float, bound: Bound) -> float:
    """The bound that perfect guesses about so many canaries would give."""
    perfect = np.arange(canaries) >= canaries // 2
    return _best(np.arange(canaries, dtype=np.float64), perfect, delta, alpha, bound)


def one_run(
    scores: Floats, inserted: NDArray[np.bool_], claim: Claim, rounds: int, alphas: tuple[float, float]
) -> Reading:
    """The formal reading that holds for any mechanism, against ε claimed for as many steps as were run.

    Args:
        scores: one per canary; larger means more likely in.
        inserted: which canaries were in the data.
        claim: what is claimed.
        rounds: how many steps were run.
        alphas: the probability of error of the bound that is shown, and of the one that fails a step.
    """
    return _reading("one-run", one_run_bound, scores, inserted, claim, rounds, alphas)


def one_run_fdp(
    scores: Floats, inserted: NDArray[np.bool_], claim: Claim, rounds: int, alphas: tuple[float, float]
) -> Reading:
    """The sharper formal reading, for Gaussian trade-off curves; arguments as of `one_run`."""
    return _reading("one-run-fdp", one_run_fdp_bound, scores, inserted, claim, rounds, alphas)


def _reading(
    name: str,
    bound: Bound,
    scores: Floats,
    inserted: NDArray[np.bool_],
    claim: Claim,
    rounds: int,
    alphas: tuple[float, float],
) -> Reading:
    claimed = claim.epsilon_with(claim.mechanism.noise_multiplier, rounds)
    shown = _best(scores, inserted, claim.delta, alphas[0], bound)
    strict = _best(scores, inserted, claim.delta, alphas[1], bound)
    ceiling = _ceiling(len(scores), claim.delta, alphas[0], bound)
    says = (
        f"guesses about {len(scores)} canaries prove ε ≥ {shown:.3g} for {rounds} steps (claimed {claimed:.3g}); "
        f"perfect guesses would prove {ceiling:.3g}."
    )
    outcome = Outcome.FAIL if strict > claimed else Outcome.PASS
    return Reading(name, outcome, shown, strict, _LARGEST, claimed, says, strict, ceiling)
