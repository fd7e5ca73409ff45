"""PPGAN (Liu, Peng, Yu, Wu 2019): Figures 2 to 5, the closed formula, and medical codes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.papers.study import (
    CodeFidelity,
    GenerateScoreTable,
    GridFigure,
    Inception,
    Job,
    Line,
    LossFigure,
    NoiseTable,
    Study,
    Table,
    steps_for,
    updates_of,
)
from understudy.synthesizers.codes.recipe import UNDERSTUDY_CODES
from understudy.synthesizers.gan.papers import DP_GAN_BASIC, DPGAN, PPGAN, PPGAN_SGD
from understudy.synthesizers.shared.parts import RmsProp

if TYPE_CHECKING:
    from understudy.papers.scale import Scale
    from understudy.papers.study import AnyTable
    from understudy.synthesizers.protocol import Recipe

__all__ = ["study"]

_EPSILONS = (5.0, 10.0, 20.0)
_MAIN = 10.0
"""The budget of the comparisons, which run with every seed."""
_GENTLE = RmsProp(rate=1e-4, final_rate=5e-6, decay_steps=3_000)
_WGAN = replace(
    PPGAN,
    name="wgan",
    summary="ppgan without noise",
    critic_optimiser=_GENTLE,
    generator_optimiser=_GENTLE,
    critic_steps=1,
)
"""The baseline: with ppgan's rates a critic without noise drives every pixel to its end at once, where nothing moves.
Chosen on enlarged digits of USPS."""

_PRESENT = (CodeFidelity("prevalence correlation"), CodeFidelity("prevalence error"))
_COUNTED = (CodeFidelity("correlation of mean counts"), CodeFidelity("error of mean counts"))


def study(scale: Scale) -> Study:
    """The sweep of ε on images with both optimisers, the comparison with dp-gan, and ICD-9 code vectors."""
    score = Inception(10, scale.judge_rows)

    def job(name: str, recipe: Recipe, epsilon: float | None, steps: int | None) -> Job:
        job = Job(name, scale.images, recipe, epsilon, (score,), steps, scale.rows, drawn=scale.drawn)
        return replace(job, once=epsilon != _MAIN, losses=True)

    steps, compared = scale.wide_steps, scale.strategy_updates
    epsilons = scale.some(_EPSILONS) if scale.comparisons else (_MAIN,)
    sweep = tuple(job(f"ppgan-{epsilon:g}", PPGAN, epsilon, steps) for epsilon in epsilons)
    wgan = job("wgan", _WGAN, None, None if steps is None else max(1, updates_of(PPGAN, steps)))
    others: tuple[Job, ...] = (
        job("ppgan-sgd-10", PPGAN_SGD, 10.0, steps),
        job("dp-gan-10", DP_GAN_BASIC, 10.0, steps_for(DP_GAN_BASIC, compared)),
        job("dpgan-10", DPGAN, 10.0, steps_for(DPGAN, compared)),
    )
    others = others if scale.comparisons else ()
    codes = _code_jobs(scale)
    tables: tuple[AnyTable, ...] = (
        NoiseTable(
            "equation-20",
            "Equation 20: the noise it asks for, and the certified ε of 2,500,000 steps with it",
        ),
        GenerateScoreTable(
            "figure-4", "Figure 4: ε sweep", tuple(one.name for one in (wgan, *sweep)), score, _DEGENERATE
        ),
        *((_figure_5((wgan, sweep[-1], *others), score),) if others else ()),
        *((_code_table(codes),) if codes else ()),
    )
    shown = (wgan, *sweep)
    return Study(
        paper="ppgan",
        title="PPGAN, Liu et al. 2019",
        jobs=(wgan, *sweep, *others, *codes),
        tables=tables,
        figures=(
            *(GridFigure(f"figure-2-{one.name}", f"Figure 2: {one.name}", one.name) for one in shown),
            *(
                LossFigure(f"figure-3-{one.name}", f"Figure 3, NOT PRIVATE: losses of {one.name}", one.name)
                for one in shown
            ),
        ),
        notes=(
            (
                "Of its figures the paper prints one number: at ε = 20 the generate score is 0.14 from the WGAN's. "
                "MIMIC-III needs credentials; the ICD-9 categories of the diabetes data of 130 hospitals stand in for "
                "it. The WGAN has as many generator updates as the private runs; it is unstable (docs/lab-notes.md)."
            ),
        ),
    )


def _figure_5(jobs: tuple[Job, ...], score: Inception) -> GenerateScoreTable:
    return GenerateScoreTable(
        "figure-5",
        "Figure 5: comparison",
        tuple(one.name for one in jobs),
        score,
        "The DPGAN of Xie et al. has no accounting that could be followed; ours is certified like every other run.",
    )


_DEGENERATE = (
    "The generate score |IS - mean| / (max - min) depends on which systems are compared and is an absolute value: the "
    "worst system scores as well as the best. The inception score beside it is the measure of quality."
)


def _code_jobs(scale: Scale) -> tuple[Job, ...]:
    """Binary and counted codes, each without noise and at ε = 10, and our own recipe beside it."""
    drawn = min(scale.drawn, 10_000)
    systems = (
        ("wgan", _WGAN, None, scale.wide_steps),
        ("10", PPGAN, _MAIN, scale.wide_steps),
        ("understudy", UNDERSTUDY_CODES, _MAIN, None),
    )
    return tuple(
        Job(f"{kind}-{name}", data, recipe, epsilon, scores, steps, scale.rows, drawn=drawn, once=True)
        for kind, data, scores in (("codes", scale.codes, _PRESENT), ("counts", scale.code_counts, _COUNTED))
        if data is not None and (scale.comparisons or kind == "codes")
        for name, recipe, epsilon, steps in systems
        if scale.comparisons or epsilon is not None
    )


def _code_table(jobs: tuple[Job, ...]) -> Table:
    lines = tuple(
        Line(
            f"{job.name.split('-')[0]}, {'without noise' if job.epsilon is None else f'ε = {job.epsilon:g}'}",
            job.name,
            score,
            remark="stand-in; our own recipe" if job.recipe is UNDERSTUDY_CODES else "stand-in",
        )
        for job in jobs
        for score in job.scores
    )
    return Table(
        "codes",
        "ICD-9 code vectors: which codes a person has, and how often",
        lines,
        "The paper's medical part has no privacy in its published code.",
    )
