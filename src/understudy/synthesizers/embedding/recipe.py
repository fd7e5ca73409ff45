"""Images by a mean embedding: the recipe and its parts, as values without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from understudy.errors import RecipeError
from understudy.privacy.mechanisms import GaussianRelease
from understudy.schema import Augmentation, ImageSchema, unit_words
from understudy.synthesizers.prospect import Answer, Prospect, Reach, noises, reach_of, rows_in_classes
from understudy.synthesizers.protocol import Asked, RecipeDefaults, Share
from understudy.synthesizers.shared.beginning import asked_labels
from understudy.synthesizers.shared.parts import (
    LABELS,
    Adam,
    Latent,
    Optimiser,
    asked_rows,
    check_positive,
    check_share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.embedding.fit import EmbeddingFitter
    from understudy.synthesizers.embedding.model import ImageModel

__all__ = [
    "CRITIC",
    "EMBEDDING",
    "FEATURE_MEAN",
    "GROUPS",
    "LABELLER",
    "UNDERSTUDY_GAN",
    "UNDERSTUDY_GAN_PURE",
    "UNDERSTUDY_IMAGES",
    "EmbeddingRecipe",
    "FeatureCritic",
    "Grouping",
    "Lessons",
    "LinearLabeller",
    "MeanEmbedding",
    "UpsamplingGenerator",
    "Warp",
]

EMBEDDING, FEATURE_MEAN, LABELLER = "mean embedding", "feature mean", "labeller"
GROUPS, CRITIC = "groups", "critic"
_UNKNOWN_ROWS = 1_000
"""The number of groups is chosen as for so many images where their number is not public."""
_SMALLEST = 8
"""Fewer pixels along a side leave nothing for the wavelets."""


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
        check_share("mean embedding", self.share)
        lengths = (*self.pixel_lengths, *self.wavelet_lengths)
        if not lengths or any(not 0 < length < math.inf for length in lengths):
            raise RecipeError(f"a mean embedding needs positive length scales, got {lengths}.")
        if min(self.pixel_frequencies, self.wavelet_frequencies) < 1:
            raise RecipeError("a mean embedding needs at least one frequency for each length scale.")

    @property
    def features(self) -> int:
        """How many there are: a cosine and a sine of each frequency."""
        pixels = len(self.pixel_lengths) * self.pixel_frequencies
        return 2 * (pixels + len(self.wavelet_lengths) * self.wavelet_frequencies)


@dataclass(frozen=True)
class Lessons:
    """How a labeller learns: full-batch gradient steps, each one Gaussian release.

    Args:
        steps: how many; all together cost the labeller's share, however many they are.
        rate: learning rate; constant for half of the steps, then falling to almost zero.
        bound: C, the norm to which the gradient of one record is clipped.
    """

    steps: int
    rate: float
    bound: float

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.bound > 0:
            raise RecipeError(
                f"a labeller needs at least one step and a positive bound, got {self.steps} and {self.bound}."
            )


@dataclass(frozen=True)
class LinearLabeller:
    """A private linear classifier of wavelet moduli, which says what the generator's images are.

    How it learns depends on the noise per row: σ of its whole share, divided by the public number of rows. With
    little noise, longer lessons at a higher rate pay off. The plan decides, and keeps only the lessons it took.

    Args:
        lessons: when there is much noise, or the number of rows is not public.
        quiet_lessons: when there is at most `quiet` noise per row; None takes `lessons` always.
        quiet: the noise per row from which on the others are taken.
        momentum: of the gradient descent.
        contrast: factor on the centred features before their norm is clipped to 1.
        guidance: weight of the labeller's cross-entropy in the generator's loss; free.
        certainty: an image is drawn again until the labeller gives the class asked for at least this probability; 0
            takes every image and the class that the labeller sees in it. Free.
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
        check_share("labeller", self.share)
        check_share("feature mean", self.mean_share)
        if not 0 <= self.certainty < 1:
            raise RecipeError(f"a labeller's certainty is a probability below 1, got {self.certainty}.")

    def at_noise(self, noise_per_row: float | None) -> LinearLabeller:
        """The same labeller with the one kind of lessons that suits the noise; None if that is not public."""
        if self.quiet_lessons is None or noise_per_row is None or noise_per_row > self.quiet:
            return replace(self, quiet_lessons=None)
        return replace(self, lessons=self.quiet_lessons, quiet_lessons=None)


@dataclass(frozen=True, kw_only=True)
class FeatureCritic(MeanEmbedding):
    """A critic that the generator plays against: a linear score for each class of such features as an embedding has.

    Its steps are full-batch gradients, each one Gaussian release. They are spread evenly over the generator's steps, at
    most one before each, so that in a run of very few of these some are never drawn. Another seed than the embedding's
    shows it what that cannot see.

    Args:
        steps: how many; all together cost the critic's share, however many they are.
        start: the part of the generator's steps that lies before the first of them.
        rate: learning rate, falling linearly to almost zero.
        momentum: of the gradient descent; with much of it the critic lags behind the generator.
        decay: what is added to the gradient, times the weights: it keeps the scores small.
        bound: C, the norm to which the gradient of one record is clipped; without clipping it is at most 1.
        fakes: generated images that it compares records with in each step.
        weight: of its verdict in the generator's loss; free.
    """

    pixel_frequencies: int = 150
    wavelet_frequencies: int = 300
    seed: int = 4321
    share: float = 0.25
    steps: int = 150
    start: float = 0.5
    rate: float = 20.0
    momentum: float = 0.5
    decay: float = 5e-3
    bound: float = 0.5
    fakes: int = 300
    weight: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("critic", steps=self.steps, rate=self.rate, bound=self.bound, fakes=self.fakes)
        if not (0 <= self.start < 1 and 0 <= self.momentum < 1 and self.decay >= 0):
            raise RecipeError(
                "a critic's start and momentum lie in [0, 1) and its decay is not negative, got "
                f"{self.start}, {self.momentum} and {self.decay}."
            )


@dataclass(frozen=True)
class Grouping:
    """Groups of alike images, which serve as classes where images have no labels.

    Args:
        count: how many; the plan takes fewer where noise would drown them.
        rounds: of k-means; all together cost the share, however many they are.
        sharpness: how steeply the parts of groups in an image fall with half the squared distance to their centres.
        certainty: an image is drawn again until it has at least this probability of the group asked for; free.
        loudest: the noise per row, times the number of groups, that is still quiet enough for a centre.
        share: the part of the budget that all rounds together take.
    """

    count: int = 50
    rounds: int = 12
    sharpness: float = 30.0
    certainty: float = 0.9
    loudest: float = 0.01
    share: float = 0.41

    def __post_init__(self) -> None:
        check_share("groups", self.share)
        if self.count < 1 or self.rounds < 2:
            raise RecipeError(f"there must be a group and two rounds, got {self.count} and {self.rounds}.")
        if not 0 <= self.certainty < 1:
            raise RecipeError(f"a certainty is a probability below 1, got {self.certainty}.")

    def at_noise(self, noise_per_row: float) -> Grouping:
        """As many groups as the noise of one round allows."""
        most = self.count if noise_per_row == 0 else int(self.loudest / noise_per_row)
        return replace(self, count=max(1, min(self.count, most)))


@dataclass(frozen=True)
class Warp:
    """Random distortions of generated images, drawn uniformly from ± these values.

    Args:
        rotation: angle in radians.
        scale: relative change of each side.
        shear: of the horizontal axis.
        shift: along each axis, as a part of the image's side.
        mirrored: whether left and right change places for half of the images.
    """

    rotation: float = 0.17
    scale: float = 0.1
    shear: float = 0.15
    shift: float = 1 / 14
    mirrored: bool = False


@dataclass(frozen=True)
class UpsamplingGenerator:
    """Dense layers with a batch normalisation per class, then one upsampling from half size (images only)."""

    hidden: tuple[int, ...] = (512, 1024)
    channels: int = 8


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecipe(RecipeDefaults):
    """A generator of labelled images fitted to a private mean embedding, with a private labeller of what it makes.

    It may also play against a private critic: after the embedding, or without one (a GAN from random weights).

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: where it is described.
        embedding: the statistic that is published, or None where a critic alone is followed.
        labeller: the private classifier that labels generated images, or None.
        critic: the adversary, or None.
        grouping: how images without labels are grouped.
        warp: distortions of generated images before they are labelled, where the schema lets images be warped; or None.
        mirror: the same where the schema lets them be mirrored.
        generator: the network that is released.
        latent: the generator's input noise.
        optimiser: how the generator follows the statistic; its rate falls over all steps.
        averaging: decay of the generator's moving average, or None.
        batch: images per generator step, all classes together.
        steps: generator steps, which are free.
        class_share: the part of the budget (of 1/σ²) that the class counts take.
    """

    kind: ClassVar[str] = "embedding"
    name: str
    summary: str
    source: str
    embedding: MeanEmbedding | None = None
    labeller: LinearLabeller | None = None
    critic: FeatureCritic | None = None
    grouping: Grouping = field(default_factory=Grouping)
    warp: Warp | None = None
    mirror: Warp | None = None
    generator: UpsamplingGenerator = field(default_factory=UpsamplingGenerator)
    latent: Latent = field(default_factory=lambda: Latent(64))
    optimiser: Optimiser = field(default_factory=Adam)
    averaging: float | None = None
    batch: int = 200
    steps: int = 2_000
    class_share: float = 0.05

    def __post_init__(self) -> None:
        check_positive(self.name, batch=self.batch, steps=self.steps)
        check_share("class counts", self.class_share)
        if self.averaging is not None and not 0 <= self.averaging < 1:
            raise RecipeError(f"recipe {self.name!r}: averaging is a decay in [0, 1), got {self.averaging}.")
        if self.embedding is None and self.critic is None:
            raise RecipeError(f"recipe {self.name!r} has neither an embedding nor a critic to learn from.")

    def refuses(self, schema: Schema) -> str | None:
        """Anything but images that are large enough for wavelets."""
        cure = "Use a recipe with a critic, such as small-images or dp-cgan."
        if not isinstance(schema, ImageSchema):
            return f"recipe {self.name!r} makes images, not {schema.kind}. {cure}"
        if schema.classes is None and self.critic is not None:
            return f"recipe {self.name!r} needs labelled images. Declare classes, or use understudy-images."
        if min(schema.height, schema.width) < _SMALLEST:
            size = f"{schema.height}×{schema.width}"
            return f"recipe {self.name!r} needs images of at least {_SMALLEST}×{_SMALLEST} pixels, got {size}. {cure}"
        return None

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """Class counts, the embedding, and what labeller and critic learn from; or groups, if there are no classes."""
        if schema is not None and schema.label_classes is None:
            return self._releases_of_groups(rows)
        asked: list[Asked] = [*asked_rows(rows), *asked_labels(schema, Share(LABELS, self.class_share))]
        if self.embedding is not None:
            asked.append(Share(EMBEDDING, self.embedding.share))
        if self.labeller is not None:
            asked.append(Share(FEATURE_MEAN, self.labeller.mean_share))
            asked.append(Share(LABELLER, self.labeller.share, self.labeller.lessons.steps))
        if self.critic is not None:
            asked.append(Share(CRITIC, self.critic.share, self.critic.steps))
        return tuple(asked)

    def _releases_of_groups(self, rows: int | None) -> tuple[Asked, ...]:
        assert self.embedding is not None
        mean = LinearLabeller().mean_share if self.labeller is None else self.labeller.mean_share
        grouping = Share(GROUPS, self.grouping.share, self.grouping.rounds)
        return (
            *asked_rows(rows),
            Share(FEATURE_MEAN, mean),
            grouping,
            Share(EMBEDDING, self.embedding.share),
        )

    def settled(self, charges: Sequence[Charge], rows: int | None) -> EmbeddingRecipe:
        """The recipe with the lessons or the number of groups that suit their noise per row."""
        sigma = noises(charges)
        if GROUPS in sigma:
            return replace(self, grouping=self.grouping.at_noise(sigma[GROUPS] / (rows or _UNKNOWN_ROWS)))
        if self.labeller is None:
            return self
        noise = 0.0
        for charge in charges:
            if charge.purpose == LABELLER and isinstance(charge.mechanism, GaussianRelease):
                noise = charge.mechanism.noise_multiplier / math.sqrt(charge.mechanism.count)
        return replace(self, labeller=self.labeller.at_noise(None if rows is None else noise / rows))

    def warp_for(self, schema: ImageSchema) -> Warp | None:
        """How generated images are varied: as the schema says, else grey ones are warped and colour is mirrored."""
        match schema.augmentation or (Augmentation.WARP if schema.channels == 1 else Augmentation.MIRROR):
            case Augmentation.WARP:
                return self.warp
            case Augmentation.MIRROR:
                return self.mirror
            case Augmentation.NONE:
                return None

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """The noise of class counts and of a whole embedding, whose length is at most the rows of a class."""
        unit, sigma = unit_words(schema).many, noises(charges)
        classes = len(schema.label_classes or ("all",))
        held = None if rows is None else rows / classes
        loud = {LABELS: ("class", 1.0)}
        if self.embedding is not None:
            loud[EMBEDDING] = ("embedding of a class", math.sqrt(self.embedding.features))
        answers, useless = [], None
        for purpose in (one for one in loud if one in sigma):
            each, noise = loud[purpose][0], sigma[purpose] * loud[purpose][1]
            reach = reach_of(held, noise)
            reach = Reach.FAINT if reach is Reach.LOST else reach
            answers.append(Answer(purpose, each, noise, held, reach, unit))
        if held is not None and sigma.get(EMBEDDING, 0.0) > held:
            useless = (
                f"noise of ± {sigma[EMBEDDING]:,.0f} {unit} in every direction drowns all that a class's images say: "
                f"{rows:,} in {classes} classes are too few for this budget"
            )
        return Prospect(rows_in_classes(rows, classes, unit), tuple(answers), (), useless)

    def rehearsed(self) -> EmbeddingRecipe:
        """With a critic that is asked before every step, and few images: what is left out reads no private record."""
        if self.critic is None:
            return self
        critic = replace(self.critic, start=0.0, fakes=1)
        return replace(self, critic=critic, steps=critic.steps, batch=1)

    @property
    def one_thread(self) -> bool:
        """Its generator is large."""
        return False

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> EmbeddingFitter:
        """The free training towards the published embedding."""
        from understudy.synthesizers.embedding.fit import EmbeddingFitter

        return EmbeddingFitter(self, schema, seed, device)

    def model(self, schema: Schema) -> ImageModel:
        """The generator and its labeller."""
        from understudy.synthesizers.embedding.model import build_image_model

        return build_image_model(self, schema)


UNDERSTUDY_IMAGES = EmbeddingRecipe(
    name="understudy-images",
    summary="generator fitted to a noisy mean embedding of images, with a private labeller",
    source="Understudy, docs/images.md",
    embedding=MeanEmbedding(),
    labeller=LinearLabeller(quiet_lessons=Lessons(steps=150, rate=200.0, bound=0.5)),
    warp=Warp(),
    mirror=Warp(rotation=0.0, scale=0.0, shear=0.0, shift=1 / 16, mirrored=True),
    optimiser=Adam(rate=4e-3, final_rate=8e-5, beta1=0.5, beta2=0.99),
    averaging=0.99,
)

UNDERSTUDY_GAN = replace(
    UNDERSTUDY_IMAGES,
    name="understudy-gan",
    summary="understudy-images, refined against a private critic of wavelet features",
    embedding=MeanEmbedding(share=0.35),
    labeller=LinearLabeller(quiet_lessons=Lessons(steps=150, rate=200.0, bound=0.5), share=0.31),
    critic=FeatureCritic(),
)

UNDERSTUDY_GAN_PURE = replace(
    UNDERSTUDY_GAN,
    name="understudy-gan-pure",
    summary="GAN from random weights: a private critic of wavelet features and a labeller, no embedding",
    embedding=None,
    labeller=LinearLabeller(quiet_lessons=Lessons(steps=150, rate=200.0, bound=0.5), guidance=0.1),
    critic=FeatureCritic(steps=500, start=0.0, weight=1.0, share=0.5),
)
