"""What a list of charges costs: ε by two accountants that must agree.

The privacy loss distribution (PLD) certifies: it is discretised pessimistically, so its ε is an upper
bound on any grid. Rényi differential privacy (RDP) is the second opinion, from different mathematics and
different code: its ε is a looser upper bound, so a PLD figure above it, or absurdly far below it, means that
one of the two is wrong, and the figure is refused. Where PLD is not defined (choosing the best of several
runs), RDP alone certifies, and the result says so.

There is no clipping bound here: noise is measured in multiples of the sensitivity, so ε cannot depend on it.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import BudgetError
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.composition import has_pld, merged, threshold_delta, untruncated
from understudy.privacy.mechanisms import Charge, RunCount, Selection
from understudy.privacy.pld import composed, epsilon_by_pld
from understudy.privacy.renyi import WHOLE_ORDERS, epsilon_by_rdp, rdp_delta, rdp_epsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Accountant",
    "Spent",
    "coarse_epsilon",
    "epsilon_curve",
    "loss_profile",
    "rough_epsilon",
    "select_best",
    "spent",
]

CERTIFIED = 1e-4
"""How much, as a share of ε, the rounding of a certified figure may add."""

SEARCHING = 1e-3
"""The same while searching, and for the second (replace-one) figure; still an upper bound."""

_SLACK = 5e-3
"""By how much (absolute, in ε) the PLD may exceed the RDP before it is called a disagreement."""


class Accountant(enum.Enum):
    """Which accountant vouches for an ε."""

    PLD = "privacy loss distribution"
    RDP = "Rényi differential privacy"


@dataclass(frozen=True)
class Spent:
    """What was, or would be, spent; each ε is an upper bound at the same δ.

    Args:
        epsilon: the certified ε under `adjacency`.
        epsilon_rdp: the second opinion under the same adjacency, or None where there is none (batches
            that are cut so often that RDP does not describe them).
        epsilon_replace_one: the ε if one record's content changes, or None if it cannot be computed.
        delta: the δ at which all of these hold.
        adjacency: which data sets are neighbours.
        certified_by: the accountant that `epsilon` comes from.
    """

    epsilon: float
    epsilon_rdp: float | None
    epsilon_replace_one: float | None
    delta: float
    adjacency: Adjacency
    certified_by: Accountant = Accountant.PLD

    def __post_init__(self) -> None:
        for epsilon in (self.epsilon, self.epsilon_rdp, self.epsilon_replace_one):
            if epsilon is not None and not epsilon >= 0:
                raise BudgetError(f"what was spent cannot be negative, got ε = {epsilon}.")
        if not 0 < self.delta < 1:
            raise BudgetError(f"delta must lie strictly between 0 and 1, got {self.delta}.")

    def fits(self, budget: Budget) -> bool:
        """Whether this stays within the budget, for the same δ and the same neighbours.

        Raises:
            BudgetError: if it was computed for another δ or other neighbours.
        """
        if (self.delta, self.adjacency) != (budget.delta, budget.adjacency):
            raise BudgetError(
                f"cannot compare what was spent at δ = {self.delta:g}, {self.adjacency.value}, "
                f"with a budget {budget}: account for it at the budget's own δ and adjacency."
            )
        return self.epsilon <= budget.epsilon

    def __str__(self) -> str:
        pair = f"(ε = {self.epsilon:.4g}, δ = {self.delta:g})"
        return f"{pair}, {self.adjacency.value}, by {self.certified_by.name}"


def spent(
    charges: Sequence[Charge], delta: float, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> Spent:
    """Compose the charges and certify their ε at δ.

    Raises:
        BudgetError: if the two accountants disagree, or δ is not a probability.
    """
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie strictly between 0 and 1, got {delta}.")
    return _spent(merged(charges), delta, adjacency)


@functools.lru_cache(maxsize=64)
def _spent(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency) -> Spent:
    second = epsilon_by_rdp(charges, delta, adjacency)
    if not has_pld(charges):
        if second is None:
            raise BudgetError(
                "choosing the best of several runs cannot be accounted when batches are often cut to a cap: "
                "raise the batch cap until cutting is negligible, or remove it."
            )
        replaced = epsilon_by_rdp(charges, delta, Adjacency.REPLACE_ONE)
        return Spent(second, second, replaced, delta, adjacency, Accountant.RDP)
    epsilon = _certified_epsilon(charges, delta, adjacency, second)
    replaced = epsilon
    if adjacency is not Adjacency.REPLACE_ONE:
        replaced = epsilon_by_pld(charges, delta, Adjacency.REPLACE_ONE, SEARCHING * epsilon)
    return Spent(epsilon, second, replaced, delta, adjacency)


def _certified_epsilon(
    charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, second: float | None
) -> float:
    """ε by PLD, on a grid refined until it is not worse than RDP; refused if the two contradict."""
    scale = rough_epsilon(charges, delta, adjacency) if second is None else second
    epsilon = math.inf
    for finer in (1, 10, 100):
        epsilon = epsilon_by_pld(charges, delta, adjacency, CERTIFIED / finer * scale)
        if second is None or epsilon <= second:
            break
    if second is None:
        return epsilon
    if epsilon > second * 1.001 + _SLACK:
        raise BudgetError(
            f"the two accountants contradict each other: ε = {epsilon:.6g} by PLD exceeds ε = {second:.6g} "
            f"by RDP at δ = {delta:g}, although RDP is the looser bound. Nothing is certified; please "
            f"report these charges: {charges}."
        )
    far = adjacency is Adjacency.ADD_OR_REMOVE_ONE and second > 3 * epsilon + 10
    if far and math.isfinite(second):
        raise BudgetError(
            f"the two accountants are too far apart to be trusted: ε = {epsilon:.6g} by PLD, {second:.6g} by "
            f"RDP at δ = {delta:g}. Nothing is certified; use more noise, or report these charges: {charges}."
        )
    return epsilon


def coarse_epsilon(charges: Sequence[Charge], near: Budget) -> float:
    """An upper bound on ε from a coarse grid: faster and a little larger; for searching near a budget."""
    drawn = merged(charges)
    if not has_pld(drawn):
        return spent(drawn, near.delta, near.adjacency).epsilon
    return epsilon_by_pld(drawn, near.delta, near.adjacency, SEARCHING * near.epsilon)


def rough_epsilon(charges: Sequence[Charge], delta: float, adjacency: Adjacency) -> float:
    """A looser upper bound on ε, by RDP at whole orders only: faster still; for bracketing a search."""
    drawn = tuple(untruncated(charge) for charge in merged(charges))
    return rdp_epsilon(drawn, delta, adjacency, WHOLE_ORDERS)


def epsilon_curve(
    charges: Sequence[Charge], deltas: Sequence[float], adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> tuple[Spent, ...]:
    """The same charges certified at several δ, since one (ε, δ) pair tells only part of the story."""
    return tuple(spent(charges, delta, adjacency) for delta in deltas)


def loss_profile(
    charges: Sequence[Charge], adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> tuple[tuple[float, float], ...]:
    """Pairs (ε, δ) that all hold for the charges at once, up to where δ is 1e-9 above what thresholds take."""
    drawn = merged(charges)
    if not drawn:
        return ((0.0, 0.0),)
    taken = threshold_delta(drawn)
    reach = rough_epsilon(drawn, 1e-9 + taken, adjacency)
    if not math.isfinite(reach):
        return ((0.0, 1.0),)
    grid = [reach * index / 400 for index in range(401)]
    if has_pld(drawn):
        distribution = composed(drawn, adjacency, SEARCHING * rough_epsilon(drawn, 1e-5 + taken, adjacency))
        deltas = distribution.get_delta_for_epsilon(grid)
    else:
        deltas = [rdp_delta(drawn, epsilon, adjacency) for epsilon in grid]
    return tuple((epsilon, min(1.0, max(0.0, float(d)))) for epsilon, d in zip(grid, deltas, strict=True))


def select_best(
    charges: Sequence[Charge],
    mean_runs: float,
    runs: RunCount = RunCount.GEOMETRIC,
    others: Sequence[Sequence[Charge]] = (),
) -> tuple[Charge, ...]:
    """The charge for publishing the best of a random number of runs, each of which costs `charges`.

    Where each run draws its setting at random, `others` are the costs of the other settings. Account for the result
    with `spent`; RDP certifies it.
    """
    different = tuple(dict.fromkeys(tuple(one) for one in others if tuple(one) != tuple(charges)))
    selection = Selection(tuple(charges), mean_runs, runs, different)
    return (Charge(f"choose the best of {mean_runs:g} runs", selection),)
