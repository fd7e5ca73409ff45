"""The systems of five papers, as their texts describe them and with the privacy done right.

Where a paper's text and its published code disagree, the text is followed for the algorithm and the code for
numbers that the text leaves out; `understudy reproduce claims` shows what the difference costs.
"""

from __future__ import annotations

from dataclasses import replace

from understudy.engine.clipping import GlobalClip, JointClip, SeparateClip
from understudy.engine.objectives import Minimax, Wasserstein, WassersteinPenalty
from understudy.recipes.parts import (
    Activation,
    Adam,
    ConvCritic,
    DeconvGenerator,
    DenseCritic,
    DenseGenerator,
    FixedCriticSteps,
    Latent,
    LatentLaw,
    RmsProp,
    Sgd,
)
from understudy.recipes.recipe import Recipe

__all__ = ["DP_CGAN", "DP_CGAN_BASIC", "DP_CGAN_TF2", "DP_GAN_BASIC", "PPGAN", "SMALL_IMAGES"]

DP_CGAN = Recipe(
    name="dp-cgan",
    summary="conditional GAN, real and fake gradients clipped apart",
    source="Torkzadehmahani, Kairouz, Paten: DP-CGAN, CVPR workshops 2019",
    objective=Minimax(),
    latent=Latent(100, LatentLaw.UNIFORM),
    critic_optimiser=Sgd(rate=0.15, final_rate=0.052, decay_steps=10_000),
    generator_optimiser=Adam(rate=1e-3),
    clipping=SeparateClip(real_bound=1.1, fake_bound=1.1),
    batch=600,
    noise_multiplier=1.15,
)

DP_CGAN_BASIC = replace(
    DP_CGAN,
    name="dp-cgan-basic",
    summary="the baseline of dp-cgan: one bound on the summed loss of a real and a fake",
    clipping=JointClip(bound=1.1),
)

DP_CGAN_TF2 = replace(
    DP_CGAN,
    name="dp-cgan-tf2",
    summary="dp-cgan with one clipped gradient per record and LeakyReLU",
    source="Carvalho: DP-CGAN in TensorFlow 2 and the thyroid study, 2019",
    latent=Latent(100, LatentLaw.NORMAL),
    generator=DenseGenerator(activation=Activation.LEAKY_RELU),
    critic=DenseCritic(activation=Activation.LEAKY_RELU),
    clipping=GlobalClip(bound=1.1),
)

DP_GAN_BASIC = Recipe(
    name="dp-gan-basic",
    summary="Wasserstein GAN with gradient penalty, one bound for all parameters",
    source="Zhang, Ji, Wang: Differentially private releasing via deep generative model, 2018",
    objective=WassersteinPenalty(weight=10.0),
    generator=DeconvGenerator(capacity=64),
    critic=ConvCritic(capacity=64),
    conditional=False,
    latent=Latent(128, LatentLaw.NORMAL),
    critic_optimiser=Adam(rate=2e-4, final_rate=3e-4, decay_steps=500, beta1=0.5, beta2=0.9),
    generator_optimiser=Adam(rate=2e-4, beta1=0.5, beta2=0.9),
    clipping=GlobalClip(bound=4.0),
    batch=64,
    noise_multiplier=1.086,
    turns=FixedCriticSteps(4),
)

PPGAN = Recipe(
    name="ppgan",
    summary="Wasserstein GAN with clamped weights, five critic steps",
    source="Liu, Peng, Yu, Wu: PPGAN, ICPADS 2019",
    objective=Wasserstein(),
    generator=DenseGenerator(hidden=(256, 512, 1024), activation=Activation.LEAKY_RELU),
    critic=DenseCritic(hidden=(1024, 512, 256), activation=Activation.LEAKY_RELU),
    conditional=False,
    latent=Latent(100, LatentLaw.NORMAL),
    critic_optimiser=RmsProp(rate=5e-5),
    generator_optimiser=RmsProp(rate=5e-5),
    clipping=GlobalClip(bound=1.0),
    batch=64,
    noise_multiplier=1.145,
    turns=FixedCriticSteps(5),
    clamp=0.01,
)

SMALL_IMAGES = Recipe(
    name="small-images",
    summary="small convolutional Wasserstein GAN with gradient penalty and Adam",
    source="Schwabedal, Michel, Riontino: Differentially private generation of small images, 2020",
    objective=WassersteinPenalty(weight=10.0),
    generator=DeconvGenerator(capacity=32),
    critic=ConvCritic(capacity=32),
    conditional=False,
    latent=Latent(128, LatentLaw.NORMAL),
    critic_optimiser=Adam(rate=4e-4, beta1=0.5, beta2=0.9),
    generator_optimiser=Adam(rate=4e-4, beta1=0.5, beta2=0.9),
    clipping=GlobalClip(bound=1.0),
    batch=128,
    noise_multiplier=0.8,
)
