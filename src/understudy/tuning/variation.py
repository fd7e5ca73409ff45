"""What a sweep varies: settings, their grid, and recipes with a setting changed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from understudy.synthesizers.protocol import Recipe

__all__ = ["Change", "Setting", "grid", "varied"]

PLANNED = ("noise_multiplier", "steps", "batch")
KNOWN = (*PLANNED, "clip", "capacity")


@dataclass(frozen=True)
class Change:
    """One varied setting."""

    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.name}={self.value:g}"


@dataclass(frozen=True)
class Setting:
    """One run of a sweep."""

    epsilon: float
    changes: tuple[Change, ...]
    repeat: int

    def __str__(self) -> str:
        return " ".join([f"ε={self.epsilon:g}", *map(str, self.changes), f"#{self.repeat + 1}"])

    @property
    def label(self) -> str:
        """The varied settings without ε and repeat: what one curve is made of."""
        return " ".join(map(str, self.changes)) or "as the recipe says"


def grid(epsilons: Sequence[float], vary: Mapping[str, Sequence[float]], repeats: int) -> tuple[Setting, ...]:
    """Every combination, repeats innermost.

    Raises:
        PlanError: nothing to run, or a name that cannot be varied.
    """
    unknown = [name for name in vary if name not in KNOWN]
    if unknown:
        raise PlanError(f"{unknown[0]!r} cannot be varied; known are {', '.join(KNOWN)}.")
    if not epsilons or repeats < 1 or not all(vary.values()):
        raise PlanError("a sweep needs at least one ε, one value of everything varied, and one repeat.")
    combinations = itertools.product(
        *([Change(name, value) for value in values] for name, values in vary.items())
    )
    return tuple(
        Setting(epsilon, changes, repeat)
        for epsilon, changes, repeat in itertools.product(epsilons, list(combinations), range(repeats))
    )


def varied(recipe: Recipe, values: Mapping[str, float]) -> Recipe:
    """The recipe with other values of what is its own; steps, batch and noise are the plan's business.

    Raises:
        RecipeError: the recipe has no such thing to vary.
    """
    for name, value in values.items():
        if name not in PLANNED:
            recipe = recipe.varied(name, value)
    return recipe
