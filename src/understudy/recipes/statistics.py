"""What a generator can learn from without a critic: statistics that are published once, with noise.

Frozen values without behaviour, like all parts of a recipe (`parts`, which also exports these).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from understudy.errors import RecipeError

__all__ = [
    "Lessons",
    "LinearTeacher",
    "MeanEmbedding",
    "NoisyCodeCounts",
    "NoisyMarginals",
    "Statistic",
    "Warp",
    "check_share",
]


def check_share(what: str, share: float) -> None:
    """Refuse what is no share of a budget."""
    if not 0 < share <= 1:
        raise RecipeError(f"the {what}'s share of the budget must lie in (0, 1], got {share}.")


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

    kind: ClassVar[str] = "mean-embedding"
    pixel_lengths: tuple[float, ...] = (10.0, 5.0)
    wavelet_lengths: tuple[float, ...] = (2.0, 1.0)
    pixel_frequencies: int = 300
    wavelet_frequencies: int = 600
    seed: int = 1234
    share: float = 0.5

    def __post_init__(self) -> None:
        check_share("mean embedding", self.share)
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

    kind: ClassVar[str] = "marginals"
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
        check_share("column counts", self.column_share)
        for what, share in (("label pairs", self.label_share), ("column pairs", self.pair_share)):
            if share != 0:
                check_share(what, share)
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
class NoisyCodeCounts:
    """Noisy counts of how many codes records have, of codes, of codes in pairs, and of how often codes are repeated.

    The influence of a record is bounded by how many codes it has, not by how many there are.

    Args:
        longest: records with more different codes count as having this many.
        covered: the share of records that count with all their codes; longer ones take part with some of them.
        frequent: how many of the most frequent codes are compared in pairs.
        repeats: the length to which a record's vector of repetitions is shortened; for counted codes only.
        length_share: the part of the budget (of 1/σ²) that the counts of lengths take.
        code_share: the part that the counts of codes take.
        pair_share: the part that pairs take; 0 leaves them out.
        repeat_share: the part that repetitions take where codes are counted.
    """

    kind: ClassVar[str] = "code-counts"
    longest: int = 64
    covered: float = 0.99
    frequent: int = 256
    repeats: float = 4.0
    length_share: float = 0.05
    code_share: float = 0.4
    pair_share: float = 0.5
    repeat_share: float = 0.1

    def __post_init__(self) -> None:
        for what in ("length", "code", "repeat"):
            check_share(f"{what} counts", getattr(self, f"{what}_share"))
        if self.pair_share != 0:
            check_share("code pairs", self.pair_share)
        if self.longest < 1 or self.frequent < 2 or not self.repeats > 0:
            raise RecipeError(
                "code counts need a positive longest record and length of repetitions, and at least two codes in "
                f"pairs, got {self.longest}, {self.repeats} and {self.frequent}."
            )
        if not 0 < self.covered <= 1:
            raise RecipeError(f"the share of covered records must lie in (0, 1], got {self.covered}.")


Statistic = MeanEmbedding | NoisyMarginals | NoisyCodeCounts
"""What a generator of images, of tables and of codes learns from."""


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
        check_share("teacher", self.share)
        check_share("feature mean", self.mean_share)
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
