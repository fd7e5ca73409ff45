"""What may be spent: ε, δ, and which data sets count as neighbours."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from understudy.errors import BudgetError

__all__ = ["Adjacency", "Budget"]


class Adjacency(enum.Enum):
    """Which two data sets an attacker must not be able to tell apart."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    """They differ by the presence of one record (the default; what the accountants assume)."""

    REPLACE_ONE = "replace-one"
    """They have the same size and differ in the content of one record (about twice as costly)."""


@dataclass(frozen=True)
class Budget:
    """A privacy budget; immutable, and refused when it promises nothing.

    Args:
        epsilon: the bound on the privacy loss; positive and finite.
        delta: the probability with which the bound may fail; strictly between 0 and 1.
        adjacency: which data sets are neighbours.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise BudgetError(
                f"epsilon must be a positive, finite number, got {self.epsilon}. "
                "Common choices lie between 0.1 (strong) and 10 (weak)."
            )
        if not 0 < self.delta < 1:
            raise BudgetError(
                f"delta must lie strictly between 0 and 1, got {self.delta}. "
                "Choose it well below 1 / (number of rows), for instance 1e-5."
            )

    def refuse_large_delta(self, rows: int) -> None:
        """Raise if δ ≥ 1/rows, where publishing one whole record at random would be allowed."""
        if self.delta >= 1 / rows:
            raise BudgetError(
                f"delta = {self.delta:g} is not below 1/rows = {1 / rows:.3g}: a mechanism that publishes "
                "one record in full would satisfy it. Choose a smaller delta, or pass --accept-large-delta "
                "(accept_large_delta=True) if you know why you want this."
            )

    def __str__(self) -> str:
        return f"(ε = {self.epsilon:g}, δ = {self.delta:g}), {self.adjacency.value}"
