"""The systems of five papers, as their texts describe them and with the privacy done right.

Each carries the number of steps that it was measured with, for which its rates were chosen; the noise follows from the
budget. The settings that the papers print are in `printed.py`. Where a paper's text and its published code disagree,
the text is followed for the algorithm and the code for numbers that the text leaves out; `understudy reproduce claims`
shows what the difference costs.
"""

from __future__ import annotations

import re
from dataclasses import replace

from understudy.dpsgd.clipping import (
    Clipping,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    SeparateClip,
    WeightsBiasesClip,
    cluster,
)
from understudy.dpsgd.objectives import Minimax, Wasserstein, WassersteinPenalty
from understudy.errors import RecipeError
from understudy.synthesizers.gan.parts import (
    Activation,
    ConvCritic,
    DeconvGenerator,
    DenseCritic,
    DenseGenerator,
    PublicWarmStart,
)
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.shared.parts import Adam, Latent, LatentLaw, RmsProp, Sgd

__all__ = [
    "CGAN",
    "DPGAN",
    "DP_CGAN",
    "DP_CGAN_BASIC",
    "DP_CGAN_TF2",
    "DP_CGAN_TF2_LEAKY",
    "DP_CGAN_TF2_MICROBATCH",
    "DP_CGAN_TF2_SPLIT",
    "DP_GAN",
    "DP_GAN_BASIC",
    "PPGAN",
    "PPGAN_SGD",
    "SMALL_IMAGES",
    "dp_cgan_tf2",
    "dp_gan",
    "small_images",
    "variant",
]

_HEARD = DenseCritic(label_weight=1.0)
"""The papers' critic, with labels as long as records. Beside 784 pixels a label of length 1 gets a 28th of a clipped
gradient, and the critic never learns what it means. Chosen on handwritten digits of USPS, which are public."""

DP_CGAN = GanRecipe(
    name="dp-cgan",
    summary="conditional GAN, real and fake gradients clipped apart",
    source="Torkzadehmahani, Kairouz, Paten: DP-CGAN, CVPR workshops 2019",
    objective=Minimax(),
    latent=Latent(100, LatentLaw.UNIFORM),
    critic_optimiser=Sgd(rate=0.15, final_rate=0.052, decay_steps=10_000),
    generator_optimiser=Adam(rate=1e-3),
    critic=_HEARD,
    clipping=SeparateClip(real_bound=1.1, fake_bound=1.1),
    batch=600,
    steps=4_000,
    averaging=0.998,
)

CGAN = replace(
    DP_CGAN,
    name="cgan",
    summary="dp-cgan for baselines without noise: Adam, since the critic's rate of 0.15 is unstable without clipping",
    critic_optimiser=Adam(rate=5e-4, beta1=0.5),
    generator_optimiser=Adam(rate=5e-4, beta1=0.5),
)

DP_CGAN_BASIC = replace(
    DP_CGAN,
    name="dp-cgan-basic",
    summary="the baseline of dp-cgan: one bound on the summed loss of a real and a fake",
    clipping=JointClip(bound=1.1),
)


def dp_cgan_tf2(
    microbatches: int = 600, *, leaky: bool = False, split: bool = False, batch: int = 600
) -> GanRecipe:
    """The system of the dp-cgan-tf2 report for one row of its Table 1.

    Args:
        microbatches: m, how many clipped gradients a batch gives. m = B clips every record on its own; m < B clips
            means of B/m records, whose sensitivity is 2C, so that the noise doubles for the same ε.
        leaky: LeakyReLU of slope 0.2 instead of ReLU.
        split: one critic update on records and then one on fakes, instead of one on both. Only the first one is
            private, so a step costs the same.
        batch: B.

    Raises:
        RecipeError: the microbatches do not divide the batch.
    """
    if microbatches < 1 or batch % microbatches:
        raise RecipeError(f"{microbatches} microbatches do not divide a batch of {batch}: choose a divisor.")
    size = batch // microbatches
    clipping: Clipping = SeparateClip(1.1, 1.1) if size == 1 else MicrobatchClip(1.1, size)
    activation = Activation.LEAKY_RELU if leaky else Activation.RELU
    own = "-leaky" * leaky + "-split" * split + ("" if size == 1 else f"-m{microbatches}")
    changes = ", LeakyReLU" * leaky + ", reals and fakes in separate updates" * split
    clipped = "one clipped gradient per record" if size == 1 else f"{microbatches} clipped mean(s) per batch"
    return replace(
        DP_CGAN,
        name=f"dp-cgan-tf2{own}",
        summary=f"dp-cgan in TensorFlow 2: {clipped}{changes}",
        source="Carvalho: DP-CGAN in TensorFlow 2 and the thyroid study, 2019",
        latent=Latent(100, LatentLaw.NORMAL),
        generator=DenseGenerator(activation=activation),
        critic=replace(_HEARD, activation=activation),
        critic_optimiser=Sgd(rate=0.15, final_rate=0.052, decay_steps=20_000 if split else 10_000),
        clipping=clipping,
        batch=batch,
        split_updates=split,
    )


DP_CGAN_TF2 = dp_cgan_tf2()
DP_CGAN_TF2_MICROBATCH = dp_cgan_tf2(microbatches=1)
DP_CGAN_TF2_SPLIT = dp_cgan_tf2(split=True)
DP_CGAN_TF2_LEAKY = dp_cgan_tf2(leaky=True)

_PENALTY_CRITIC = Adam(rate=3e-3, final_rate=5e-4, decay_steps=2_500, beta1=0.5, beta2=0.9)
_PENALTY_GENERATOR = Adam(rate=2e-3, final_rate=3e-4, decay_steps=2_500, beta1=0.5, beta2=0.9)
"""Rates of the Wasserstein GANs with gradient penalty, chosen on enlarged digits of USPS. dp-gan prints 2e-3 for
both networks (its code has 2e-4) and small-images none (its code has 4e-4): see `printed.py`."""

DP_GAN_BASIC = GanRecipe(
    name="dp-gan-basic",
    summary="Wasserstein GAN with gradient penalty, one bound for all parameters",
    source="Zhang, Ji, Wang: Differentially private releasing via deep generative model, 2018",
    objective=WassersteinPenalty(weight=10.0),
    generator=DeconvGenerator(capacity=16),
    critic=ConvCritic(capacity=16),
    conditional=False,
    latent=Latent(128, LatentLaw.NORMAL),
    critic_optimiser=_PENALTY_CRITIC,
    generator_optimiser=_PENALTY_GENERATOR,
    clipping=JointClip(bound=4.0),
    batch=64,
    steps=1_000,
    critic_steps=4,
    averaging=0.995,
)

_CRITIC_WEIGHTS = tuple(f"body.{layer}.weight" for layer in (0, 2, 4, 7))
_CRITIC_BIASES = tuple(f"body.{layer}.bias" for layer in (0, 2, 4, 7))
"""The parameters of a `ConvCritic`: three convolutions and the linear score."""


_AFTER_WARM_START = 120
"""Private steps of the system with all four strategies: more of them undo what the warm start has learned."""


def dp_gan(
    *,
    separate_biases: bool = True,
    cluster_weights: bool = True,
    adapt_bounds: bool = True,
    warm_start: bool = True,
    groups: int = 5,
    warm_steps: int = 3_000,
) -> GanRecipe:
    """The dp-gan system with its four strategies as switches; all off is the basic one, all on the advanced.

    Every combination is noised by its joint sensitivity, so that ε depends on none of them.

    Args:
        separate_biases: S1, the biases are clipped as a group of their own.
        cluster_weights: S2, the parameters form `groups` groups of similar bounds (Algorithm 2). Beside S1 and S3 it
            merges nothing at k = 5: four weights and one group of biases are five groups.
        adapt_bounds: S3, the bound of each parameter is its mean gradient norm on public records, anew at every step.
        warm_start: S4, training without noise on public records comes first. Meanwhile the rates fall to a tenth, and
            there they stay, so that private steps do not undo what was learned.
        groups: k.
        warm_steps: how long it takes, in critic steps with one generator step each.
    """
    on = (separate_biases, cluster_weights, adapt_bounds, warm_start)
    own = "".join(f"s{number}" for number, switch in enumerate(on, 1) if switch)
    if not any(on):
        return DP_GAN_BASIC
    begun = _warm(DP_GAN_BASIC, warm_steps) if warm_start else DP_GAN_BASIC
    return replace(
        begun,
        name="dp-gan" if all(on) else f"dp-gan-{own}",
        summary="dp-gan-basic with " + ("all four strategies" if all(on) else f"strategies {own.upper()}"),
        clipping=_dp_gan_clipping(separate_biases, cluster_weights, adapt_bounds, groups),
        steps=_AFTER_WARM_START if all(on) else begun.steps,
    )


def _warm(recipe: GanRecipe, steps: int) -> GanRecipe:
    """The same with a warm start, during which the rates fall to a tenth."""
    critic, generator = (
        replace(part, final_rate=part.rate / 10, decay_steps=steps)
        for part in (recipe.critic_optimiser, recipe.generator_optimiser)
    )
    return replace(
        recipe,
        critic_optimiser=critic,
        generator_optimiser=generator,
        warm_start=PublicWarmStart(steps=steps, batch=recipe.batch, critic_steps=1),
    )


def _dp_gan_clipping(biases: bool, clustered: bool, adapted: bool, groups: int) -> Clipping:
    bound = 4.0
    if adapted:
        most = groups - biases if clustered else len(_CRITIC_WEIGHTS) + len(_CRITIC_BIASES) * (not biases)
        return PublicAdaptiveClip(most, separate_biases=biases, paired=True)
    if not clustered:
        return WeightsBiasesClip(bound, bound / 4, paired=True) if biases else JointClip(bound)
    if not biases:
        every = cluster(dict.fromkeys((*_CRITIC_WEIGHTS, *_CRITIC_BIASES), bound), groups)
        return replace(every, paired=True)
    merged = cluster(dict.fromkeys(_CRITIC_WEIGHTS, bound), groups - 1)
    return GroupedClip((*merged.bounds, bound / 4), (*merged.groups, _CRITIC_BIASES), paired=True)


DP_GAN = dp_gan()

PPGAN = GanRecipe(
    name="ppgan",
    summary="Wasserstein GAN with clamped weights, five critic steps",
    source="Liu, Peng, Yu, Wu: PPGAN, ICPADS 2019",
    objective=Wasserstein(),
    generator=DenseGenerator(hidden=(256, 512, 1024), activation=Activation.LEAKY_RELU),
    critic=DenseCritic(hidden=(1024, 512, 256), activation=Activation.LEAKY_RELU),
    conditional=False,
    latent=Latent(100, LatentLaw.NORMAL),
    critic_optimiser=RmsProp(rate=5e-4),
    generator_optimiser=RmsProp(rate=5e-4),
    clipping=JointClip(bound=0.01),
    batch=64,
    steps=3_000,
    critic_steps=5,
    clamp=0.01,
    averaging=0.98,
)
"""The paper's rates are a tenth of these, for 2,500,000 steps. With clamped weights gradients are short: a bound of 1
would leave nothing but noise; 0.01 is the paper's C. Chosen on enlarged digits of USPS."""

PPGAN_SGD = replace(
    PPGAN,
    name="ppgan-sgd",
    summary="ppgan as its Algorithm 1 writes it, with plain gradient descent",
    critic_optimiser=Sgd(rate=5e-4),
    generator_optimiser=Sgd(rate=5e-4),
)

DPGAN = replace(
    PPGAN,
    name="dpgan",
    summary="the DPGAN that ppgan compares with: convolutions, clamped weights, noise on the critic's gradients",
    source="Xie, Lin, Wang, Wang, Zhou: Differentially private generative adversarial network, 2018",
    generator=DeconvGenerator(capacity=32),
    critic=ConvCritic(capacity=32),
    steps=1_000,
)
"""Its text bounds gradients by the clamp alone and names no bound; here every record is clipped. Its published code
has batch normalisation in the critic, which mixes records and is left out; the capacity is ours."""

SMALL_IMAGES = replace(
    DP_GAN_BASIC,
    name="small-images",
    summary="small convolutional Wasserstein GAN with gradient penalty and Adam",
    source="Schwabedal, Michel, Riontino: Differentially private generation of small images, 2020",
    critic_optimiser=Adam(rate=2e-3, final_rate=7e-5, decay_steps=5_000, beta1=0.5, beta2=0.9),
    generator_optimiser=Adam(rate=3e-3, final_rate=1e-4, decay_steps=1_250, beta1=0.5, beta2=0.9),
    clipping=JointClip(bound=1.0),
    batch=128,
    steps=5_000,
    critic_steps=4,
)
"""The paper has capacity 32, a rate of 4e-4 for both networks, one critic step per generator step, 18,760 steps and no
average. Half the capacity costs a quarter of the time and has less noise beside the same signal. Rates, their decline
over 5,000 steps, and four critic steps were chosen on enlarged digits of USPS."""


def small_images(
    *, capacity: int = 16, bound: float = 1.0, noise_multiplier: float | None = None
) -> GanRecipe:
    """The small-images system for one curve of its figures: capacity, clipping bound C and noise multiplier σ.

    With a σ it takes as many steps as the budget allows; without, those of `small-images`.
    """
    chosen = replace(
        SMALL_IMAGES,
        generator=DeconvGenerator(capacity=capacity),
        critic=ConvCritic(capacity=capacity),
        clipping=JointClip(bound=bound),
        noise_multiplier=noise_multiplier,
        steps=SMALL_IMAGES.steps if noise_multiplier is None else None,
    )
    if chosen == SMALL_IMAGES:
        return chosen
    own = "" if noise_multiplier is None else f"-s{noise_multiplier:g}"
    return replace(chosen, name=f"small-images-{capacity}-c{bound:g}{own}")


def variant(name: str) -> GanRecipe | None:
    """The recipe that `dp_gan`, `dp_cgan_tf2` or `small_images` calls by this name; None if none of them does.

    Such as dp-gan-s1s3, dp-cgan-tf2-m60, dp-cgan-tf2-leaky-split and small-images-32-c0.1-s0.5.

    Raises:
        RecipeError: the numbers in the name make no recipe.
    """
    if found := re.fullmatch(r"dp-gan-(?=s)(s1)?(s2)?(s3)?(s4)?", name):
        biases, clustered, adapted, warm = (one is not None for one in found.groups())
        return dp_gan(
            separate_biases=biases, cluster_weights=clustered, adapt_bounds=adapted, warm_start=warm
        )
    if found := re.fullmatch(r"dp-cgan-tf2(-leaky)?(-split)?(?:-m(\d{1,6}))?", name):
        return dp_cgan_tf2(int(found[3] or 600), leaky=bool(found[1]), split=bool(found[2]))
    number = r"(\d{1,6}(?:\.\d{1,6})?)"
    if found := re.fullmatch(rf"small-images-(\d{{1,4}})-c{number}(?:-s{number})?", name):
        sigma = None if found[3] is None else float(found[3])
        return small_images(capacity=int(found[1]), bound=float(found[2]), noise_multiplier=sigma)
    return None
