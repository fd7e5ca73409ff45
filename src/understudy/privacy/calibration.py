"""The inverse questions: how much noise a budget needs, and how many steps it allows.

The search runs on cheap upper bounds of ε (whole RDP orders, then a coarse PLD grid), so every
candidate that fits there also fits in truth. The answer is rounded to the safe side and certified by
`accounting.spent` before it is returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import BudgetError
from understudy.privacy.accounting import coarse_epsilon, rough_epsilon, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from understudy.privacy.budget import Budget
    from understudy.privacy.mechanisms import Charge

__all__ = ["noise_for", "steps_for"]

_LEAST_NOISE, _MOST_NOISE = 0.05, 1e4
_MOST_STEPS = 2**36
_PRECISION = 5e-4
"""How close to the budget (relative, in ε) a search must come before it stops."""
_WORTH_REFINING = 5e-3
"""Share of the budget left unused by the coarse grid from which on the fine grid is searched as well."""


def noise_for(make_charges: Callable[[float], Sequence[Charge]], budget: Budget) -> float:
    """The least noise multiplier σ, rounded up to five significant digits, whose charges fit the budget.

    Args:
        make_charges: the charges as a function of σ; more noise must never cost more.
        budget: what may be spent.

    Raises:
        BudgetError: if no amount of noise is enough, because something else already spends the budget.
    """
    limits = (_LEAST_NOISE, _MOST_NOISE)
    sigma = _search(make_charges, budget, 1.0, limits, _round_up)
    if sigma is None:
        least = coarse_epsilon(make_charges(_MOST_NOISE), budget)
        raise BudgetError(
            f"no amount of noise fits {budget}: the other charges alone cost ε = {least:.4g}. "
            "Raise epsilon, or give the other mechanisms more noise."
        )
    return sigma


def steps_for(make_charges: Callable[[int], Sequence[Charge]], budget: Budget) -> int:
    """The most steps T (to about one part in a thousand) whose charges fit the budget.

    Args:
        make_charges: the charges as a function of T; more steps must never cost less.
        budget: what may be spent.

    Raises:
        BudgetError: if not even one step fits, or if no number of steps spends the budget.
    """

    def at(inverse: float) -> Sequence[Charge]:
        return make_charges(round(1 / inverse))

    def whole(inverse: float) -> float:
        return 1 / math.floor(1 / inverse + 1e-9)

    inverse = _search(at, budget, 1e-3, (1 / _MOST_STEPS, 1.0), whole)
    if inverse is None:
        one = coarse_epsilon(make_charges(1), budget)
        raise BudgetError(
            f"the budget {budget} is too small for one step, which costs ε = {one:.4g}: "
            "use more noise, a smaller sampling rate, or a larger epsilon."
        )
    steps = round(1 / inverse)
    if steps >= _MOST_STEPS:
        raise BudgetError(f"{budget} allows more than {_MOST_STEPS} steps: less noise would train better.")
    return steps


def _search(
    at: Callable[[float], Sequence[Charge]],
    budget: Budget,
    start: float,
    limits: tuple[float, float],
    snap: Callable[[float], float],
) -> float | None:
    """The least allowed x whose charges are certified to fit; None if there is none within the limits."""

    def rough(x: float) -> float:
        return rough_epsilon(at(x), budget.delta, budget.adjacency)

    def coarse(x: float) -> float:
        return coarse_epsilon(at(x), budget)

    def certified(x: float) -> float:
        return spent(at(x), budget.delta, budget.adjacency).epsilon

    guess = _boundary(rough, start, budget.epsilon, limits, snap, 0.01)
    found = _boundary(coarse, guess or limits[1], budget.epsilon, limits, snap, _PRECISION)
    if found is None and coarse(limits[1]) > 1.01 * budget.epsilon:
        return None
    if found is None or not (1 - _WORTH_REFINING) * budget.epsilon <= certified(found) <= budget.epsilon:
        found = _boundary(certified, found or limits[1], budget.epsilon, limits, snap, _PRECISION)
    return found


def _boundary(
    cost: Callable[[float], float],
    start: float,
    target: float,
    limits: tuple[float, float],
    snap: Callable[[float], float],
    precision: float,
) -> float | None:
    """An x with target·(1 - precision) ≤ cost(x) ≤ target, or else the least allowed x with cost(x) ≤ target.

    The cost must not rise with x; `snap` rounds x up to an allowed value. Until both sides of the boundary
    are known, x moves by the power law through the last point, or by ever longer strides. Then the bracket
    closes by interpolation, and by halving every third time. None if all x within the limits cost too much.
    """
    low, high = limits
    good: _Point | None = None
    bad: _Point | None = None
    x = snap(min(max(start, low), high))
    for turn in range(200):
        last = _Point(x, cost(x))
        if last.cost > target:
            bad = last
        else:
            good = last
        if good is not None and (good.cost >= target * (1 - precision) or good.x <= low):
            return good.x
        if bad is not None and bad.x >= high:
            return None
        if good is None or bad is None:
            x = snap(min(max(_stride(last, target, turn), low), high))
            continue
        x = snap(_between(good, bad, target * (1 - precision / 2), halve=turn % 3 == 2))
        if not bad.x < x < good.x:
            x = snap(math.sqrt(good.x * bad.x))
        if not bad.x < x < good.x:
            break
    return good.x if good is not None else None


@dataclass(frozen=True)
class _Point:
    x: float
    cost: float


def _stride(last: _Point, target: float, turn: int) -> float:
    """Past the boundary, if cost ∝ 1/x from here on; or further, the longer the search has lasted."""
    power = target / last.cost if 0 < last.cost < math.inf else 1.0
    longer = 1.02 if turn == 0 else 1.1 ** (2**turn)
    factor = max(1 / power if last.cost > target else power, 1.0) * longer
    return last.x * factor if last.cost > target else last.x / factor


def _between(good: _Point, bad: _Point, target: float, *, halve: bool) -> float:
    """Where the straight line between the ends, in logarithms, meets the target; or the middle."""
    share = 0.5
    if not halve and bad.cost < math.inf and good.cost > 0:
        share = math.log(bad.cost / target) / math.log(bad.cost / good.cost)
    return bad.x * math.exp(share * math.log(good.x / bad.x))


def _round_up(sigma: float) -> float:
    """The next number with five significant digits at or above σ."""
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 4)
    return float(f"{math.ceil(sigma / unit - 1e-9) * unit:.5g}")
