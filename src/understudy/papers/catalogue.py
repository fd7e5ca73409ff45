"""The studies by the names of their papers, the three scales, and the one function that does it all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.errors import PlanError
from understudy.papers import dp_cgan, dp_cgan_tf2, dp_gan, ppgan, small_images
from understudy.papers.figures import write_figures
from understudy.papers.page import write_page
from understudy.papers.printed import PRINTED_STUDIES
from understudy.papers.runner import finished_runs, run_study
from understudy.papers.scale import Scale
from understudy.papers.tables import fill, write_tables
from understudy.run.devices import Device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from understudy.papers.runner import Stage
    from understudy.papers.study import Study

__all__ = ["FULL", "PRINTED", "QUICK", "STUDIES", "chosen", "reproduce", "study_of"]

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
    dense_steps=4_000,
    wide_steps=3_000,
    conv_steps=120,
    long_steps=2_400,
    warm_steps=2_000,
    drawn=4_000,
    classified=4_000,
    judge_rows=6_000,
    points=3,
    task_steps=200,
    comparisons=False,
)
"""Minutes: the main lines alone, with as many steps as show something; the noise is what the budget then needs."""

FULL = Scale(
    "full",
    dense_steps=4_000,
    wide_steps=3_000,
    conv_steps=120,
    long_steps=5_000,
    curve_updates=300,
    warm_steps=3_000,
    task_steps=200,
)
"""All data, an hour of two cores for each paper; the noise follows from the budget, as in quick runs."""

PRINTED = Scale("printed", classified=60_000, task_steps=600, printed=True)
"""The papers' own settings, which take hours to days; may be interrupted and started again."""


def study_of(paper: str, scale: Scale, jobs: Sequence[str] = ()) -> Study:
    """The paper's study at a scale, and which of its jobs are to be run.

    Args:
        paper: a key of `STUDIES`.
        scale: `QUICK`, `FULL` or `PRINTED`.
        jobs: names of jobs, none for all.

    Raises:
        PlanError: there is no such job.
    """
    study = PRINTED_STUDIES[paper](scale) if scale.printed else STUDIES[paper](scale)
    unknown = sorted(set(jobs) - {job.name for job in study.jobs})
    if unknown:
        known = ", ".join(job.name for job in study.jobs)
        raise PlanError(f"{paper} has no job {unknown[0]!r} at the scale {scale.name!r}; there are {known}.")
    return study


def chosen(study: Study, jobs: Sequence[str]) -> Study:
    """The study with these jobs alone, without what shows them; all jobs if none is named."""
    if not jobs:
        return study
    return replace(study, jobs=tuple(job for job in study.jobs if job.name in jobs), tables=(), figures=())


def reproduce(
    paper: str,
    scale: Scale,
    out: Path,
    *,
    seeds: int = 1,
    workers: int = 1,
    jobs: Sequence[str] = (),
    device: Device = Device.CPU,
    on_progress: Callable[[Stage], None] | None = None,
) -> Path:
    """Run the paper's study and write tables, figures and `report.html`; returns the page.

    Args:
        paper: a key of `STUDIES`.
        scale: `QUICK`, `FULL` or `PRINTED`.
        out: the folder; finished runs in it are kept, and unfinished ones go on.
        seeds: how often each job is run.
        workers: processes at a time; the numbers do not depend on it.
        jobs: run these alone; the page shows whatever is finished.
        device: where networks are trained.
        on_progress: called as runs start, advance and are skipped.
    """
    study = study_of(paper, scale, jobs)
    run_study(chosen(study, jobs), out, seeds=seeds, workers=workers, device=device, on_progress=on_progress)
    outcomes = finished_runs(study, out, seeds)
    tables = fill(study, outcomes)
    write_tables(tables, out)
    return write_page(study, scale.name, tables, outcomes, write_figures(study, outcomes, out), out)
