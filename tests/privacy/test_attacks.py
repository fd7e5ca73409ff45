"""The bound on membership attacks, against the closed form of the Gaussian mechanism."""

from __future__ import annotations

import pytest
from scipy.stats import norm

from understudy.errors import BudgetError
from understudy.privacy.accounting import select_best
from understudy.privacy.attacks import attack_curve, true_positive_rate
from understudy.privacy.budget import Adjacency
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian


def gaussian(sigma: float) -> list[Charge]:
    """One release of a noisy vector."""
    return [Charge("release", GaussianRelease(sigma))]


@pytest.mark.parametrize("sigma", [0.7, 2.0, 10.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_gaussian_trade_off(sigma: float, adjacency: Adjacency) -> None:
    """For one Gaussian release the bound is the power of the most powerful test, Φ(Φ⁻¹(a) + μ)."""
    shift = (1 if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 2) / sigma
    for point in attack_curve(gaussian(sigma), adjacency=adjacency):
        exact = norm.cdf(norm.ppf(point.false_positive_rate) + shift)
        assert exact * 0.9999 <= point.true_positive_rate <= exact * 1.005 + 1e-6


def test_a_real_attack_stays_below_the_bound() -> None:
    """The likelihood-ratio attack on simulated runs reaches no more than the bound, and comes near it."""
    import numpy as np

    rng = np.random.default_rng(5)
    q, sigma, steps, runs = 0.2, 2.0, 60, 40_000

    def scores(member: bool) -> np.ndarray:
        views = rng.normal(0, sigma, (runs, steps))
        if member:
            views += rng.random((runs, steps)) < q
        return np.log1p(q * np.expm1((2 * views - 1) / (2 * sigma**2))).sum(axis=1)

    threshold = np.quantile(scores(False), 0.95)
    power = float(np.mean(scores(True) > threshold))
    bound = true_positive_rate([Charge("training", SubsampledGaussian(q, sigma, steps))], 0.05)
    assert power - 0.01 <= bound <= power + 0.02


def test_limits() -> None:
    """Nothing drawn gives the attacker nothing; no noise gives everything; a choice of runs is covered."""
    assert true_positive_rate([], 0.01) == 0.01
    assert true_positive_rate([Charge("training", SubsampledGaussian(0.1, 0.0, 3))], 0.01) == 1.0
    alone = true_positive_rate(gaussian(3.0), 0.01)
    assert alone < true_positive_rate(select_best(gaussian(3.0), 10), 0.01) < 1.0


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_rates_are_probabilities(rate: float) -> None:
    """A false positive rate that is no probability is refused."""
    with pytest.raises(BudgetError, match="false positive rate"):
        true_positive_rate(gaussian(1.0), rate)
