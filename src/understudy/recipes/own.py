"""Our own system: a private statistic instead of a critic, one each for images, tables and codes."""

from __future__ import annotations

from understudy.recipes.parts import (
    Adam,
    Latent,
    LatentClasses,
    Lessons,
    LinearTeacher,
    MeanEmbedding,
    NoisyCodeCounts,
    NoisyMarginals,
    SharedLabelHistogram,
    UpsamplingGenerator,
    Warp,
)
from understudy.recipes.recipe import Recipe

__all__ = ["UNDERSTUDY"]

_TABLES = Recipe(
    name="understudy",
    summary="generator fitted to noisy counts of columns and of pairs of columns",
    source="Understudy, docs/recipe.md",
    generator=LatentClasses(),
    labels=SharedLabelHistogram(),
    generator_optimiser=Adam(rate=0.05, final_rate=1e-3, beta1=0.9, beta2=0.99),
    batch=1,
    steps=500,
    statistic=NoisyMarginals(),
)

_CODES = Recipe(
    name="understudy",
    summary="generator fitted to noisy counts of codes and of pairs of codes",
    source="Understudy, docs/recipe.md",
    generator=LatentClasses(64),
    labels=SharedLabelHistogram(),
    generator_optimiser=Adam(rate=0.05, final_rate=1e-3, beta1=0.9, beta2=0.99),
    batch=1,
    steps=400,
    statistic=NoisyCodeCounts(),
)

UNDERSTUDY = Recipe(
    name="understudy",
    summary="generator fitted to noisy statistics of labelled images, tables or codes",
    source="Understudy, docs/recipe.md",
    generator=UpsamplingGenerator(),
    latent=Latent(64),
    labels=SharedLabelHistogram(),
    generator_optimiser=Adam(rate=4e-3, final_rate=8e-5, beta1=0.5, beta2=0.99),
    batch=200,
    steps=2_000,
    averaging=0.99,
    statistic=MeanEmbedding(),
    teacher=LinearTeacher(quiet_lessons=Lessons(steps=150, rate=200.0, bound=0.5)),
    warp=Warp(),
    tables=_TABLES,
    codes=_CODES,
)
