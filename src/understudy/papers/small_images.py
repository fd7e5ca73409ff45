"""Small images (Schwabedal, Michel, Riontino 2020): Figures 1 to 3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.papers.study import (
    Curve,
    CurvesFigure,
    GridFigure,
    Inception,
    Job,
    Line,
    Study,
    Table,
    steps_for,
    updates_of,
)
from understudy.synthesizers.gan.papers import DP_GAN_BASIC, SMALL_IMAGES, small_images

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.papers.scale import Scale
    from understudy.synthesizers.protocol import Recipe

__all__ = ["DRAWN", "study"]

_GAN = replace(
    SMALL_IMAGES,
    name="wgan-gp",
    summary="small-images without noise",
    critic_optimiser=DP_GAN_BASIC.critic_optimiser,
    generator_optimiser=DP_GAN_BASIC.generator_optimiser,
    critic_steps=1,
)
"""The baseline: a critic without noise needs no four steps for one of the generator."""

_CAP = 20.0
"""No run may cost more than this; what each costs is certified and shown."""
_LEVELS = (Curve("without noise", "gan"), Curve("real images", "real"))
DRAWN = 9_984


def study(scale: Scale) -> Study:
    """Curves of the inception score against ε for clipping bounds, noise multipliers and capacities."""
    score = Inception(1, scale.judge_rows)
    bounds = {
        f"C = {bound:g}": small_images(bound=bound, noise_multiplier=0.5) for bound in (0.1, 1.0, 100.0)
    }
    noises = {f"σ = {sigma:g}": small_images(noise_multiplier=sigma) for sigma in (0.5, 0.8, 0.9, 1.0)}
    sizes = {
        f"capacity {size}": small_images(capacity=size, noise_multiplier=0.5) for size in scale.capacities
    }
    recipes = {recipe.name: recipe for part in (bounds, noises, sizes) for recipe in part.values()}
    curves = tuple(_curve(one, scale, score) for one in recipes.values()) if scale.comparisons else ()
    steps = scale.long_steps or SMALL_IMAGES.steps or 0
    drawn = min(scale.drawn, DRAWN)
    best = Job("at-ten", scale.images, SMALL_IMAGES, 10.0, (score,), steps, scale.rows, drawn=drawn)
    baseline = replace(
        best, name="gan", recipe=_GAN, epsilon=None, steps=updates_of(SMALL_IMAGES, steps), once=True
    )
    real = replace(baseline, name="real", recipe=None, steps=None)
    figures = (
        _figure("figure-1", "Figure 1: clipping bound, σ = 0.5", bounds, score),
        _figure("figure-2", "Figure 2: noise multiplier, C = 1", noises, score),
        _figure("figure-3", "Figure 3: capacity, σ = 0.5, C = 1", sizes, score),
    )
    return Study(
        paper="small-images",
        title="Differentially private generation of small images, Schwabedal et al. 2020",
        jobs=(best, baseline, real, *curves),
        tables=(_table(noises if scale.comparisons else {}, score),),
        figures=(
            *(figures if scale.comparisons else ()),
            GridFigure("grid-gan", "without noise", "gan"),
            GridFigure("grid-private", "private", best.name),
        ),
        notes=(
            (
                "The paper's curves pick points by a classifier of private images; ours are fixed beforehand, three of "
                "one run each, after the same numbers of generator updates. Figures 1 and 2 have capacity 16 (the "
                "paper: 32), higher rates, fewer steps, and four critic steps for one of the generator (the paper: "
                "one). The paper's own line without noise is at 8.51, by another classifier."
            ),
        ),
    )


def _curve(recipe: Recipe, scale: Scale, score: Inception) -> Job:
    """One run with the recipe's noise, scored on its way: the points of one curve."""
    steps = steps_for(recipe, scale.curve_updates)
    return Job(
        recipe.name,
        scale.images,
        recipe,
        _CAP,
        (score,),
        steps,
        scale.rows,
        drawn=min(scale.drawn, DRAWN),
        keep_noise=True,
        once=True,
        stops=tuple(sorted({stop for share in (1, 2) if 0 < (stop := steps * share // 4) < steps})),
    )


def _figure(name: str, title: str, recipes: Mapping[str, Recipe], score: Inception) -> CurvesFigure:
    curves = tuple(Curve(label, recipe.name) for label, recipe in recipes.items())
    return CurvesFigure(name, title, score, curves, _LEVELS)


def _table(noises: Mapping[str, Recipe], score: Inception) -> Table:
    printed = {"σ = 0.5": 7.2, "σ = 0.8": 7.2, "σ = 0.9": None, "σ = 1": 3.0}
    lines = [
        Line("real images", "real", score, 9.73),
        Line("without noise", "gan", score, 8.51),
        Line(
            "ε = 10, the noise that it needs",
            "at-ten",
            score,
            7.2,
            ("small-images", "σ = 0.5, stopped at ε = 10"),
        ),
    ]
    lines += [
        Line(
            label,
            recipe.name,
            score,
            printed[label],
            ("small-images", f"{label}, 40 epochs"),
        )
        for label, recipe in noises.items()
    ]
    return Table("plateaus", "Figure 2 in numbers: the plateau of each curve", tuple(lines))
