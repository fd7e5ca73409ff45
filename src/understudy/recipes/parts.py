"""The vocabulary that recipes are written in: frozen values without behaviour.

What a value means in torch is decided in `understudy.gan`; here it only has a name and its numbers, so that a
recipe can be printed, compared, saved as TOML and planned without loading torch.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import ClassVar

from understudy.errors import RecipeError

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
    "NoisyLabelHistogram",
    "NoisyMarginals",
    "Optimiser",
    "PublicWarmStart",
    "RisingCriticSteps",
    "RmsProp",
    "Sgd",
    "SharedLabelHistogram",
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
    """Equally likely latent classes, each with chances for every outcome of every column (tables only)."""

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
        _check_share("label histogram", self.share)


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
    """Train both networks without privacy on a declared public data set first."""

    kind: ClassVar[str] = "public"
    steps: int = 300
    batch: int = 64


WarmStart = NoWarmStart | PublicWarmStart


# --- what a generator can learn from without a critic -------------------------------------------------------


@dataclass(frozen=True)
class MeanEmbedding:
    """One noisy sum per class of random Fourier features of pixels and of fixed wavelet moduli.

    Every record's features have norm 1 and lie in the block of its own class, so the sensitivity is 1. Lengths are
    those of images of 28×28 pixels with values in [0, 1]; other sizes scale them by the square root of the dimension.

    Args:
        pixel_lengths: length scales of the features of pixels.
        wavelet_lengths: length scales of the features of wavelet moduli.
        pixel_frequencies: random frequencies for each pixel length.
        wavelet_frequencies: random frequencies for each wavelet length.
        seed: the public seed of the frequencies.
        share: the part of the budget (of 1/σ²) that the release takes.
    """

    pixel_lengths: tuple[float, ...] = (10.0, 5.0)
    wavelet_lengths: tuple[float, ...] = (2.0, 1.0)
    pixel_frequencies: int = 300
    wavelet_frequencies: int = 600
    seed: int = 1234
    share: float = 0.5

    def __post_init__(self) -> None:
        _check_share("mean embedding", self.share)
        lengths = (*self.pixel_lengths, *self.wavelet_lengths)
        if not lengths or any(not 0 < length < math.inf for length in lengths):
            raise RecipeError(f"a mean embedding needs positive length scales, got {lengths}.")
        if min(self.pixel_frequencies, self.wavelet_frequencies) < 1:
            raise RecipeError("a mean embedding needs at least one frequency for each length scale.")


@dataclass(frozen=True)
class NoisyMarginals:
    """Noisy counts of the columns of a table, of columns by class, and of columns in pairs.

    Each kind is one vector of k tables of counts with sensitivity √k, and one Gaussian release.

    Args:
        bins: the most bins of about equal mass that a column of numbers has.
        tails: how often the first and the last of them are halved.
        support: how many standard deviations of the noise a cell should hold; fewer rows make coarser bins.
        columns: the most columns that are compared in pairs.
        by_class: whether pairs are counted for each class.
        column_share: the part of the budget (of 1/σ²) that the counts of columns take.
        label_share: the part that counts by class take; 0 leaves them out.
        pair_share: the part that pairs take; 0 leaves them out.
    """

    bins: int = 12
    tails: int = 2
    support: float = 4.0
    columns: int = 32
    by_class: bool = True
    column_share: float = 0.25
    label_share: float = 0.4
    pair_share: float = 0.3

    @property
    def slots(self) -> int:
        """How many bins a column of numbers has at most, those in the tails included."""
        return self.bins + 2 * self.tails

    def __post_init__(self) -> None:
        _check_share("column counts", self.column_share)
        for what, share in (("label pairs", self.label_share), ("column pairs", self.pair_share)):
            if share != 0:
                _check_share(what, share)
        if self.bins < 2 or self.tails < 0:
            raise RecipeError(
                f"marginals need at least two bins and no negative tails, got {self.bins} and {self.tails}."
            )
        if not self.support > 0 or self.columns < 2:
            raise RecipeError(
                "marginals need a positive support and at least two columns in pairs, "
                f"got {self.support} and {self.columns}."
            )


@dataclass(frozen=True)
class Lessons:
    """How a teacher learns: full-batch gradient steps, each one Gaussian release.

    Args:
        steps: how many; all together cost the teacher's share, however many they are.
        rate: learning rate; constant for half of the steps, then falling to almost zero.
        bound: C, the norm to which the gradient of one record is clipped.
    """

    steps: int
    rate: float
    bound: float

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.bound > 0:
            raise RecipeError(
                f"a teacher needs at least one step and a positive bound, got {self.steps} and {self.bound}."
            )


@dataclass(frozen=True)
class LinearTeacher:
    """A private linear classifier of wavelet moduli, which says what the generator's images are.

    How it learns depends on the noise per row: σ of its whole share, divided by the public number of rows. With
    little noise, longer lessons at a higher rate pay off. The plan decides, and keeps only the lessons it took.

    Args:
        lessons: when there is much noise, or the number of rows is not public.
        quiet_lessons: when there is at most `quiet` noise per row; None takes `lessons` always.
        quiet: the noise per row from which on the others are taken.
        momentum: of the gradient descent.
        contrast: factor on the centred features before their norm is clipped to 1.
        guidance: weight of the teacher's cross-entropy in the generator's loss; free.
        certainty: an image is drawn again until the teacher gives the class asked for at least this probability; 0
            takes every image and the class that the teacher sees in it. Free.
        mean_share: the part of the budget that the noisy mean of the features takes.
        share: the part of the budget that all steps together take.
    """

    lessons: Lessons = Lessons(steps=60, rate=80.0, bound=1.0)
    quiet_lessons: Lessons | None = None
    quiet: float = 2e-5
    momentum: float = 0.9
    contrast: float = 4.0
    guidance: float = 0.02
    certainty: float = 0.95
    mean_share: float = 0.04
    share: float = 0.41

    def __post_init__(self) -> None:
        _check_share("teacher", self.share)
        _check_share("feature mean", self.mean_share)
        if not 0 <= self.certainty < 1:
            raise RecipeError(f"a teacher's certainty is a probability below 1, got {self.certainty}.")

    def at_noise(self, noise_per_row: float | None) -> LinearTeacher:
        """The same teacher with the one kind of lessons that suits the noise; None if that is not public."""
        if self.quiet_lessons is None or noise_per_row is None or noise_per_row > self.quiet:
            return replace(self, quiet_lessons=None)
        return replace(self, lessons=self.quiet_lessons, quiet_lessons=None)


@dataclass(frozen=True)
class Warp:
    """Random distortions of generated images, drawn uniformly from ± these values.

    Args:
        rotation: angle in radians.
        scale: relative change of each side.
        shear: of the horizontal axis.
        shift: along each axis, as a part of the image's side.
    """

    rotation: float = 0.17
    scale: float = 0.1
    shear: float = 0.15
    shift: float = 1 / 14


def _check_share(what: str, share: float) -> None:
    if not 0 < share <= 1:
        raise RecipeError(f"the {what}'s share of the budget must lie in (0, 1], got {share}.")
