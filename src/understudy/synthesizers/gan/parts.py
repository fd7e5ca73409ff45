"""What GANs are made of, as values: networks, and what happens before the first private step; no torch."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import ClassVar

from understudy.errors import RecipeError

__all__ = [
    "Activation",
    "ConvCritic",
    "DeconvGenerator",
    "DenseCritic",
    "DenseGenerator",
    "PublicWarmStart",
]


class Activation(enum.Enum):
    """Pointwise functions that the engine can differentiate in closed form."""

    RELU = "relu"
    LEAKY_RELU = "leaky-relu"  # slope 0.2
    TANH = "tanh"
    SOFTPLUS = "softplus"
    GELU = "gelu"


@dataclass(frozen=True)
class DenseGenerator:
    """Fully connected generator: latent and one-hot label in, one encoded record out."""

    kind: ClassVar[str] = "dense"
    hidden: tuple[int, ...] = (128,)
    activation: Activation = Activation.RELU

    def with_capacity(self, capacity: int) -> DenseGenerator:
        """The same with hidden layers of this width."""
        return replace(self, hidden=(capacity,) * len(self.hidden))


@dataclass(frozen=True)
class DeconvGenerator:
    """Three transposed convolutions, 5×5 with stride 2, of 4C, 2C and C channels (images only)."""

    kind: ClassVar[str] = "deconv"
    capacity: int = 32
    batch_norm: bool = True

    def with_capacity(self, capacity: int) -> DeconvGenerator:
        """The same with another capacity."""
        return replace(self, capacity=capacity)


@dataclass(frozen=True)
class DenseCritic:
    """Fully connected critic.

    Args:
        hidden: widths of the hidden layers.
        activation: between them.
        label_weight: the length of the label among the inputs, as a part of √width, the length of a record whose
            values are all ±1. None makes it 1 whatever the width, as in the papers.
    """

    kind: ClassVar[str] = "dense"
    hidden: tuple[int, ...] = (128,)
    activation: Activation = Activation.RELU
    label_weight: float | None = None

    def __post_init__(self) -> None:
        if self.label_weight is not None and not 0 < self.label_weight < math.inf:
            raise RecipeError(f"the label's weight must be positive and finite, got {self.label_weight}.")

    def with_capacity(self, capacity: int) -> DenseCritic:
        """The same with hidden layers of this width."""
        return replace(self, hidden=(capacity,) * len(self.hidden))


@dataclass(frozen=True)
class ConvCritic:
    """Three convolutions, 5×5 with stride 2, of C, 2C and 4C channels, then a linear score (images only)."""

    kind: ClassVar[str] = "conv"
    capacity: int = 32
    activation: Activation = Activation.LEAKY_RELU

    def with_capacity(self, capacity: int) -> ConvCritic:
        """The same with another capacity."""
        return replace(self, capacity=capacity)


@dataclass(frozen=True)
class PublicWarmStart:
    """Train both networks without privacy on a declared public data set first.

    Args:
        steps: how many critic steps.
        batch: the expected number of public records in each.
        critic_steps: critic steps before each generator step. A critic without noise keeps up with fewer than the
            private one; None takes as many as the recipe does later.
    """

    steps: int = 300
    batch: int = 64
    critic_steps: int | None = None
