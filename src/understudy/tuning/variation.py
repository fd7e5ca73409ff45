"""What a sweep varies: settings, their grid, and recipes with a setting changed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from understudy.dpsgd.clipping import Clipping, GlobalClip, JointClip, MicrobatchClip, SeparateClip
from understudy.errors import PlanError, RecipeError
from understudy.recipes.parts import ConvCritic, DeconvGenerator, DenseCritic, DenseGenerator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from understudy.recipes import Recipe

__all__ = ["Change", "Setting", "grid", "varied"]

KNOWN = ("noise_multiplier", "steps", "batch", "clip", "capacity")


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
    """The recipe with another clipping bound or capacity; other settings are the plan's business.

    Raises:
        RecipeError: the recipe has no such thing to vary.
    """
    if "clip" in values:
        recipe = _with_clip(recipe, values["clip"])
    if "capacity" in values:
        recipe = _with_capacity(recipe, int(values["capacity"]))
    return recipe


def _refuse_without_critic(recipe: Recipe, what: str) -> None:
    if not recipe.has_critic:
        raise RecipeError(
            f"recipe {recipe.name!r} has no critic, so its {what} cannot be varied: vary steps or batch, or choose a "
            "recipe with a critic, such as dp-cgan."
        )


def _with_clip(recipe: Recipe, bound: float) -> Recipe:
    _refuse_without_critic(recipe, "clip")
    clipping: Clipping
    match recipe.clipping:
        case GlobalClip() | JointClip() | MicrobatchClip() as old:
            clipping = replace(old, bound=bound)
        case SeparateClip() as old:
            clipping = replace(old, real_bound=bound, fake_bound=bound)
        case other:
            raise RecipeError(
                f"recipe {recipe.name!r} clips by {other.kind!r}, which has no single bound to vary."
            )
    return replace(recipe, clipping=clipping)


def _with_capacity(recipe: Recipe, capacity: int) -> Recipe:
    _refuse_without_critic(recipe, "capacity")

    def resized(network: Any) -> Any:
        match network:
            case DeconvGenerator() | ConvCritic():
                return replace(network, capacity=capacity)
            case DenseGenerator() | DenseCritic():
                return replace(network, hidden=(capacity,) * len(network.hidden))
        raise RecipeError(f"the capacity of {network!r} cannot be varied.")

    return replace(recipe, generator=resized(recipe.generator), critic=resized(recipe.critic))
