"""How much noise a budget needs and how many steps it allows: inverse to the accountant, on the safe side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError
from understudy.privacy.accounting import spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.calibration import noise_for, steps_for
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = 1e-5
HISTOGRAM = Charge("label histogram", GaussianRelease(20.0))


def at_noise(q: float, steps: int) -> Callable[[float], list[Charge]]:
    """A run whose σ is open."""
    return lambda sigma: [HISTOGRAM, Charge("training", SubsampledGaussian(q, sigma, steps))]


def at_steps(q: float, sigma: float) -> Callable[[int], list[Charge]]:
    """A run whose T is open."""
    return lambda steps: [Charge("training", SubsampledGaussian(q, sigma, steps))]


@pytest.mark.parametrize(
    ("q", "sigma", "epsilon", "expected"),
    [
        (0.01, 1.15, 9.6, 32_616),
        (0.01, 1.15, 3.0, 4_276),
        (0.01, 1.15, 1.0, 506),
        (32 / 3772, 1.15, 3.7, 8_775),
        (256 / 49_000, 1.0859, 4.0, 22_732),
    ],
)
def test_steps_of_published_settings(q: float, sigma: float, epsilon: float, expected: int) -> None:
    """The steps that published settings allow are found to within 3 in 1 000, and never more."""
    steps = steps_for(at_steps(q, sigma), Budget(epsilon, DELTA))
    assert expected * 0.997 <= steps <= expected * 1.0003


@pytest.mark.parametrize(("steps", "epsilon"), [(1, 2.0), (7, 3.0), (40, 4.0)])
def test_few_steps_are_exact(steps: int, epsilon: float) -> None:
    """With few steps the answer is exact: one more would not fit."""
    budget = Budget(epsilon, DELTA)
    sigma = noise_for(lambda value: at_steps(0.3, value)(steps), budget)
    found = steps_for(at_steps(0.3, sigma), budget)
    assert found == steps
    assert not spent(at_steps(0.3, sigma)(found + 1), DELTA).fits(budget)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_noise_fits_and_hardly_less_does(adjacency: Adjacency) -> None:
    """The returned σ fits the budget with everything else that is charged; half a percent less does not."""
    budget = Budget(3.0, DELTA, adjacency)
    make = at_noise(0.01, 4000)
    sigma = noise_for(make, budget)
    assert spent(make(sigma), DELTA, adjacency).fits(budget)
    assert not spent(make(sigma * 0.995), DELTA, adjacency).fits(budget)


@pytest.mark.parametrize(("epsilon", "expected"), [(9.6, 1.0514), (10.0, 1.0290)])
def test_noise_of_published_settings(epsilon: float, expected: float) -> None:
    """σ for 24 900 steps at q = 0.01 is the published figure to a thousandth, never below it."""
    sigma = noise_for(lambda value: at_steps(0.01, value)(24_900), Budget(epsilon, DELTA))
    assert expected * 0.9999 <= sigma <= expected * 1.0015


@settings(max_examples=6, deadline=None)
@given(q=st.floats(2e-3, 0.3), steps=st.integers(1, 3000), epsilon=st.floats(0.2, 10))
def test_noise_is_always_certified(q: float, steps: int, epsilon: float) -> None:
    """Whatever the setting, the returned σ is certified to fit, and has five significant digits."""
    budget = Budget(epsilon, DELTA)
    sigma = noise_for(lambda value: at_steps(q, value)(steps), budget)
    assert spent(at_steps(q, sigma)(steps), DELTA).fits(budget)
    assert float(f"{sigma:.5g}") == sigma


def test_an_impossible_budget_is_explained() -> None:
    """If another charge alone exceeds the budget, no σ helps, and the message says what it costs."""
    with pytest.raises(BudgetError, match="no amount of noise"):
        noise_for(at_noise(0.01, 1000), Budget(0.05, DELTA))


def test_too_small_for_one_step_is_explained() -> None:
    """If not one step fits, the message says what one step costs."""
    with pytest.raises(BudgetError, match="too small for one step"):
        steps_for(at_steps(0.5, 0.5), Budget(1.0, DELTA))


def test_an_unlimited_budget_is_explained() -> None:
    """If any number of steps fits, something is wrong with the question."""
    with pytest.raises(BudgetError, match="less noise"):
        steps_for(lambda _: [HISTOGRAM], Budget(1.0, DELTA))


def test_zero_noise_is_never_certified() -> None:
    """The search survives infinite costs on the way and returns a positive, finite σ."""
    sigma = noise_for(lambda value: at_steps(1.0, value if value > 2 else 0.0)(1), Budget(50.0, DELTA))
    assert 2 <= sigma < math.inf
