"""A private GAN system as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from understudy.dpsgd.clipping import (
    Clipping,
    GlobalClip,
    JointClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    SeparateClip,
)
from understudy.dpsgd.objectives import Objective, Wasserstein, WassersteinPenalty
from understudy.errors import RecipeError
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.schema import CodeSchema, ImageSchema, TableSchema, unit_words
from understudy.synthesizers.gan.parts import (
    ConvCritic,
    DeconvGenerator,
    DenseCritic,
    DenseGenerator,
    PublicWarmStart,
)
from understudy.synthesizers.prospect import Prospect
from understudy.synthesizers.protocol import Asked, Fixed, RecipeDefaults, Steps
from understudy.synthesizers.shared.beginning import asked_labels
from understudy.synthesizers.shared.parts import (
    LABELS,
    Adam,
    Latent,
    Optimiser,
    Sgd,
    asked_rows,
    check_positive,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from understudy.dpsgd.step import CriticStep
    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.gan.fit import GanFitter
    from understudy.synthesizers.gan.model import GanModel

__all__ = ["TRAINING", "GanRecipe"]

TRAINING = "training"

_FEW = 20_000
"""Records below which a plan says that a critic may learn little."""


@dataclass(frozen=True, kw_only=True)
class GanRecipe(RecipeDefaults):
    """Everything that distinguishes one private GAN from another.

    Of `noise_multiplier` and `steps` at least one must be given, here or to `plan`; the other follows from the budget.

    Args:
        name: how the command line calls it.
        summary: one line for the table of recipes.
        source: the publication it follows.
        objective: what critic and generator play for.
        generator: the network that is released.
        critic: the network that sees private records; it is discarded after training.
        conditional: whether both networks are told the label.
        latent: the generator's input noise.
        label_noise: standard deviation of the noise on the class counts that labels of fakes are drawn by.
        critic_optimiser: how the noisy gradient moves the critic.
        generator_optimiser: how the generator follows the critic.
        clipping: how one record's influence is bounded.
        batch: the expected number of records in a batch.
        noise_multiplier: σ, or None to calibrate it.
        steps: critic steps T, or None to take as many as the budget allows.
        critic_steps: critic steps before each generator step.
        split_updates: whether a critic step is two updates: a noisy one on records, then a free one on fakes at the
            weights that the first one left. The optimiser's schedule counts updates.
        clamp: bound on every critic weight after each step (Wasserstein without penalty), or None.
        generator_clip: bound on the norm of the generator's gradient, or None. It has no effect on privacy.
        unit_range: show the critic pixels in [0, 1] instead of [−1, 1], and make the generator's last activation a
            sigmoid of that range; for conditional dense networks on images.
        averaging: decay of the generator's moving average, or None.
        warm_start: training on public records before the first private step, or None.
    """

    kind: ClassVar[str] = "gan"
    name: str
    summary: str
    source: str
    objective: Objective = field(default_factory=Wasserstein)
    generator: DenseGenerator | DeconvGenerator = field(default_factory=DenseGenerator)
    critic: DenseCritic | ConvCritic = field(default_factory=DenseCritic)
    conditional: bool = True
    latent: Latent = field(default_factory=Latent)
    label_noise: float = 20.0
    critic_optimiser: Optimiser = field(default_factory=Sgd)
    generator_optimiser: Optimiser = field(default_factory=Adam)
    clipping: Clipping = field(default_factory=lambda: GlobalClip(1.0))
    batch: int
    noise_multiplier: float | None = None
    steps: int | None = None
    critic_steps: int = 1
    split_updates: bool = False
    clamp: float | None = None
    generator_clip: float | None = None
    unit_range: bool = False
    averaging: float | None = None
    warm_start: PublicWarmStart | None = None

    def __post_init__(self) -> None:
        check_positive(self.name, batch=self.batch, noise_multiplier=self.noise_multiplier, steps=self.steps)
        check_positive(
            self.name, clamp=self.clamp, critic_steps=self.critic_steps, label_noise=self.label_noise
        )
        check_positive(self.name, generator_clip=self.generator_clip)
        dense = isinstance(self.critic, DenseCritic) and isinstance(self.generator, DenseGenerator)
        if self.unit_range and not (
            dense and self.conditional and not isinstance(self.objective, WassersteinPenalty)
        ):
            raise RecipeError(
                f"recipe {self.name!r}: the unit range is for conditional dense networks without a gradient penalty."
            )
        if self.averaging is not None and not 0 <= self.averaging < 1:
            raise RecipeError(f"recipe {self.name!r}: averaging is a decay in [0, 1), got {self.averaging}.")
        if self.split_updates and (isinstance(self.objective, WassersteinPenalty) or self.clipping.paired):
            raise RecipeError(
                f"recipe {self.name!r}: updates cannot be split where a record is paired with a fake, as in a "
                "gradient penalty and in joint clipping."
            )

    def sees(self, schema: Schema) -> Schema:
        """Without a label, if neither network is told it: a table then keeps it as an ordinary column."""
        if self.conditional:
            return schema
        match schema:
            case ImageSchema():
                return replace(schema, classes=None, label_weights=None)
            case TableSchema() | CodeSchema():
                return replace(schema, label=None, label_weights=None)

    def refuses(self, schema: Schema) -> str | None:
        """Convolutions need images."""
        convolutional = isinstance(self.generator, DeconvGenerator) or isinstance(self.critic, ConvCritic)
        if convolutional and not isinstance(schema, ImageSchema):
            return (
                f"recipe {self.name!r} has convolutional networks and needs images, but the schema describes "
                f"{schema.kind}. Use a recipe with dense networks, such as dp-cgan."
            )
        if self.unit_range and not isinstance(schema, ImageSchema):
            return (
                f"recipe {self.name!r} shows pixels in [0, 1] and needs images, but the schema describes "
                f"{schema.kind}. Use a recipe without unit_range, such as dp-cgan."
            )
        return None

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """Class counts where labels are told, then private steps."""
        labels = asked_labels(schema, Fixed(LABELS, self.label_noise)) if self.conditional else ()
        steps = Steps(TRAINING, self.batch, self.noise_multiplier, self.steps)
        return (*asked_rows(rows), *labels, steps)

    @property
    def learns_from_public(self) -> bool:
        """For a warm start, and for bounds that follow public gradients."""
        return self.warm_start is not None or isinstance(self.clipping, PublicAdaptiveClip)

    @property
    def one_thread(self) -> bool:
        """Convolutions profit from more."""
        return isinstance(self.critic, DenseCritic)

    @property
    def warm_steps(self) -> int:
        """Those of the warm start."""
        return 0 if self.warm_start is None else self.warm_start.steps

    @property
    def schedules(self) -> dict[str, int]:
        """The rates that fall beyond a warm start; optimisers count updates from its first step on."""
        warm = 0 if self.warm_start is None else self.warm_start.steps
        turns = (
            self.critic_steps
            if self.warm_start is None
            else self.warm_start.critic_steps or self.critic_steps
        )
        ends = {
            "critic's rate": (self.critic_optimiser.decay_steps - warm) // (2 if self.split_updates else 1),
            "generator's rate": (self.generator_optimiser.decay_steps - warm // turns) * self.critic_steps,
        }
        return {what: end for what, end in ends.items() if end > 0}

    def varied(self, setting: str, value: float) -> GanRecipe:
        """Another clipping bound (`clip`), or another capacity of both networks."""
        if setting == "clip":
            return replace(self, clipping=_with_bound(self.name, self.clipping, value))
        if setting == "capacity":
            return replace(
                self,
                generator=self.generator.with_capacity(int(value)),
                critic=self.critic.with_capacity(int(value)),
            )
        return super().varied(setting, value)

    def rehearsed(self) -> GanRecipe:
        """Without its warm start."""
        return replace(self, warm_start=None)

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """How loud the noise of a step is beside the records in it, and that so few may not be enough for a critic."""
        step = next((one.mechanism for one in charges if isinstance(one.mechanism, SubsampledGaussian)), None)
        if step is None or rows is None:
            return None
        unit = unit_words(schema).many
        basis = (
            f"{rows:,} {unit}; a step sees about {step.sampling_rate * rows:,.0f} of them, with noise of "
            f"± {step.noise_multiplier:.3g} of them in every direction of its gradient"
        )
        few = (
            f"more than {rows:,} {unit}, fewer steps, or the recipe understudy: critics that took as many steps as for "
            "tens of thousands stayed near the floor on 8,000 labelled images at ε = 10"
        )
        return Prospect(basis, (), (few,) if rows < _FEW else ())

    def critic_step(self, schema: Schema) -> CriticStep:
        """The critic with its loss and rule."""
        from understudy.dpsgd.step import CriticStep
        from understudy.synthesizers.gan.critics import build_critic

        return CriticStep(build_critic(self, schema), self.objective, self.clipping, self.batch)

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> GanFitter:
        """The two networks and whose turn it is."""
        from understudy.synthesizers.gan.fit import GanFitter

        return GanFitter(self, schema, seed, device)

    def model(self, schema: Schema) -> GanModel:
        """The generator."""
        from understudy.synthesizers.gan.model import build_gan_model

        return build_gan_model(self, schema)


def _with_bound(recipe: str, clipping: Clipping, bound: float) -> Clipping:
    match clipping:
        case GlobalClip() | JointClip() | MicrobatchClip():
            return replace(clipping, bound=bound)
        case SeparateClip():
            return replace(clipping, real_bound=bound, fake_bound=bound)
    raise RecipeError(f"recipe {recipe!r} clips by {clipping.kind!r}, which has no single bound to vary.")
