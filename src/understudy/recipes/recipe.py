"""`Recipe`: a private GAN system as one frozen value."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

from understudy.dpsgd.clipping import Clipping, GlobalClip
from understudy.dpsgd.objectives import Objective, Wasserstein, WassersteinPenalty
from understudy.errors import RecipeError
from understudy.recipes.parts import (
    Adam,
    ConvCritic,
    DeconvGenerator,
    DenseCritic,
    DenseGenerator,
    FixedCriticSteps,
    LabelPrior,
    Latent,
    LatentClasses,
    LinearTeacher,
    MeanEmbedding,
    NoisyCodeCounts,
    NoisyLabelHistogram,
    NoisyMarginals,
    NoWarmStart,
    Optimiser,
    RisingCriticSteps,
    Sgd,
    SharedLabelHistogram,
    Statistic,
    UpsamplingGenerator,
    WarmStart,
    Warp,
)

__all__ = ["Recipe"]

_CRITIC_FIELDS = frozenset(
    [
        "objective",
        "critic",
        "critic_optimiser",
        "clipping",
        "turns",
        "split_updates",
        "clamp",
        "spectral_bound",
        "warm_start",
    ]
)
"""What is about the critic alone."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that distinguishes one private GAN from another.

    A recipe holds no data set, no budget and no row count; `understudy.plan` adds those. Of
    `noise_multiplier` and `steps` at least one must be given, here or to `plan`; the other follows from the
    budget.

    With a `statistic` there is no critic: the generator learns from what is published of the records at the start.
    `steps` and `batch` are then those of the generator, which are free. Fields about the critic stay at their defaults
    in such a recipe and are not written.

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: the publication it follows.
        objective: what critic and generator play for.
        generator: the network that is released.
        critic: the network that sees private records; it is discarded after training.
        conditional: whether both networks are told the label.
        latent: the generator's input noise.
        labels: where the labels of fakes come from.
        critic_optimiser: how the noisy gradient moves the critic.
        generator_optimiser: how the generator follows the critic.
        clipping: how one record's influence is bounded.
        batch: the expected number of records in a batch.
        noise_multiplier: σ, or None to calibrate it.
        steps: critic steps T, or None to take as many as the budget allows.
        turns: critic steps per generator step.
        split_updates: whether a critic step is two updates: a noisy one on records, then a free one on fakes at the
            weights that the first one left. The optimiser's schedule counts updates.
        clamp: bound on every critic weight after each step (Wasserstein without penalty), or None.
        spectral_bound: bound on the largest singular value of every critic weight after each step, or None.
        averaging: decay of the generator's moving average, or None.
        warm_start: what happens before the first private step.
        statistic: the private statistic that replaces the critic, or None; its kind says which data it is for.
        teacher: the private classifier that labels generated images, or None; needs a mean embedding.
        warp: distortions of generated images before they are labelled, or None; needs a mean embedding.
        tables: the recipe that takes over when the data is a table, or None.
        codes: the recipe that takes over when the data are codes, or None.
    """

    name: str
    summary: str
    source: str
    objective: Objective = field(default_factory=Wasserstein)
    generator: DenseGenerator | DeconvGenerator | UpsamplingGenerator | LatentClasses = field(
        default_factory=DenseGenerator
    )
    critic: DenseCritic | ConvCritic = field(default_factory=DenseCritic)
    conditional: bool = True
    latent: Latent = field(default_factory=Latent)
    labels: LabelPrior = field(default_factory=NoisyLabelHistogram)
    critic_optimiser: Optimiser = field(default_factory=Sgd)
    generator_optimiser: Optimiser = field(default_factory=Adam)
    clipping: Clipping = field(default_factory=lambda: GlobalClip(1.0))
    batch: int
    noise_multiplier: float | None = None
    steps: int | None = None
    turns: FixedCriticSteps | RisingCriticSteps = field(default_factory=FixedCriticSteps)
    split_updates: bool = False
    clamp: float | None = None
    spectral_bound: float | None = None
    averaging: float | None = None
    warm_start: WarmStart = field(default_factory=NoWarmStart)
    statistic: Statistic | None = None
    teacher: LinearTeacher | None = None
    warp: Warp | None = None
    tables: Recipe | None = None
    codes: Recipe | None = None

    @property
    def has_critic(self) -> bool:
        """Whether a critic sees private records; otherwise the generator learns from a private statistic."""
        return self.statistic is None

    @property
    def silent_fields(self) -> frozenset[str]:
        """The fields that are without effect in this recipe."""
        return frozenset() if self.has_critic else _CRITIC_FIELDS

    def __post_init__(self) -> None:
        if not self.name:
            raise RecipeError("a recipe needs a name.")
        if self.batch < 1:
            raise RecipeError(
                f"recipe {self.name!r}: the expected batch must be at least 1, got {self.batch}."
            )
        if self.noise_multiplier is not None and not self.noise_multiplier > 0:
            raise RecipeError(
                f"recipe {self.name!r}: the noise multiplier must be positive, got {self.noise_multiplier}."
            )
        if self.steps is not None and self.steps < 1:
            raise RecipeError(f"recipe {self.name!r}: steps must be at least 1, got {self.steps}.")
        if self.averaging is not None and not 0 <= self.averaging < 1:
            raise RecipeError(f"recipe {self.name!r}: averaging is a decay in [0, 1), got {self.averaging}.")
        for word, bound in (("clamp", self.clamp), ("spectral_bound", self.spectral_bound)):
            if bound is not None and not bound > 0:
                raise RecipeError(f"recipe {self.name!r}: {word} must be positive, got {bound}.")
        if self.split_updates and (isinstance(self.objective, WassersteinPenalty) or self.clipping.paired):
            raise RecipeError(
                f"recipe {self.name!r}: updates cannot be split where a record is paired with a fake, as in a "
                "gradient penalty and in joint clipping."
            )
        self._check_statistic()

    def _check_statistic(self) -> None:
        """What goes with a private statistic only, and what cannot go with one."""
        if not isinstance(self.statistic, MeanEmbedding) and (self.teacher or self.warp):
            raise RecipeError(
                f"recipe {self.name!r}: a teacher and a warp need a mean embedding; add one, or take them out."
            )
        if self.has_critic and isinstance(self.labels, SharedLabelHistogram):
            raise RecipeError(
                f"recipe {self.name!r}: a shared label histogram needs a private statistic; "
                "with a critic choose a noisy histogram."
            )
        if not self.has_critic and (not self.conditional or self.steps is None):
            raise RecipeError(
                f"recipe {self.name!r}: without a critic a recipe is conditional and needs generator steps."
            )
        for one in fields(self):
            default = one.default if one.default_factory is MISSING else one.default_factory()
            if one.name in self.silent_fields and getattr(self, one.name) != default:
                raise RecipeError(
                    f"recipe {self.name!r}: {one.name} is about a critic, and this recipe has none; take it out."
                )
        counted = isinstance(self.statistic, (NoisyMarginals, NoisyCodeCounts))
        if isinstance(self.generator, LatentClasses) != counted:
            raise RecipeError(
                f"recipe {self.name!r}: a generator of latent classes goes with marginals or code counts, and with "
                "nothing else."
            )
        for part, what, kind in (
            (self.tables, "tables", NoisyMarginals),
            (self.codes, "codes", NoisyCodeCounts),
        ):
            if part is not None and not (
                isinstance(part.statistic, kind) and part.tables is part.codes is None
            ):
                raise RecipeError(
                    f"recipe {self.name!r}: the recipe for {what} needs a statistic of kind {kind.kind!r} and no "
                    "recipes in it."
                )
