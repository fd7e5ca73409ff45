"""How long a study will take, from the operations of its networks: an estimate to plan by, not a measurement.

A critic step makes, for each row, a forward, a backward to the inputs and a product for the weights. A gradient
penalty differentiates the input gradient once more, about six passes. A generator step goes through generator and
critic. Everything else is small beside it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from understudy.data import known_schema
from understudy.dpsgd.clipping import PublicAdaptiveClip
from understudy.dpsgd.objectives import WassersteinPenalty
from understudy.papers.study import Classified, Inception, JensenShannon, SemiSupervised
from understudy.recipes.parts import (
    ConvCritic,
    DeconvGenerator,
    DenseCritic,
    DenseGenerator,
    FixedCriticSteps,
    LatentClasses,
    PublicWarmStart,
    UpsamplingGenerator,
)
from understudy.recipes.serving import for_schema
from understudy.records.encode import encoded_shape

if TYPE_CHECKING:
    from understudy.papers.study import Job, Score, Study
    from understudy.recipes import Recipe

__all__ = ["RATE", "study_seconds"]

RATE = 1.4e10
"""Multiplications per second and core, on a shared two-core Xeon: a step of small-images took 0.25 seconds of CPU time,
one of dp-cgan 0.04. Small networks are far from what the processor could do."""

_RUN_SECONDS = 5.0
"""What each run takes besides its steps: reading, encoding, accounting, sampling. Quick runs of small-images took 177
CPU seconds on that busy machine, where operations alone would have given 85."""

_JUDGE_SECONDS = 100.0
"""Training the inception score's classifier on 60,000 images, once per study."""


def study_seconds(study: Study, seeds: int) -> float:
    """CPU seconds that all runs of a study need, about."""
    judges = {score.judge_rows for job in study.jobs for score in job.scores if isinstance(score, Inception)}
    trained = sum(_JUDGE_SECONDS * (rows or 60_000) / 60_000 for rows in judges)
    return trained + sum(
        (1 if job.once else seeds) * (_RUN_SECONDS + _job_seconds(job)) for job in study.jobs
    )


def _job_seconds(job: Job) -> float:
    scored = sum(_score_seconds(score, job.drawn) for score in job.scores) * (1 + len(job.stops))
    if job.recipe is None:
        return scored
    recipe = for_schema(job.recipe, known_schema(job.dataset))
    steps = job.steps or recipe.steps or 0
    operations = steps * _step_operations(recipe, job.dataset, job.public)
    if isinstance(recipe.warm_start, PublicWarmStart):
        operations += recipe.warm_start.steps * _step_operations(recipe, job.dataset, public=0)
    return scored + operations / RATE


def _step_operations(recipe: Recipe, dataset: str, public: int) -> float:
    """Multiplications of one critic step and its share of a generator step."""
    shape = encoded_shape(known_schema(dataset))
    critic, generator = _critic(recipe, shape), _generator(recipe, shape)
    per_row = 3 + 3 + (6 if isinstance(recipe.objective, WassersteinPenalty) else 0)
    looked = min(public, recipe.clipping.batch) if isinstance(recipe.clipping, PublicAdaptiveClip) else 0
    each = recipe.turns.count if isinstance(recipe.turns, FixedCriticSteps) else 1
    moved = recipe.batch * (3 * generator + 2 * critic) / each
    return recipe.batch * (per_row * critic + generator) + moved + looked * 9 * critic


def _critic(recipe: Recipe, shape: tuple[int, ...]) -> float:
    match recipe.critic:
        case DenseCritic(hidden=hidden):
            return _dense((math.prod(shape), *hidden, 1))
        case ConvCritic(capacity=capacity):
            return _conv(capacity, shape)


def _generator(recipe: Recipe, shape: tuple[int, ...]) -> float:
    match recipe.generator:
        case DenseGenerator(hidden=hidden):
            return _dense((recipe.latent.dim, *hidden, math.prod(shape)))
        case DeconvGenerator(capacity=capacity):
            return _conv(capacity, shape)
        case UpsamplingGenerator(hidden=hidden):
            return _dense((recipe.latent.dim, *hidden, math.prod(shape)))
        case LatentClasses(count=count):
            return float(count * math.prod(shape))


def _dense(widths: tuple[int, ...]) -> float:
    return float(sum(before * after for before, after in pairwise(widths)))


def _conv(capacity: int, shape: tuple[int, ...]) -> float:
    """Three convolutions of 5×5 with stride 2; a transposed one costs the same."""
    depth, height, width = shape
    total = 0.0
    for factor in (1, 2, 4):
        height, width = math.ceil(height / 2), math.ceil(width / 2)
        total += 25 * height * width * depth * factor * capacity
        depth = factor * capacity
    return total


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
