"""The inverse questions: how much noise a budget needs, and how many steps it allows.

The search runs on cheap upper bounds of ε (whole RDP orders, then a coarse PLD grid), so every
candidate that fits there also fits in truth. The answer is rounded to the safe side and certified by
`accounting.spent` before it is returned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.errors import BudgetError
from understudy.privacy.accounting import coarse_epsilon, rough_epsilon, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from understudy.privacy.budget import Budget
    from understudy.privacy.mechanisms import Charge

__all__ = ["noise_for", "steps_for"]

_LEAST_NOISE, _MOST_NOISE = 0.05, 1e5
_MOST_STEPS = 2**36
_PRECISION = 2e-4
"""Relative width at which a search stops."""


def noise_for(make_charges: Callable[[float], Sequence[Charge]], budget: Budget) -> float:
    """The least noise multiplier σ, rounded up to four significant digits, whose charges fit the budget.

    Args:
        make_charges: the charges as a function of σ; more noise must never cost more.
        budget: what may be spent.

    Raises:
        BudgetError: if no amount of noise is enough, because something else already spends the budget.
    """

    def cost(sigma: float) -> float:
        return coarse_epsilon(make_charges(sigma), budget.delta, budget.adjacency)

    def rough(sigma: float) -> float:
        return rough_epsilon(make_charges(sigma), budget.delta, budget.adjacency)

    guess = _boundary(rough, 1.0, budget.epsilon, (_LEAST_NOISE, _MOST_NOISE), 0.01)
    sigma = _boundary(cost, guess or _MOST_NOISE, budget.epsilon, (_LEAST_NOISE, _MOST_NOISE), _PRECISION)
    if sigma is None:
        raise BudgetError(
            f"no amount of noise fits {budget}: the other charges alone cost ε = {cost(_MOST_NOISE):.4g}. "
            "Raise epsilon, or give the other mechanisms more noise."
        )
    sigma = _round_up(sigma)
    while not spent(make_charges(sigma), budget.delta, budget.adjacency).fits(budget):
        sigma = _round_up(sigma * (1 + _PRECISION))
        if sigma > _MOST_NOISE:
            raise BudgetError(f"no noise multiplier up to {_MOST_NOISE:g} fits {budget}.")
    return sigma


def steps_for(make_charges: Callable[[int], Sequence[Charge]], budget: Budget) -> int:
    """The most steps T (to one step, or to one part in 5 000) whose charges fit the budget.

    Args:
        make_charges: the charges as a function of T; more steps must never cost less.
        budget: what may be spent.

    Raises:
        BudgetError: if not even one step fits, or if no number of steps spends the budget.
    """

    def cost(inverse: float) -> float:
        return coarse_epsilon(make_charges(math.floor(1 / inverse)), budget.delta, budget.adjacency)

    def rough(inverse: float) -> float:
        return rough_epsilon(make_charges(math.floor(1 / inverse)), budget.delta, budget.adjacency)

    if cost(1.0) > budget.epsilon:
        raise BudgetError(
            f"the budget {budget} is too small for one step, which costs ε = {cost(1.0):.4g}: "
            "use more noise, a smaller sampling rate, or a larger epsilon."
        )
    limits = (1 / _MOST_STEPS, 1.0)
    guess = _boundary(rough, 1e-3, budget.epsilon, limits, 0.01)
    inverse = _boundary(cost, guess or 1.0, budget.epsilon, limits, _PRECISION)
    steps = 1 if inverse is None else math.floor(1 / inverse)
    if steps >= _MOST_STEPS:
        raise BudgetError(f"{budget} allows more than {_MOST_STEPS} steps: less noise would train better.")
    while not spent(make_charges(steps), budget.delta, budget.adjacency).fits(budget):
        steps -= max(1, math.ceil(steps * _PRECISION))
    return steps


def _boundary(
    cost: Callable[[float], float], start: float, target: float, limits: tuple[float, float], precision: float
) -> float | None:
    """The least x within the limits, to the given relative precision, with cost(x) ≤ target; None if none.

    The cost must not rise with x. Steps grow from `start` until the boundary is bracketed; then the
    bracket closes by interpolation between logarithms, each candidate pushed a little towards the
    side that was hit less recently, so that both ends come close.
    """
    low, high = limits
    good: tuple[float, float] | None = None
    bad: tuple[float, float] | None = None
    x, stride = start, 1.1
    for _ in range(200):
        value = cost(x)
        if value <= target:
            good = (x, value)
        else:
            bad = (x, value)
        if good is None:
            if x >= high:
                return None
            x, stride = min(x * stride, high), stride**2
        elif bad is None:
            if x <= low:
                return x
            x, stride = max(x / stride, low), stride**2
        elif good[0] <= bad[0] * (1 + precision):
            return good[0]
        else:
            x = _between(good, bad, target, precision, towards_bad=value <= target)
    assert good is not None
    return good[0]


def _between(
    good: tuple[float, float], bad: tuple[float, float], target: float, precision: float, *, towards_bad: bool
) -> float:
    """A point inside the bracket, near where the cost is expected to equal the target."""
    left, right = math.log(bad[0]), math.log(good[0])
    if math.isfinite(bad[1]) and good[1] > 0:
        above, below = math.log(bad[1] / target), math.log(good[1] / target)
        share = above / (above - below) if above > below else 0.5
    else:
        share = 0.5
    nudge = -0.4 * precision if towards_bad else 0.4 * precision
    x = left + share * (right - left) + nudge
    margin = min(0.4 * precision, 0.25 * (right - left))
    return math.exp(min(max(x, left + margin), right - margin))


def _round_up(sigma: float) -> float:
    """The next number with four significant digits at or above σ."""
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 3)
    return float(f"{math.ceil(sigma / unit - 1e-9) * unit:.4g}")
