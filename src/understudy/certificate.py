"""A plan that comes from elsewhere is not believed: what it costs is computed anew from its charges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.discovery.asking import uncharged_discoveries
from understudy.errors import BudgetError, PlanError
from understudy.privacy.accounting import rough_epsilon, spent
from understudy.privacy.composition import repetitions
from understudy.synthesizers.protocol import Share, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.errors import UnderstudyError
    from understudy.planning import Plan
    from understudy.privacy.accounting import Spent
    from understudy.privacy.mechanisms import Charge
    from understudy.synthesizers.protocol import Asked

__all__ = ["checked_plan"]

_AGREEMENT = 1e-6
"""How much, as a share, a stated ε may lie below the computed one: rounding of another machine, nothing else."""

_MOST_DRAWS = 10_000_000
"""Draws of a plan from elsewhere that are accounted for: ten seconds' work, and more than anybody trains."""


def checked_plan(found: Plan, *, error: type[UnderstudyError] = PlanError) -> Plan:
    """The same plan, once it is sure that its charges cover what its recipe draws and cost what it states.

    For every plan that enters, from a file, a card or a caller: whatever such a plan says of its own cost is computed
    anew from its charges. It may state more than that (an earlier accountant was less sharp), never less.

    Args:
        found: the plan.
        error: what is raised.

    Raises:
        error: something that is drawn is not charged, or the stated cost is less than that of the charges.
    """
    if found.budget is None:
        if found.spent is not None:
            raise error("a baseline without privacy has no ε, and this one states one. Make it anew.")
        return found
    stated, budget = found.spent, found.budget
    if (
        stated is None
        or not math.isfinite(stated.epsilon)
        or (stated.delta, stated.adjacency) != (budget.delta, budget.adjacency)
    ):
        raise error(
            f"the budget is {budget}, and no ε is stated for this δ and these neighbours. Make it anew."
        )
    _refuse_uncharged(found, error)
    try:
        cost = _cost_near(found.charges, stated)
    except (ArithmeticError, ValueError, MemoryError, BudgetError) as problem:
        raise error(
            f"{stated} is stated, and the charges do not bear it out: {problem} Make it anew."
        ) from problem
    pairs = [
        (stated.epsilon, cost.epsilon),
        (stated.epsilon_rdp, cost.epsilon_rdp),
        (stated.epsilon_replace_one, cost.epsilon_replace_one),
        (budget.epsilon, cost.epsilon),
    ]
    if stated.certified_by is not cost.certified_by or any(_understated(*pair) for pair in pairs):
        raise error(
            f"{stated} is stated, of a budget of ε = {budget.epsilon:g}, and the charges cost {cost}: one of them was "
            "changed after it was computed. Make it anew, and do not rely on this one."
        )
    return found


def _cost_near(charges: Sequence[Charge], stated: Spent) -> Spent:
    """What the charges cost; refused quickly where that is far from what is stated, as a forged file may make it."""
    draws = sum(repetitions(charge) for charge in charges)
    if draws > _MOST_DRAWS:
        raise BudgetError(f"{draws:,} draws are more than the {_MOST_DRAWS:,} that are accounted for.")
    rough = rough_epsilon(charges, stated.delta, stated.adjacency)
    if not rough <= 10 * stated.epsilon + 100:
        raise BudgetError(f"they cost up to about ε = {rough:.4g}.")
    return spent(charges, stated.delta, stated.adjacency)


def _understated(stated: float | None, cost: float | None) -> bool:
    if stated is None or stated == cost:
        return False
    return cost is None or not (math.isfinite(stated) and stated >= cost * (1 - _AGREEMENT))


def _refuse_uncharged(found: Plan, error: type[UnderstudyError]) -> None:
    """Refuse a plan that charges other things than its recipe asks for, or less often than it draws them."""
    for purpose in uncharged_discoveries(found.schema, found.run_charges):
        raise error(f"the schema asks for the {purpose}, and the plan does not charge it. Make a new plan.")
    charged = {charge.purpose: repetitions(charge) for charge in found.run_charges}
    for asked in found.recipe.releases(found.schema, found.rows):
        times = _times(asked, found)
        if charged.get(asked.purpose, 0) < times:
            raise error(
                f"recipe {found.recipe.name!r} draws the {asked.purpose} {times:,} times, and the plan charges it "
                f"{charged.get(asked.purpose, 0):,} times. Make a new plan."
            )


def _times(asked: Asked, found: Plan) -> int:
    match asked:
        case Steps():
            return found.steps
        case Share(count=count):
            return count
    return 1
