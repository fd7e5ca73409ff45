"""What the certificate means for an attacker: the most a membership test can reach.

(ε, δ) bounds are hard to picture. The same privacy loss distribution also bounds the power of every test
that tries to tell whether one record was used: its true positive rate at a given false positive rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import BudgetError
from understudy.privacy.accounting import loss_profile
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.privacy.mechanisms import Charge

__all__ = ["AttackPoint", "attack_curve", "true_positive_rate"]

_RATES = (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class AttackPoint:
    """No test with this false positive rate has a true positive rate above the one given."""

    false_positive_rate: float
    true_positive_rate: float


def true_positive_rate(
    charges: Sequence[Charge],
    false_positive_rate: float = 0.01,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
) -> float:
    """An upper bound on the true positive rate of any membership test at the given false positive rate.

    0.01 means that the attacker gains nothing over guessing at 1 %; 1.0 means no protection.
    """
    return attack_curve(charges, (false_positive_rate,), adjacency)[0].true_positive_rate


def attack_curve(
    charges: Sequence[Charge],
    false_positive_rates: Sequence[float] = _RATES,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
) -> tuple[AttackPoint, ...]:
    """The bound at several false positive rates.

    If (ε, δ(ε)) holds for every ε, a test with false positive rate a has a true positive rate of at most
    e^ε·a + δ(ε) and of at most 1 - e^-ε·(1 - δ(ε) - a) (Kairouz, Oh and Viswanath, "The Composition Theorem
    for Differential Privacy", 2015); the least of these over a grid of ε is reported.
    """
    for rate in false_positive_rates:
        if not 0 <= rate <= 1:
            raise BudgetError(f"a false positive rate lies between 0 and 1, got {rate}.")
    profile = loss_profile(charges, adjacency)
    return tuple(AttackPoint(rate, _power(rate, profile)) for rate in false_positive_rates)


def _power(rate: float, profile: Sequence[tuple[float, float]]) -> float:
    bounds = (
        min(math.exp(epsilon) * rate + delta, 1 - math.exp(-epsilon) * (1 - delta - rate))
        for epsilon, delta in profile
    )
    return max(rate, min(1.0, *bounds))
