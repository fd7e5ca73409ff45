"""The papers' systems with the numbers that their texts print; where a text has none, those of its published code.

They are made for comparison: ours (`papers.py`) learn more from the same budget in less time. Everything that bounds
and noises is as in those. `docs/papers.md` lists, item by item, what is printed, what comes from the code, and what
neither says.
"""

from __future__ import annotations

from dataclasses import replace

from understudy.dpsgd.clipping import JointClip, PublicAdaptiveClip
from understudy.dpsgd.clipping.adaptive import GroupBound
from understudy.dpsgd.objectives import Minimax
from understudy.synthesizers.gan.papers import DP_CGAN, DP_GAN_BASIC, PPGAN, SMALL_IMAGES, dp_cgan_tf2
from understudy.synthesizers.gan.parts import ConvCritic, DeconvGenerator, DenseCritic, PublicWarmStart
from understudy.synthesizers.shared.parts import Adam, Sgd

__all__ = [
    "DP_CGAN_CODE",
    "DP_CGAN_PRINTED",
    "DP_CGAN_TF2_PRINTED",
    "DP_CGAN_THYROID",
    "DP_GAN_PRINTED",
    "PPGAN_CODE",
    "PPGAN_PRINTED",
    "SMALL_IMAGES_PRINTED",
]

_EPOCHS_249 = 249 * 100
"""Of 60,000 rows in batches of 600."""

DP_CGAN_PRINTED = replace(
    DP_CGAN,
    name="dp-cgan-printed",
    summary="dp-cgan as printed: labels of length 1, pixels in [0, 1], saturating loss, no average, 249 epochs",
    objective=Minimax(saturating=True),
    critic=DenseCritic(),
    unit_range=True,
    averaging=None,
    noise_multiplier=1.15,
    steps=_EPOCHS_249,
)
"""Text: networks, separate clipping, rates of the critic, batch and the generator's loss log(1 − D). From the report on
TensorFlow 2, which says that they are the original's: σ, C and epochs. Code: [0, 1] and a sigmoid, latents, Adam."""

DP_CGAN_CODE = replace(
    DP_CGAN_PRINTED,
    name="dp-cgan-code",
    summary="dp-cgan-printed with the generator's loss of the published code, -log D",
    objective=Minimax(),
)

DP_CGAN_TF2_PRINTED = replace(
    dp_cgan_tf2(),
    name="dp-cgan-tf2-printed",
    summary="dp-cgan-tf2 as printed: labels of length 1, saturating loss, rate falling in 10^3 steps, no average",
    objective=Minimax(saturating=True),
    critic=DenseCritic(),
    critic_optimiser=Sgd(rate=0.15, final_rate=0.052, decay_steps=1_000),
    averaging=None,
    noise_multiplier=1.15,
    steps=_EPOCHS_249,
)

_THYROID_STEPS = 50 * 117

DP_CGAN_THYROID = replace(
    dp_cgan_tf2(32, batch=32),
    name="dp-cgan-thyroid",
    summary="dp-cgan-tf2 for the thyroid table as printed: batches of 32, 50 epochs of 3,772 rows",
    objective=Minimax(saturating=True),
    critic=DenseCritic(),
    critic_optimiser=Sgd(rate=0.15, final_rate=0.052, decay_steps=_THYROID_STEPS),
    averaging=None,
    noise_multiplier=1.15,
    steps=_THYROID_STEPS,
)
"""50 epochs of 117 full batches, as the code counts; the rate falls "until reaching 50 epochs"."""

DP_GAN_PRINTED = replace(
    DP_GAN_BASIC,
    name="dp-gan-printed",
    summary="dp-gan as printed for its best line: S1, S3, S4; capacity 64, 780 iterations of four critic steps",
    generator=DeconvGenerator(capacity=64),
    critic=ConvCritic(capacity=64),
    critic_optimiser=Adam(rate=2e-3, beta1=0.5, beta2=0.9),
    generator_optimiser=Adam(rate=2e-3, beta1=0.5, beta2=0.9),
    clipping=PublicAdaptiveClip(4, separate_biases=True, batch=64, paired=True, group_bound=GroupBound.MEAN),
    averaging=None,
    noise_multiplier=1.086,
    steps=780 * 4,
    warm_start=PublicWarmStart(steps=300 * 4, batch=64, critic_steps=4),
)
"""Text: all but the capacity (code). Four weight tensors with bounds of their own and one group of biases are S1 with
S3, and the k = 5 groups of Table 1; a group's bound is the mean of its members', as section 4.4 says."""

PPGAN_PRINTED = replace(
    PPGAN,
    name="ppgan-printed",
    summary="ppgan as printed: gradient descent at 5e-5, the generator's gradient clipped too, 2,500,000 steps",
    critic_optimiser=Sgd(rate=5e-5),
    generator_optimiser=Sgd(rate=5e-5),
    generator_clip=0.01,
    averaging=None,
    steps=5 * 500_000,
)
"""Text: rates, C, five critic steps, 500,000 generator steps, line 9 of Algorithm 1. Neither the clamp c nor the batch
has a printed value; C and 64 stand in. Each generator step moves all weights together by at most 5e-7."""

PPGAN_CODE = replace(
    PPGAN,
    name="ppgan-code",
    summary="the system of ppgan's published code: smoothed cross-entropy and Adam, without its dropout",
    objective=Minimax(label_smoothing=0.1),
    critic_optimiser=Adam(rate=2e-4, beta1=0.5),
    generator_optimiser=Adam(rate=2e-4, beta1=0.5),
    clipping=JointClip(bound=5.0),
    batch=128,
    critic_steps=1,
    clamp=None,
    averaging=None,
)
"""Dropout of 0.3 in the critic would be one more random draw for every private record, and is left out."""

SMALL_IMAGES_PRINTED = replace(
    SMALL_IMAGES,
    name="small-images-printed",
    summary="small-images with the settings of its figures: capacity 32, Adam at 4e-4, 40 epochs, no average",
    generator=DeconvGenerator(capacity=32),
    critic=ConvCritic(capacity=32),
    critic_optimiser=Adam(rate=4e-4, beta1=0.5, beta2=0.9),
    generator_optimiser=Adam(rate=4e-4, beta1=0.5, beta2=0.9),
    critic_steps=1,
    averaging=None,
    noise_multiplier=0.8,
    steps=40 * 469,
)
"""Text: networks, capacity, C = 1. Code: rates, batch, epochs, one critic step. The text prints β1 = 0.9 and β2 = 0.5
and calls them defaults, which they are nowhere; the code has 0.5 and 0.9."""
