"""Counts above a threshold: what one person alone has stays hidden but for δ, and both accountants know that δ."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from understudy.errors import BudgetError, PlanError
from understudy.privacy import pld, renyi
from understudy.privacy.accounting import loss_profile, select_best, spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.calibration import noise_for
from understudy.privacy.mechanisms import Charge, GaussianRelease, GaussianThreshold

SETTINGS = [(0.7, 0.05), (3.0, 1e-3), (9.0, 1e-6), (30.0, 1e-9)]


def partitions(rows: int, largest: int | None = None) -> list[tuple[int, ...]]:
    """All ways in which the rows of a person can be spread over values."""
    if rows == 0:
        return [()]
    return [
        (first, *rest)
        for first in range(min(rows, largest or rows), 0, -1)
        for rest in partitions(rows - first, first)
    ]


@pytest.mark.parametrize(("sigma", "delta"), SETTINGS)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_what_one_person_alone_has_is_published_with_at_most_delta(
    sigma: float, delta: float, rows: int
) -> None:
    """However the vote of a person is spread over values of their own, the chance that any shows is at most δ."""
    threshold = GaussianThreshold(sigma, delta).threshold(rows)
    for spread in partitions(rows):
        shown = -math.expm1(sum(norm.logcdf((threshold - count / rows) / sigma) for count in spread))
        assert shown <= delta * (1 + 1e-9)
    assert norm.sf((threshold - 1) / sigma) * rows == pytest.approx(
        delta, rel=1e-6
    )  # no higher than it must be


@pytest.mark.parametrize(("sigma", "delta"), SETTINGS)
def test_a_lower_threshold_would_break_the_promise(sigma: float, delta: float) -> None:
    """One that forgets the person's own vote, or that there may be several values of their own, shows too much."""
    unshifted = GaussianThreshold(sigma, delta).threshold() - 1
    assert norm.sf((unshifted - 1) / sigma) > delta
    many, single = 500, GaussianThreshold(sigma, delta).threshold()
    assert -math.expm1(many * norm.logcdf((single - 1 / many) / sigma)) > delta


def divergences(sigma: float, shown: float, epsilon: float) -> tuple[float, float]:
    """The exact δ at ε, both ways, of a row that adds to a known count, and has another value alone.

    With the row, the noisy count is N(1, σ²), and its own value shows with some probability, which settles it; without,
    the count is N(0, σ²) and the value never shows.
    """

    def gaussian(at: float) -> float:
        return float(norm.cdf(0.5 / sigma - at * sigma) - math.exp(at) * norm.cdf(-0.5 / sigma - at * sigma))

    hidden = math.log1p(-shown)
    return shown + (1 - shown) * gaussian(epsilon - hidden), gaussian(epsilon + hidden)


@pytest.mark.parametrize(("sigma", "shown"), [(1.0, 1e-3), (3.0, 1e-6), (2.0, 0.2)])
def test_the_accountants_cover_the_exact_divergence(sigma: float, shown: float) -> None:
    """At every ε of the profile the stated δ is no less than that of the worst pair, either way."""
    charges = [Charge("known", GaussianRelease(sigma)), Charge("own", GaussianThreshold(1e6, shown))]
    for epsilon, stated in loss_profile(charges)[:360:40]:
        assert max(divergences(sigma, shown, epsilon)) <= stated * (1 + 1e-6)
        assert max(divergences(sigma, shown, epsilon)) <= renyi.rdp_delta(
            tuple(charges), epsilon, Adjacency.ADD_OR_REMOVE_ONE
        )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_delta_is_taken_off_once_by_both_accountants(adjacency: Adjacency) -> None:
    """Two thresholds cost what Gaussian releases cost at the δ that they leave."""
    sigma, delta, own = 4.0, 1e-5, 2e-6
    thresholds = [Charge(name, GaussianThreshold(sigma, own)) for name in "ab"]
    plain = [Charge("both", GaussianRelease(sigma, 2))]
    cost, beside = spent(thresholds, delta, adjacency), spent(plain, delta - 2 * own, adjacency)
    assert cost.epsilon == pytest.approx(beside.epsilon, rel=1e-3)
    assert cost.epsilon_rdp == pytest.approx(beside.epsilon_rdp, rel=1e-9)
    assert cost.epsilon > spent(plain, delta, adjacency).epsilon
    assert cost.delta == delta


def test_an_accountant_that_forgets_the_delta_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the δ of thresholds left out of either accountant, its figure falls below the exact one."""
    sigma, shown, charges = 2.0, 0.01, (Charge("own", GaussianThreshold(2.0, 0.01)),)
    epsilon = 1.5
    exact = max(divergences(sigma, shown, epsilon))
    forgetful = norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )
    assert forgetful < exact
    honest = pld.epsilon_by_pld(charges, exact, Adjacency.ADD_OR_REMOVE_ONE, 1e-4)
    assert honest >= epsilon * (1 - 1e-3)
    monkeypatch.setattr(renyi, "threshold_delta", lambda _: 0.0)
    assert renyi.rdp_epsilon(charges, 0.009, Adjacency.ADD_OR_REMOVE_ONE, renyi.WHOLE_ORDERS) < math.inf
    monkeypatch.undo()
    assert renyi.rdp_epsilon(charges, 0.009, Adjacency.ADD_OR_REMOVE_ONE, renyi.WHOLE_ORDERS) == math.inf


def test_thresholds_that_take_all_of_delta_leave_nothing() -> None:
    """No noise fits a budget whose δ the thresholds spend already."""
    with pytest.raises(BudgetError, match="other charges alone"):
        noise_for(
            lambda sigma: [
                Charge("own", GaussianThreshold(50.0, 2e-5)),
                Charge("rest", GaussianRelease(sigma)),
            ],
            Budget(1.0, 1e-5),
        )


def test_a_choice_among_runs_with_thresholds_is_refused() -> None:
    """The theorem about choosing knows no δ of a run."""
    with pytest.raises(PlanError, match="discover them in one run"):
        select_best([Charge("own", GaussianThreshold(5.0, 1e-6))], 5.0)


@pytest.mark.parametrize(
    ("sigma", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 0.6), (1.0, 1e-15)]
)
def test_a_threshold_that_protects_nothing_is_refused(sigma: float, delta: float) -> None:
    """No noise, no δ, or a δ beyond the tails of the noise."""
    with pytest.raises(PlanError):
        GaussianThreshold(sigma, delta)
