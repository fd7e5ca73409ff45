"""The studies by the names of their papers, the two scales, and the one function that does it all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.papers import dp_cgan, dp_cgan_tf2, dp_gan, ppgan, small_images
from understudy.papers.figures import write_figures
from understudy.papers.page import write_page
from understudy.papers.runner import run_study
from understudy.papers.study import Scale
from understudy.papers.tables import fill, write_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.papers.runner import Stage
    from understudy.papers.study import Study

__all__ = ["FULL", "QUICK", "STUDIES", "reproduce"]

STUDIES: dict[str, Callable[[Scale], Study]] = {
    "dp-cgan": dp_cgan.study,
    "dp-cgan-tf2": dp_cgan_tf2.study,
    "dp-gan": dp_gan.study,
    "ppgan": ppgan.study,
    "small-images": small_images.study,
}
"""What can be reproduced."""

QUICK = Scale(
    "quick",
    dense_steps=1_000,
    wide_steps=300,
    conv_steps=20,
    strategy_steps=20,
    long_steps=800,
    curve_steps=80,
    warm_steps=300,
    unlabelled=("usps",),
    drawn=4_000,
    classified=4_000,
    judge_rows=6_000,
    points=2,
    task_steps=40,
    capacities=(8, 16),
)
"""A look at everything in minutes: far fewer steps than the papers, with the noise that the budget then needs."""

FULL = Scale(
    "full",
    dense_steps=4_000,
    wide_steps=3_000,
    conv_steps=120,
    strategy_steps=1_000,
    long_steps=5_000,
    curve_steps=1_000,
    warm_steps=3_000,
    task_steps=200,
    points=3,
    capacities=(8, 16, 24),
)
"""All data, an hour of two cores for each paper; the noise follows from the budget, as in quick runs."""


def reproduce(
    paper: str,
    scale: Scale,
    out: Path,
    *,
    seeds: int = 1,
    workers: int = 1,
    on_progress: Callable[[Stage], None] | None = None,
) -> Path:
    """Run the paper's study and write tables, figures and `report.html`; returns the page.

    Args:
        paper: a key of `STUDIES`.
        scale: `QUICK` or `FULL`.
        out: the folder; finished runs in it are kept.
        seeds: how often each job is run.
        workers: processes at a time; the numbers do not depend on it.
        on_progress: called as runs start, advance and are skipped.
    """
    study = STUDIES[paper](scale)
    outcomes = run_study(study, out, seeds=seeds, workers=workers, on_progress=on_progress)
    tables = fill(study, outcomes)
    write_tables(tables, out)
    return write_page(study, scale.name, tables, write_figures(study, outcomes, out), out)
