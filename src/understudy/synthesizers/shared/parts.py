"""Values that recipes of several synthesizers are written in; no torch."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import RecipeError
from understudy.synthesizers.protocol import Fixed, Share

__all__ = [
    "LABELS",
    "ROWS",
    "Adam",
    "Latent",
    "LatentLaw",
    "Optimiser",
    "RmsProp",
    "Sgd",
    "asked_rows",
    "check_positive",
    "check_share",
    "shares",
]

ROWS = "row count"
LABELS = "label histogram"
"""Purposes that all synthesizers share."""

_ROW_NOISE = 20.0
"""Standard deviation of the noisy row count, when the curator does not declare the number of rows."""


class LatentLaw(enum.Enum):
    """How the generator's input noise is drawn."""

    NORMAL = "normal"
    UNIFORM = "uniform"  # on [-1, 1]


@dataclass(frozen=True)
class Latent:
    """The generator's input noise."""

    dim: int = 100
    law: LatentLaw = LatentLaw.NORMAL


@dataclass(frozen=True)
class Sgd:
    """Gradient descent, its rate going linearly from `rate` to `final_rate` in `decay_steps`."""

    kind: ClassVar[str] = "sgd"
    rate: float = 0.1
    final_rate: float | None = None
    decay_steps: int = 0
    momentum: float = 0.0


@dataclass(frozen=True)
class Adam:
    """Adam, its rate going linearly from `rate` to `final_rate` in `decay_steps`."""

    kind: ClassVar[str] = "adam"
    rate: float = 1e-3
    final_rate: float | None = None
    decay_steps: int = 0
    beta1: float = 0.9
    beta2: float = 0.999


@dataclass(frozen=True)
class RmsProp:
    """RMSprop, its rate going linearly from `rate` to `final_rate` in `decay_steps`."""

    kind: ClassVar[str] = "rmsprop"
    rate: float = 5e-5
    final_rate: float | None = None
    decay_steps: int = 0


Optimiser = Sgd | Adam | RmsProp


def asked_rows(rows: int | None) -> tuple[Fixed, ...]:
    """The noisy row count, unless the number of rows is declared public."""
    return () if rows is not None else (Fixed(ROWS, _ROW_NOISE),)


def shares(*wanted: Share) -> tuple[Share, ...]:
    """Those of the shares that take anything at all."""
    return tuple(one for one in wanted if one.share > 0)


def check_share(what: str, share: float, *, optional: bool = False) -> None:
    """Refuse what is no share of a budget; an optional one may be 0."""
    if not (0 < share <= 1 or (optional and share == 0)):
        raise RecipeError(f"the {what}'s share of the budget must lie in (0, 1], got {share}.")


def check_positive(recipe: str, **numbers: float | None) -> None:
    """Refuse numbers of a recipe that are given and not positive and finite."""
    for what, number in numbers.items():
        if number is not None and not 0 < number < float("inf"):
            raise RecipeError(f"recipe {recipe!r}: {what} must be positive and finite, got {number}.")
