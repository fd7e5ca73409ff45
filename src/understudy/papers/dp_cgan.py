"""DP-CGAN (Torkzadehmahani, Kairouz, Paten 2019): Table 1 and Figure 2."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.papers.classifiers import Learner
from understudy.papers.study import Classified, GridFigure, Job, Line, Metric, Study, Table
from understudy.synthesizers.gan.papers import CGAN, DP_CGAN, DP_CGAN_BASIC
from understudy.synthesizers.gan.printed import DP_CGAN_CODE, DP_CGAN_PRINTED

if TYPE_CHECKING:
    from understudy.papers.scale import Scale
    from understudy.synthesizers.protocol import Recipe

__all__ = ["CLASSIFIED", "PAPER", "image_job", "study"]

_CLAIM = ("dp-cgan", "MNIST")
CLASSIFIED = (
    Classified(Learner.LOGISTIC_REGRESSION, Metric.MICRO),
    Classified(Learner.MLP, Metric.MICRO),
)
"""The two scores of both papers' tables on images."""
_EPSILON = 9.6
PAPER = {
    "real": (0.9217, 0.9760),
    "cgan": (0.9110, 0.9106),
    "dp-cgan": (0.8757, 0.8816),
    "dp-cgan-basic": (0.8342, 0.8329),
}
"""Table 1: logistic regression and MLP."""


def image_job(
    scale: Scale, name: str, recipe: Recipe | None, epsilon: float | None, once: bool = True
) -> Job:
    """A dense system on images, scored by the two classifiers; a run without a recipe scores real rows."""
    return Job(
        name,
        scale.images,
        recipe,
        epsilon,
        CLASSIFIED,
        scale.dense_steps,
        scale.rows,
        drawn=scale.classified,
        once=once,
    )


def study(scale: Scale) -> Study:
    """The paper's four columns; classifiers are tested on images of the same scale as they were trained on."""
    jobs: tuple[Job, ...] = (
        image_job(scale, "real", None, None),
        image_job(scale, "cgan", CGAN, None),
        image_job(scale, "dp-cgan", DP_CGAN, _EPSILON, once=False),
        image_job(scale, "dp-cgan-basic", DP_CGAN_BASIC, _EPSILON, once=False),
    )
    if scale.comparisons:
        as_printed = replace(
            image_job(scale, "dp-cgan-printed", DP_CGAN_PRINTED, _EPSILON), steps=scale.printed_steps
        )
        jobs = (*jobs, as_printed, replace(as_printed, name="dp-cgan-code", recipe=DP_CGAN_CODE))
    lines = tuple(
        Line(one.name, one.name, score, paper, _CLAIM if one.epsilon else None, _remark(one.name))
        for one in jobs
        for score, paper in zip(CLASSIFIED, PAPER.get(one.name, PAPER["dp-cgan"]), strict=True)
    )
    return Study(
        paper="dp-cgan",
        title="DP-CGAN, Torkzadehmahani et al. 2019",
        jobs=jobs,
        tables=(Table("table-1", "Table 1: AuROC of classifiers trained on generated data", lines),),
        figures=tuple(GridFigure(f"figure-2-{one.name}", f"Figure 2: {one.name}", one.name) for one in jobs),
        notes=(
            (
                "The paper's code tests classifiers of images in [0, 1] on images in [0, 255]; ours are tested on "
                "the scale they were trained on, so the real column is a true ceiling and columns are comparable."
            ),
        ),
    )


def _remark(name: str) -> str:
    return {
        "real": "not comparable: fits a wrongly scaled test set, or plain accuracy",
        "cgan": "Adam for the critic: the paper's rate of 0.15 is unstable without clipping",
        "dp-cgan": "labels as long as records, moving average of the generator",
        "dp-cgan-printed": "labels of length 1, no average, saturating loss, 24,900 steps at σ = 1.15",
        "dp-cgan-code": "the same with the loss of the published code, -log D",
    }.get(name, "")
