"""What every clipping rule comes down to: groups of parameters with bounds, and the factors that keep them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import PlanError
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

__all__ = ["SLACK", "SUM_SLACK", "Partition", "check_bound", "split_biases", "times_adjacency"]

NORM_SLACK = 1e-4
"""What rounding may do to the norm of a gradient."""

SUM_SLACK = 1e-2
"""What rounding may do to the difference of two neighbouring sums; `gradients.sums` keeps it."""

SLACK = NORM_SLACK + SUM_SLACK
"""Gradients are clipped to C / (1 + SLACK), so that no rounding can pass the bound C."""


_VANISHING = 1e-30
"""Smaller factors count as zero: in float32 they would be rounded to a grid that is coarser than themselves."""


@dataclass(frozen=True)
class Partition:
    """Groups of parameter names that cover the critic, each with its bound: what the engine applies.

    Args:
        groups: disjoint groups of parameter names.
        bounds: one bound per group.
    """

    groups: tuple[tuple[str, ...], ...]
    bounds: tuple[float, ...]

    def factors(self, squared_norms: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """For each parameter, each record's factor in [0, 1].

        Args:
            squared_norms: for each parameter, the squared norm of its gradient for each record (float64).

        Returns:
            min(1, C_j / ((1 + SLACK) · norm over group j); zero in all groups for a record whose gradient is
            not finite.
        """
        norms = [_group_norm(squared_norms, group) for group in self.groups]
        finite = norms[0].isfinite()
        for norm in norms[1:]:
            finite = finite & norm.isfinite()
        result: dict[str, Tensor] = {}
        for group, bound, norm in zip(self.groups, self.bounds, norms, strict=True):
            factor = (bound / (1.0 + SLACK) / norm).clamp(max=1.0)
            factor = factor.where(finite & (factor > _VANISHING), factor.new_zeros(()))
            result.update(dict.fromkeys(group, factor))
        return result


def _group_norm(squared_norms: Mapping[str, Tensor], group: tuple[str, ...]) -> Tensor:
    total = squared_norms[group[0]]
    for name in group[1:]:
        total = total + squared_norms[name]
    return total.sqrt()


def check_bound(bound: float, what: str = "the clipping bound") -> None:
    """Raise `PlanError` unless the bound is positive and finite."""
    if not (math.isfinite(bound) and bound > 0):
        raise PlanError(f"{what} must be positive and finite, got {bound}.")


def times_adjacency(bound: float, adjacency: Adjacency) -> float:
    """One record comes or goes: `bound`. One record is replaced: twice that."""
    return bound if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 2.0 * bound


def split_biases(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of all parameters that are not biases, and those called `…bias`."""
    every = tuple(names)
    biases = tuple(name for name in every if name.split(".")[-1] == "bias")
    return tuple(name for name in every if name not in biases), biases
