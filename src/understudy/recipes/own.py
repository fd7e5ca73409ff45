"""Our own system: a private statistic instead of a critic."""

from __future__ import annotations

from understudy.engine.clipping import GlobalClip
from understudy.engine.objectives import Wasserstein
from understudy.recipes.parts import (
    Adam,
    Latent,
    LinearTeacher,
    MeanEmbedding,
    SharedLabelHistogram,
    UpsamplingGenerator,
    Warp,
)
from understudy.recipes.recipe import Recipe

__all__ = ["UNDERSTUDY"]

UNDERSTUDY = Recipe(
    name="understudy",
    summary="generator fitted to one noisy mean embedding per class, labelled by a private teacher (images)",
    source="Understudy, docs/recipe.md",
    objective=Wasserstein(),
    generator=UpsamplingGenerator(),
    latent=Latent(64),
    labels=SharedLabelHistogram(),
    generator_optimiser=Adam(rate=4e-3, final_rate=8e-5, beta1=0.5, beta2=0.99),
    clipping=GlobalClip(bound=1.0),
    batch=200,
    steps=1500,
    averaging=0.99,
    embedding=MeanEmbedding(),
    teacher=LinearTeacher(),
    warp=Warp(),
)
