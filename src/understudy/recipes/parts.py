"""The vocabulary that recipes are written in: frozen values without behaviour.

What a value means in torch is decided in `understudy.synthesizers`; here it only has a name and its numbers, so that a
recipe can be printed, compared, saved as TOML and planned without loading torch.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import ClassVar

from understudy.errors import RecipeError
from understudy.recipes.statistics import (
    Lessons,
    LinearTeacher,
    MeanEmbedding,
    NoisyCodeCounts,
    NoisyMarginals,
    Statistic,
    Warp,
    check_share,
)

__all__ = [
    "Activation",
    "Adam",
    "ConvCritic",
    "DeclaredLabels",
    "DeconvGenerator",
    "DenseCritic",
    "DenseGenerator",
    "FixedCriticSteps",
    "Latent",
    "LatentClasses",
    "LatentLaw",
    "Lessons",
    "LinearTeacher",
    "MeanEmbedding",
    "NoWarmStart",
    "NoisyCodeCounts",
    "NoisyLabelHistogram",
    "NoisyMarginals",
    "Optimiser",
    "PublicWarmStart",
    "RisingCriticSteps",
    "RmsProp",
    "Sgd",
    "SharedLabelHistogram",
    "Statistic",
    "UniformLabels",
    "UpsamplingGenerator",
    "Warp",
]


class Activation(enum.Enum):
    """Pointwise functions that the engine can differentiate in closed form."""

    RELU = "relu"
    LEAKY_RELU = "leaky-relu"  # slope 0.2
    TANH = "tanh"
    SOFTPLUS = "softplus"
    GELU = "gelu"


class LatentLaw(enum.Enum):
    """How the generator's input noise is drawn."""

    NORMAL = "normal"
    UNIFORM = "uniform"  # on [-1, 1]


@dataclass(frozen=True)
class Latent:
    """The generator's input noise."""

    dim: int = 100
    law: LatentLaw = LatentLaw.NORMAL


# --- networks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DenseGenerator:
    """Fully connected generator: latent and one-hot label in, one encoded record out."""

    kind: ClassVar[str] = "dense"
    hidden: tuple[int, ...] = (128,)
    activation: Activation = Activation.RELU


@dataclass(frozen=True)
class DeconvGenerator:
    """Three transposed convolutions, 5×5 with stride 2, of 4C, 2C and C channels (images only)."""

    kind: ClassVar[str] = "deconv"
    capacity: int = 32
    batch_norm: bool = True


@dataclass(frozen=True)
class UpsamplingGenerator:
    """Dense layers with a batch normalisation per class, then one upsampling from half size (images only)."""

    kind: ClassVar[str] = "upsampling"
    hidden: tuple[int, ...] = (512, 1024)
    channels: int = 8


@dataclass(frozen=True)
class LatentClasses:
    """Equally likely latent classes, each with its own chances of all outcomes (tables and codes only)."""

    kind: ClassVar[str] = "latent-classes"
    count: int = 100

    def __post_init__(self) -> None:
        if self.count < 1:
            raise RecipeError(f"a generator needs at least one latent class, got {self.count}.")


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


@dataclass(frozen=True)
class ConvCritic:
    """Three convolutions, 5×5 with stride 2, of C, 2C and 4C channels, then a linear score (images only)."""

    kind: ClassVar[str] = "conv"
    capacity: int = 32
    activation: Activation = Activation.LEAKY_RELU


# --- optimisers ---------------------------------------------------------------------------------------------


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


# --- where fake labels come from ----------------------------------------------------------------------------


@dataclass(frozen=True)
class UniformLabels:
    """Every class equally often; costs nothing."""

    kind: ClassVar[str] = "uniform"


@dataclass(frozen=True)
class DeclaredLabels:
    """The class weights that the schema declares public; costs nothing."""

    kind: ClassVar[str] = "declared"


@dataclass(frozen=True)
class NoisyLabelHistogram:
    """Class counts published once with Gaussian noise of this standard deviation; charged to the budget.

    One record adds one to one count, so the sensitivity is 1 and the deviation is the noise multiplier.
    """

    kind: ClassVar[str] = "noisy-histogram"
    noise_multiplier: float = 20.0


@dataclass(frozen=True)
class SharedLabelHistogram:
    """Class counts published once with Gaussian noise that takes this share of the budget (without a critic)."""

    kind: ClassVar[str] = "shared-histogram"
    share: float = 0.05

    def __post_init__(self) -> None:
        check_share("label histogram", self.share)


LabelPrior = UniformLabels | DeclaredLabels | NoisyLabelHistogram | SharedLabelHistogram


# --- how critic and generator take turns --------------------------------------------------------------------


@dataclass(frozen=True)
class FixedCriticSteps:
    """`count` critic steps before each generator step."""

    kind: ClassVar[str] = "fixed"
    count: int = 1


@dataclass(frozen=True)
class RisingCriticSteps:
    """More critic steps per generator step whenever the critic falls behind (Bie et al., 2023).

    The critic's accuracy on *fakes* (independent of the data, so free) is averaged; when it falls to
    `threshold`, the next number of `counts` is used. It never goes down.
    """

    kind: ClassVar[str] = "rising"
    counts: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    threshold: float = 0.6
    grace: int = 200
    averaging: float = 0.99


# --- what happens before the first private step -------------------------------------------------------------


@dataclass(frozen=True)
class NoWarmStart:
    """Begin with random weights."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True)
class PublicWarmStart:
    """Train both networks without privacy on a declared public data set first.

    Args:
        steps: how many critic steps.
        batch: the expected number of public records in each.
        critic_steps: critic steps before each generator step. A critic without noise keeps up with fewer than the
            private one; None takes the recipe's own turns.
    """

    kind: ClassVar[str] = "public"
    steps: int = 300
    batch: int = 64
    critic_steps: int | None = None


WarmStart = NoWarmStart | PublicWarmStart
