"""What the two accountants say, against published figures and independent mathematics."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import dp_accounting
import dp_accounting.rdp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from understudy.errors import BudgetError, PlanError
from understudy.privacy import accounting, pld
from understudy.privacy.accounting import (
    Accountant,
    epsilon_curve,
    loss_profile,
    rough_epsilon,
    select_best,
    spent,
)
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    RunCount,
    Selection,
    SubsampledGaussian,
)
from understudy.privacy.renyi import epsilon_by_rdp

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = 1e-5
ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def training(q: float, sigma: float, steps: int, **more: Any) -> list[Charge]:
    """One training run."""
    return [Charge("training", SubsampledGaussian(q, sigma, steps, **more))]


def gaussian(sigma: float, count: int = 1) -> list[Charge]:
    """Some releases of a noisy vector."""
    return [Charge("release", GaussianRelease(sigma, count))]


# ---------------------------------------------------------------- independent oracles


def analytic_gaussian(sigma: float, delta: float) -> float:
    """The exact ε of one Gaussian release (Balle and Wang, 2018, theorem 8)."""

    def excess(epsilon: float) -> float:
        first = stats.norm.cdf(0.5 / sigma - epsilon * sigma)
        second = stats.norm.logcdf(-0.5 / sigma - epsilon * sigma)
        return float(first - math.exp(epsilon + second)) - delta

    return float(optimize.brentq(excess, 0, 500, xtol=1e-12))


def integrated_delta(q: float, sigma: float, epsilon: float) -> float:
    """δ(ε) of one Poisson-sampled Gaussian step by numerical integration of the hockey stick, both ways."""

    def base(x: float) -> float:
        return float(stats.norm.pdf(x, 0, sigma))

    def mixed(x: float) -> float:
        return (1 - q) * base(x) + q * float(stats.norm.pdf(x, 1, sigma))

    def stick(p: Callable[[float], float], r: Callable[[float], float]) -> float:
        def integrand(x: float) -> float:
            return max(0.0, p(x) - math.exp(epsilon) * r(x))

        edges = [-14 * sigma, -4 * sigma, 0.0, 1.0, 4 * sigma, 14 * sigma + 1]
        pieces = (
            integrate.quad(integrand, a, b, limit=1000, epsabs=1e-13)[0]
            for a, b in itertools.pairwise(sorted(edges))
        )
        return float(sum(pieces))

    return max(stick(mixed, base), stick(base, mixed))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("count", [1, 3])
def test_gaussian_release_equals_closed_form(sigma: float, count: int) -> None:
    """Releases of a vector cost what the analytic Gaussian mechanism says, T of them as one with σ/√T."""
    exact = analytic_gaussian(sigma / math.sqrt(count), DELTA)
    assert exact <= spent(gaussian(sigma, count), DELTA).epsilon <= exact * 1.002 + 1e-4


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_full_batches_equal_closed_form(steps: int) -> None:
    """Sampling everybody is the plain Gaussian mechanism, and T steps are T steps: not one more or less."""
    exact = analytic_gaussian(3.0 / math.sqrt(steps), DELTA)
    assert exact <= spent(training(1.0, 3.0, steps), DELTA).epsilon <= exact * 1.002 + 1e-4


def test_replace_one_is_exactly_twice_the_shift() -> None:
    """Under replace-one the two means are two sensitivities apart: the ε of half the noise multiplier."""
    cost = spent(gaussian(4.0), DELTA, REPLACE)
    assert cost.epsilon == pytest.approx(analytic_gaussian(2.0, DELTA), rel=2e-3)
    assert cost.epsilon_replace_one == cost.epsilon
    assert cost.epsilon_rdp is not None
    assert cost.epsilon_rdp >= cost.epsilon


@pytest.mark.parametrize(("q", "sigma"), [(0.01, 0.6), (0.1, 1.0), (0.5, 2.0)])
def test_one_sampled_step_equals_numerical_integration(q: float, sigma: float) -> None:
    """δ at the certified ε of one sampled step, integrated numerically, is just below the δ asked for."""
    epsilon = spent(training(q, sigma, 1), DELTA).epsilon
    assert integrated_delta(q, sigma, epsilon) <= DELTA
    assert integrated_delta(q, sigma, epsilon * 0.995) > DELTA


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "pld", "rdp", "replaced"),
    [
        (0.01, 1.15, 24_900, 8.1651, 8.8019, 15.63),
        (32 / 3772, 1.15, 5_894, 2.9698, 3.2385, 5.309),
        (128 / 60_000, 0.8, 18_760, 2.4435, 2.7731, 3.772),
        (128 / 60_000, 1.0, 18_760, 1.524, 1.676, 2.593),
    ],
)
def test_golden_values(
    q: float, sigma: float, steps: int, pld: float, rdp: float, replaced: float | None
) -> None:
    """The settings of published runs cost what a grid of 1e-4 gave, up to one part in 5 000, never less."""
    cost = spent(training(q, sigma, steps), DELTA)
    assert pld * 0.9997 <= cost.epsilon <= pld * 1.0005
    assert cost.epsilon_rdp == pytest.approx(rdp, rel=4e-4)
    if replaced is not None:
        assert cost.epsilon_replace_one == pytest.approx(replaced, rel=3e-3)


def test_many_steps_are_not_worse_than_rdp() -> None:
    """The grid shrinks as steps grow: a grid of 1e-3 would say 5.64 here, where 4.63 is true."""
    cost = spent(training(64 / 60_000, 1.75, 2_500_000), DELTA)
    assert cost.epsilon == pytest.approx(4.63, abs=0.005)
    assert cost.epsilon_rdp == pytest.approx(4.995, abs=0.01)


def test_inside_the_prv_interval() -> None:
    """prv-accountant, a third method by other authors, brackets the certified ε."""
    prv = pytest.importorskip("prv_accountant", reason="prv-accountant is not installed")
    mechanism = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=1.0, sampling_probability=0.01)
    accountant = prv.PRVAccountant(
        prvs=[mechanism], max_self_compositions=[1000], eps_error=0.02, delta_error=1e-9
    )
    lower, _, upper = accountant.compute_epsilon(delta=DELTA, num_self_compositions=[1000])
    assert lower <= spent(training(0.01, 1.0, 1000), DELTA).epsilon <= upper


def test_rdp_equals_opacus() -> None:
    """The second opinion is the one that Opacus computes with its own code."""
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp", reason="opacus is not installed")
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64))
    curve = rdp.compute_rdp(q=0.01, noise_multiplier=1.15, steps=24_900, orders=orders)
    theirs, _ = rdp.get_privacy_spent(orders=orders, rdp=curve, delta=DELTA)
    assert spent(training(0.01, 1.15, 24_900), DELTA).epsilon_rdp == pytest.approx(theirs, abs=1e-3)


# ---------------------------------------------------------------- contracts of both accountants


def by_pld(charges: list[Charge], delta: float, adjacency: Adjacency) -> float:
    """ε by PLD alone, on a coarse grid."""
    return pld.epsilon_by_pld(tuple(charges), delta, adjacency, 1e-3)


BOTH = pytest.mark.parametrize("epsilon", [by_pld, rough_epsilon], ids=["pld", "rdp"])
EITHER = pytest.mark.parametrize("adjacency", [ADD, REPLACE])


@BOTH
@EITHER
def test_more_steps_cost_more(epsilon: Callable[..., float], adjacency: Adjacency) -> None:
    """ε grows with T, by less than in proportion."""
    costs = [epsilon(training(0.02, 1.0, steps), DELTA, adjacency) for steps in (100, 400, 1600)]
    assert costs == sorted(costs)
    assert costs[2] < 16 * costs[0]


@BOTH
@EITHER
def test_more_noise_costs_less(epsilon: Callable[..., float], adjacency: Adjacency) -> None:
    """ε falls as σ grows."""
    costs = [epsilon(training(0.02, sigma, 400), DELTA, adjacency) for sigma in (0.7, 1.0, 2.0)]
    assert costs == sorted(costs, reverse=True)


@BOTH
@EITHER
def test_rarer_sampling_costs_less(epsilon: Callable[..., float], adjacency: Adjacency) -> None:
    """ε falls with q: amplification by sampling."""
    costs = [epsilon(training(q, 1.0, 400), DELTA, adjacency) for q in (0.005, 0.02, 0.08)]
    assert costs == sorted(costs)


@BOTH
def test_replacing_costs_more_than_adding(epsilon: Callable[..., float]) -> None:
    """Replace-one is the stronger promise, so the same mechanism costs more, about twice as much."""
    charges = training(0.02, 1.0, 400)
    add, replaced = (epsilon(charges, DELTA, adjacency) for adjacency in (ADD, REPLACE))
    assert add < replaced < 3 * add


@BOTH
def test_smaller_delta_costs_more(epsilon: Callable[..., float]) -> None:
    """A smaller probability of failure costs a larger ε."""
    costs = [epsilon(training(0.02, 1.0, 400), delta, ADD) for delta in (1e-4, 1e-6, 1e-8)]
    assert costs == sorted(costs)


@BOTH
def test_composition_does_not_depend_on_how_it_is_written(epsilon: Callable[..., float]) -> None:
    """300 + 100 steps in either order cost what 400 steps cost."""
    whole = epsilon(training(0.02, 1.0, 400), DELTA, ADD)
    parts = training(0.02, 1.0, 300) + training(0.02, 1.0, 100)
    assert epsilon(parts, DELTA, ADD) == pytest.approx(whole, rel=1e-3)
    assert epsilon(parts[::-1], DELTA, ADD) == pytest.approx(whole, rel=1e-3)


def test_composition_is_not_a_sum() -> None:
    """Two runs at ε = 3 cost clearly less than 6 together, and more than either alone."""
    one = spent(training(0.02, 1.0, 1500), DELTA).epsilon
    two = spent(training(0.02, 1.0, 1500) * 2, DELTA).epsilon
    assert one < two < 1.7 * one


@settings(max_examples=10, deadline=None)
@given(
    q=st.floats(1e-3, 1.0),
    sigma=st.floats(0.5, 20),
    steps=st.integers(1, 1000),
    delta=st.floats(1e-9, 1e-3),
    adjacency=st.sampled_from([ADD, REPLACE]),
)
def test_the_accountants_agree_everywhere(
    q: float, sigma: float, steps: int, delta: float, adjacency: Adjacency
) -> None:
    """No ordinary setting is refused, and RDP is the looser bound."""
    cost = spent(training(q, sigma, steps), delta, adjacency)
    assert cost.epsilon_rdp is not None
    assert 0 <= cost.epsilon <= cost.epsilon_rdp * 1.001 + 5e-3


# ---------------------------------------------------------------- edges and refusals


def test_nothing_drawn_costs_nothing() -> None:
    """No charges, or zero steps, cost ε = 0."""
    for charges in ([], training(0.1, 1.0, 0), gaussian(1.0, 0)):
        assert spent(charges, DELTA).epsilon == 0


def test_no_noise_costs_everything() -> None:
    """A step without noise has no finite ε and fits no budget."""
    cost = spent(training(0.1, 0.0, 1), DELTA)
    assert cost.epsilon == math.inf
    assert not cost.fits(Budget(1e6, DELTA))


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_is_a_probability(delta: float) -> None:
    """A δ that is no probability is refused."""
    with pytest.raises(BudgetError, match="delta"):
        spent(gaussian(1.0), delta)


def test_budgets_of_another_kind_are_not_compared() -> None:
    """An ε at one δ says nothing about a budget at another δ, or with other neighbours."""
    cost = spent(gaussian(5.0), DELTA)
    assert cost.fits(Budget(2.0, DELTA))
    with pytest.raises(BudgetError, match="cannot compare"):
        cost.fits(Budget(2.0, 1e-6))
    with pytest.raises(BudgetError, match="cannot compare"):
        cost.fits(Budget(2.0, DELTA, REPLACE))


def test_there_is_no_clipping_bound_to_get_wrong() -> None:
    """ε cannot depend on a clipping bound: no mechanism has a field for one."""
    names = {
        field.name
        for cls in (SubsampledGaussian, GaussianRelease, Selection)
        for field in dataclasses.fields(cls)
    }
    assert names == {
        *("sampling_rate", "noise_multiplier", "steps", "batch_cap", "rows"),
        *("count", "charges", "mean_runs", "runs", "others"),
    }


@pytest.mark.parametrize(("factor", "message"), [(0.5, "contradict"), (50.0, "too far apart")])
def test_disagreement_is_refused(
    factor: float, message: str, monkeypatch: pytest.MonkeyPatch, forget: Callable[[], None]
) -> None:
    """If RDP falls below PLD, or far above it, nothing is certified."""
    honest = accounting.epsilon_by_rdp
    monkeypatch.setattr(accounting, "epsilon_by_rdp", lambda *args: factor * (honest(*args) or 0))
    forget()
    with pytest.raises(BudgetError, match=message):
        spent(training(0.01, 1.15, 5000), DELTA)
    forget()


def test_curve_falls_with_delta() -> None:
    """The (ε, δ) curve is certified point by point."""
    curve = epsilon_curve(training(0.02, 1.0, 400), [1e-7, 1e-5, 1e-3])
    assert [cost.delta for cost in curve] == [1e-7, 1e-5, 1e-3]
    assert curve[0].epsilon > curve[1].epsilon > curve[2].epsilon


def test_loss_profile_holds_the_certified_pair() -> None:
    """δ falls along the profile, and at the certified ε it is the δ that was asked for."""
    charges = training(0.02, 1.0, 400)
    profile = loss_profile(charges)
    deltas = [delta for _, delta in profile]
    assert deltas == sorted(deltas, reverse=True)
    epsilon = spent(charges, DELTA).epsilon
    below = [delta for at, delta in profile if at >= epsilon * 1.01]
    assert below[0] <= DELTA * 1.01


# ---------------------------------------------------------------- capped batches


def test_a_generous_cap_is_free() -> None:
    """A cap ten deviations above the mean batch changes nothing, and RDP still vouches for it."""
    free = spent(training(0.01, 1.15, 24_900), DELTA)
    capped = spent(training(0.01, 1.15, 24_900, batch_cap=850, rows=60_000), DELTA)
    assert capped.epsilon == pytest.approx(free.epsilon, rel=1e-4)
    assert capped.epsilon_rdp == pytest.approx(free.epsilon_rdp, rel=1e-4)
    assert capped.epsilon_rdp > free.epsilon_rdp  # type: ignore[operator]  # a thousandth of δ is kept for cuts


def test_a_tight_cap_is_charged_and_has_no_second_opinion() -> None:
    """A cap that cuts batches costs more; RDP does not describe it, and the result says so."""
    capped = spent(training(0.01, 1.15, 24_900, batch_cap=640, rows=60_000), DELTA)
    assert capped.epsilon == pytest.approx(14.38, abs=0.1)
    assert capped.epsilon_rdp is None


# ---------------------------------------------------------------- choosing the best of several runs


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(RunCount.LOGARITHMIC, 12.77), (RunCount.GEOMETRIC, 14.06), (RunCount.POISSON, 17.42)],
)
def test_choosing_the_best_is_charged(runs: RunCount, expected: float) -> None:
    """Publishing the best of ten runs on average costs what the bound of arXiv 2110.03620 gives, by RDP."""
    cost = spent(select_best(training(0.01, 1.15, 24_900), 10, runs), DELTA)
    assert cost.epsilon == pytest.approx(expected, abs=0.01)
    assert cost.certified_by is Accountant.RDP
    assert cost.epsilon_replace_one is not None
    assert cost.epsilon_replace_one > cost.epsilon


def test_runs_that_cost_differently_are_charged_by_the_worst_at_each_order() -> None:
    """Theorem 2 written out for a mixture of runs; the dearest run alone, a likely slip, would be too little."""
    runs = [tuple(training(0.01, 1.15, 24_900)), tuple(training(0.02, 2.0, 24_900))]
    orders = [1 + x / 10 for x in range(1, 100)] + [float(x) for x in range(12, 64)]
    curves = []
    for run in runs:
        accountant = dp_accounting.rdp.RdpAccountant(orders)
        accountant.compose(run[0].mechanism.event())
        curves.append(accountant.rdp)
    worst = np.maximum(*curves)
    alpha = np.array(orders)
    constant = 2 * np.min((1 - 1 / alpha) * worst + math.log(10) / alpha)
    chosen = worst + math.log(10) / (alpha - 1) + constant
    expected = dp_accounting.rdp.compute_epsilon(orders, chosen, DELTA)[0]
    found = spent(select_best(runs[0], 10, others=runs), DELTA).epsilon
    assert found == pytest.approx(expected, abs=0.01)
    assert found > max(spent(select_best(run, 10), DELTA).epsilon for run in runs) + 0.03


def test_a_choice_among_equal_runs_is_the_events_own() -> None:
    """With one setting, our path through the theorem gives what the library's accountant gives for its event."""
    charge = select_best(training(0.01, 1.15, 1000), 5, others=[training(0.01, 1.15, 1000)])[0]
    accountant = dp_accounting.rdp.RdpAccountant(
        list(dp_accounting.rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS)
    )
    accountant.compose(charge.mechanism.event())
    assert spent((charge,), DELTA).epsilon == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-9)
    mixed = select_best(training(0.01, 1.15, 1000), 5, others=[training(0.01, 1.15, 2000)])[0]
    with pytest.raises(PlanError, match="no single event"):
        mixed.mechanism.event()


def test_equal_runs_are_composed_together() -> None:
    """Two runs of one mechanism cost exactly what one run of twice the steps does, and so do two equal releases."""
    twice = [*training(0.01, 1.15, 500), Charge("count", GaussianRelease(9.0))] * 2
    once = [*training(0.01, 1.15, 1000), Charge("count", GaussianRelease(9.0, 2))]
    assert spent(twice, DELTA) == spent(once, DELTA)
    assert spent([*twice, *training(0.01, 1.2, 500)], DELTA).epsilon > spent(once, DELTA).epsilon


@pytest.mark.parametrize("steps", [1000, 100_000])
def test_cuts_that_rdp_ignores_cost_less_than_what_is_kept_for_them(steps: int) -> None:
    """Cuts that happen with probability t cost t·(1 + e^ε) of δ; at a large ε a cap must be the more generous."""

    def cost(cap: int) -> float | None:
        charges = training(0.01, 1.0, steps, batch_cap=cap, rows=60_000)
        return epsilon_by_rdp(select_best(charges, 4), DELTA, ADD)

    costs = {cap: cost(cap) for cap in range(700, 1000, 5)}
    taken = [cap for cap, found in costs.items() if found is not None]
    assert taken == list(range(min(taken), 1000, 5))
    for cap in taken:
        cuts = 4 * steps * stats.binom.sf(cap, 60_000, 0.01)
        assert cuts * (1 + math.exp(costs[cap])) <= DELTA / 1000  # type: ignore[arg-type]
    uncut = epsilon_by_rdp(select_best(training(0.01, 1.0, steps), 4), 0.999 * DELTA, ADD)
    assert costs[min(taken)] == pytest.approx(uncut, rel=1e-9)


def test_choosing_among_cut_batches_is_refused() -> None:
    """No accountant covers a choice among runs whose batches are often cut."""
    charges = select_best(training(0.01, 1.15, 1000, batch_cap=610, rows=60_000), 10)
    with pytest.raises(BudgetError, match="batch cap"):
        spent(charges, DELTA)
