"""How long a study will take on this machine: a few steps of each of its systems are timed on stand-in records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from understudy.data import known_schema
from understudy.papers.classifiers import Learner
from understudy.papers.study import Classified, Inception, JensenShannon, SemiSupervised
from understudy.planning import plan
from understudy.run.pace import seconds_per_step
from understudy.synthesizers.protocol import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from understudy.papers.study import Job, Score, Study
    from understudy.planning import Plan
    from understudy.synthesizers.protocol import Recipe

__all__ = ["job_seconds", "study_seconds"]

_RUN_SECONDS = 5.0
"""What each run takes besides its steps: reading, encoding, accounting, sampling."""

_JUDGE_SECONDS = 100.0
"""Training the inception score's classifier on 60,000 images, once per study."""

_ROWS = 20_000
"""Stand-in rows: how many there are does not change what a step costs."""


def study_seconds(study: Study, seeds: int, of_jobs: Mapping[str, float]) -> float:
    """CPU seconds that all runs of a study need, about, by those of its jobs (`job_seconds`)."""
    judges = {score.judge_rows for job in study.jobs for score in job.scores if isinstance(score, Inception)}
    trained = sum(_JUDGE_SECONDS * (rows or 60_000) / 60_000 for rows in judges)
    return trained + sum((1 if job.once else seeds) * of_jobs[job.name] for job in study.jobs)


def _cpu_seconds_per_step(plan: Plan) -> float:
    """Of CPU time, which a busy machine does not lengthen."""
    return seconds_per_step(plan, clock=time.process_time)


def job_seconds(study: Study, pace: Callable[[Plan], float] = _cpu_seconds_per_step) -> dict[str, float]:
    """CPU seconds of one run of each job, about.

    Args:
        study: what is run.
        pace: the seconds of one step of a plan, measured on this machine by default.
    """
    measured: dict[str, float] = {}
    return {job.name: _RUN_SECONDS + _of_job(job, measured, pace) for job in study.jobs}


def _of_job(job: Job, measured: dict[str, float], pace: Callable[[Plan], float]) -> float:
    scored = sum(_score_seconds(score, job.drawn) for score in job.scores)
    on_the_way = len(job.stops) * _score_seconds(job.scores[0], job.drawn)
    if job.recipe is None:
        return scored
    system = f"{job.dataset} {job.recipe.name} {job.epsilon is None}"
    if system not in measured:
        measured[system] = pace(_trial(job, job.recipe))
    return scored + on_the_way + (job.taken + job.recipe.warm_steps) * measured[system]


def _trial(job: Job, recipe: Recipe) -> Plan:
    """A few steps of the job; how much noise they have does not change what they cost."""
    schema = known_schema(job.dataset)
    if job.epsilon is None or not any(isinstance(one, Steps) for one in recipe.releases(schema, _ROWS)):
        return plan(schema, epsilon=job.epsilon, rows=_ROWS, recipe=recipe)
    return plan(schema, epsilon=100.0, rows=_ROWS, recipe=recipe, steps=10, noise_multiplier=2.0)


def _score_seconds(score: Score, rows: int) -> float:
    match score:
        case Classified(learner=Learner.SEARCHED_MLP):
            return rows / 4
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
