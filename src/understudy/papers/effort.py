"""How long a study will take on this machine: a few steps of each of its systems are timed on stand-in records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data import known_schema
from understudy.papers.study import Classified, Inception, JensenShannon, SemiSupervised
from understudy.planning import plan
from understudy.run.pace import seconds_per_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.papers.study import Job, Score, Study
    from understudy.planning import Plan

__all__ = ["study_seconds"]

_RUN_SECONDS = 5.0
"""What each run takes besides its steps: reading, encoding, accounting, sampling."""

_JUDGE_SECONDS = 100.0
"""Training the inception score's classifier on 60,000 images, once per study."""

_ROWS = 20_000
"""Stand-in rows: how many there are does not change what a step costs."""


def study_seconds(study: Study, seeds: int, pace: Callable[[Plan], float] = seconds_per_step) -> float:
    """CPU seconds that all runs of a study need, about.

    Args:
        study: what is run.
        seeds: how often.
        pace: the seconds of one step of a plan, measured on this machine by default.
    """
    judges = {score.judge_rows for job in study.jobs for score in job.scores if isinstance(score, Inception)}
    trained = sum(_JUDGE_SECONDS * (rows or 60_000) / 60_000 for rows in judges)
    measured: dict[str, float] = {}
    return trained + sum(
        (1 if job.once else seeds) * (_RUN_SECONDS + _job_seconds(job, measured, pace)) for job in study.jobs
    )


def _job_seconds(job: Job, measured: dict[str, float], pace: Callable[[Plan], float]) -> float:
    scored = sum(_score_seconds(score, job.drawn) for score in job.scores) * (1 + len(job.stops))
    if job.recipe is None:
        return scored
    system = f"{job.dataset} {job.recipe.name}"
    if system not in measured:
        trial = plan(known_schema(job.dataset), epsilon=None, rows=_ROWS, recipe=job.recipe)
        measured[system] = pace(trial)
    steps = (job.steps or job.recipe.steps or 0) + job.recipe.warm_steps
    return scored + steps * measured[system]


def _score_seconds(score: Score, rows: int) -> float:
    match score:
        case Classified():
            return rows / 1_000
        case Inception():
            return rows / 3_000
        case JensenShannon():
            return 15.0
        case SemiSupervised(steps=steps):
            return steps / 15
        case _:
            return 3.0
