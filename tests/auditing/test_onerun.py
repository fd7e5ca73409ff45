"""The formal one-run bounds: valid when there is nothing to find, useful when there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from understudy.auditing import onerun
from understudy.auditing.claims import Claim
from understudy.auditing.verdict import Outcome
from understudy.privacy.mechanisms import SubsampledGaussian

CLAIM = Claim(SubsampledGaussian(0.1, 3.3, 100), delta=1e-5)
ALPHAS = (0.05, 1e-5)


def test_null_scores_give_a_positive_bound_in_at_most_five_percent():
    """Scores without signal prove ε > 0 in at most 5 % of 200 draws, by either bound."""
    rng = np.random.default_rng(0)
    positive = np.zeros(2)
    for _ in range(200):
        scores, inserted = rng.standard_normal(400), rng.random(400) < 0.5
        for i, reading in enumerate((onerun.one_run, onerun.one_run_fdp)):
            positive[i] += reading(scores, inserted, CLAIM, 100, ALPHAS).value > 0
    assert (positive <= 10).all(), positive


@pytest.mark.parametrize("bound", [onerun.one_run_bound, onerun.one_run_fdp_bound])
def test_bounds_are_valid_for_a_mechanism_of_known_epsilon(bound):
    """For a Gaussian mechanism of known ε, a 95 % bound exceeds it in at most 5 % of 200 runs."""
    rng = np.random.default_rng(1)
    mu, delta, m = 1.0, 1e-5, 300
    truth = onerun.gaussian_epsilon(mu, delta)
    exceeded = 0
    for _ in range(200):
        inserted = rng.random(m) < 0.5
        scores = rng.standard_normal(m) + mu * inserted
        order = np.argsort(scores)
        correct = int(inserted[order[-60:]].sum() + (~inserted[order[:60]]).sum())
        exceeded += bound(m, 120, correct, delta, 0.05) > truth
    assert exceeded <= 10


def test_randomised_response_is_bounded_at_its_epsilon():
    """The p-value at the true ε of randomised response is that of the binomial, and the bound nearly reaches ε."""
    epsilon, m = 1.0, 2000
    accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
    correct = round(accuracy * m)
    assert onerun.one_run_p_value(m, m, correct, epsilon, 0.0) == pytest.approx(
        float(stats.binom.sf(correct - 1, m, accuracy))
    )
    assert 0.85 < onerun.one_run_bound(m, m, correct, 0.0, 0.05) < 1.0


def test_the_delta_term_of_the_p_value_is_what_the_theorem_says():
    """The vectorised δ term equals the maximum over i computed one by one."""
    m, r, v, epsilon, delta = 60, 30, 24, 0.5, 1e-3
    accuracy = 1 / (1 + math.exp(-epsilon))
    slack = max(
        sum(stats.binom.pmf(v - j, r, accuracy) for j in range(1, i + 1)) / i for i in range(1, v + 1)
    )
    expected = stats.binom.sf(v - 1, r, accuracy) + 2 * m * delta * slack
    assert onerun.one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected)


def test_fdp_is_sharper_and_both_stay_below_their_ceiling():
    """On separated scores the f-DP bound is the larger, and neither passes its ceiling."""
    rng = np.random.default_rng(2)
    inserted = rng.random(1000) < 0.5
    scores = rng.standard_normal(1000) + 3 * inserted
    plain = onerun.one_run(scores, inserted, CLAIM, 100, ALPHAS)
    sharp = onerun.one_run_fdp(scores, inserted, CLAIM, 100, ALPHAS)
    assert plain.ceiling is not None
    assert sharp.ceiling is not None
    assert 1 < plain.value < plain.ceiling
    assert plain.value < sharp.value < sharp.ceiling
    assert sharp.outcome is Outcome.FAIL


def test_likelihood_ratio_beats_the_plain_sum():
    """With rare sampling the likelihood ratio orders canaries better than the sum of projections."""
    rng = np.random.default_rng(3)
    inserted = rng.random(4000) < 0.5
    sampled = inserted & (rng.random((200, 4000)) < 0.05)
    values = 1.0 * rng.standard_normal(sampled.shape) + sampled
    ratio = onerun.likelihood_scores(values, 0.05, 1.0)

    def auc(scores):
        return stats.mannwhitneyu(scores[inserted], scores[~inserted]).statistic / (
            inserted.sum() * (~inserted).sum()
        )

    assert auc(ratio) > auc(values.sum(axis=0)) + 0.01


def test_gaussian_epsilon_matches_the_closed_form():
    """δ recomputed from ε by the closed form of Gaussian privacy is the δ that was asked for."""
    for mu in (0.3, 1.0, 4.0):
        epsilon = onerun.gaussian_epsilon(mu, 1e-5)
        delta = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(
            -epsilon / mu - mu / 2
        )
        assert delta == pytest.approx(1e-5, rel=1e-4)
