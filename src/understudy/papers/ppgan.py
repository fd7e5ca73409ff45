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
    Scale,
    Study,
    Table,
)
from understudy.recipes.papers import DP_GAN_BASIC, DPGAN, PPGAN, PPGAN_SGD

if TYPE_CHECKING:
    from understudy.papers.study import AnyTable
    from understudy.recipes import Recipe

__all__ = ["study"]

_EPSILONS = (5.0, 10.0, 20.0)
_PRESENT = (CodeFidelity("prevalence correlation"), CodeFidelity("prevalence error"))
_COUNTED = (CodeFidelity("correlation of mean counts"), CodeFidelity("error of mean counts"))


def study(scale: Scale) -> Study:
    """The sweep of ε on images with both optimisers, the comparison with dp-gan, and ICD-9 code vectors."""
    score = Inception(10, scale.judge_rows)

    def job(name: str, recipe: Recipe, epsilon: float | None, steps: int | None) -> Job:
        job = Job(name, scale.images, recipe, epsilon, (score,), steps, scale.rows, drawn=scale.drawn)
        return replace(job, once=True)

    steps = _steps(scale)
    sweep = tuple(job(f"ppgan-{epsilon:g}", PPGAN, epsilon, steps) for epsilon in scale.some(_EPSILONS))
    wgan = job("wgan", PPGAN, None, steps)
    others = (
        job("ppgan-sgd-10", PPGAN_SGD, 10.0, steps),
        job("dp-gan-10", DP_GAN_BASIC, 10.0, scale.conv_steps),
        job("dpgan-10", DPGAN, 10.0, scale.conv_steps),
    )
    codes = _code_jobs(scale)
    tables: tuple[AnyTable, ...] = (
        NoiseTable(
            "equation-20",
            "Equation 20: the noise it asks for, and the certified ε of 2,500,000 steps with it",
        ),
        GenerateScoreTable(
            "figure-4", "Figure 4: ε sweep", tuple(one.name for one in (wgan, *sweep)), score, _DEGENERATE
        ),
        GenerateScoreTable(
            "figure-5",
            "Figure 5: comparison",
            tuple(one.name for one in (wgan, sweep[-1], *others)),
            score,
            "The DPGAN of Xie et al. has no accounting that could be followed; ours is certified like every other run.",
        ),
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
            LossFigure("figure-3", "Figure 3: losses without privacy", wgan.name),
        ),
        notes=(
            (
                "The paper prints no numbers for its figures. MIMIC-III needs credentials; the ICD-9 categories of the "
                "diabetes data of 130 hospitals stand in for it. Figure 3 is drawn for the run without privacy only: "
                "the loss of a private run reads the records without noise."
            ),
        ),
    )


_DEGENERATE = (
    "The generate score |IS - mean| / (max - min) depends on which systems are compared and is an absolute value: the "
    "worst system scores as well as the best. The inception score beside it is the measure of quality."
)


def _steps(scale: Scale) -> int | None:
    """A quarter of what smaller dense networks get: these are ten times as wide, and there are more runs."""
    return None if scale.dense_steps is None else max(2, scale.dense_steps // 4)


def _code_jobs(scale: Scale) -> tuple[Job, ...]:
    """Binary and counted codes, each without noise and at ε = 10."""
    drawn = min(scale.drawn, 10_000)
    return tuple(
        Job(f"{kind}-{name}", data, PPGAN, epsilon, scores, _steps(scale), scale.rows, drawn=drawn, once=True)
        for kind, data, scores in (("codes", scale.codes, _PRESENT), ("counts", scale.code_counts, _COUNTED))
        if data is not None
        for name, epsilon in (("wgan", None), ("10", 10.0))
    )


def _code_table(jobs: tuple[Job, ...]) -> Table:
    lines = tuple(
        Line(
            f"{job.name.split('-')[0]}, {'without noise' if job.epsilon is None else f'ε = {job.epsilon:g}'}",
            job.name,
            score,
            remark="stand-in",
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
