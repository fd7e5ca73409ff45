"""How many free steps fit into a time, measured on this machine before a private row is read.

The steps of a generator that learns from a mean embedding are post-processing, so their number may follow a clock
without any cost in privacy. The private steps of a critic may not: the plan fixes and charges them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from understudy.errors import PlanError
from understudy.recipes.parts import MeanEmbedding
from understudy.records.encode import encoded_shape
from understudy.synthesizers.embedding.features import Embedding
from understudy.synthesizers.embedding.fit import Apprentice, Performer, build_performer
from understudy.synthesizers.gan.generators import image_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.planning import Plan

__all__ = ["paced"]

LEAST_STEPS = 50
"""A generator of fewer steps is not worth its release."""
_TRIAL = 4


def paced(
    plan: Plan,
    minutes: float,
    device: torch.device | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """The same plan with as many generator steps as take about this long, at the present number of threads.

    The time that publishing takes before the first step is not part of it.

    Args:
        plan: of a recipe with an embedding; its charges stay as they are.
        minutes: for all generator steps together.
        device: where the generator will learn.
        clock: seconds, for tests.

    Raises:
        PlanError: the steps of this recipe are not free, or too few of them fit.
    """
    recipe = plan.recipe
    if not isinstance(recipe.statistic, MeanEmbedding) or plan.schema is None:
        raise PlanError(
            f"a time budget needs a recipe whose generator learns from a mean embedding; the steps of {recipe.name!r} "
            "are part of its plan and are set with --steps."
        )
    seconds = _seconds_per_step(plan, device, clock)
    steps = int(60 * minutes / seconds)
    if steps < LEAST_STEPS:
        raise PlanError(
            f"{minutes:g} minutes are too short: a step takes {seconds:.2g} seconds here, and a generator needs at "
            f"least {LEAST_STEPS}. Allow {LEAST_STEPS * seconds / 60:.1f} minutes or more."
        )
    return replace(plan, recipe=replace(recipe, steps=steps))


def _seconds_per_step(plan: Plan, device: torch.device | None, clock: Callable[[], float]) -> float:
    """The time of one step of a generator that is thrown away, trained towards zeros."""
    assert plan.schema is not None
    assert isinstance(plan.recipe.statistic, MeanEmbedding)
    recipe = replace(plan.recipe, steps=_TRIAL + 1)
    shape = image_shape(encoded_shape(plan.schema), recipe.name)
    width = Embedding(plan.recipe.statistic, shape).width
    performer = build_performer(recipe, plan.schema)
    teacher = performer.teacher if isinstance(performer, Performer) else None
    means = torch.zeros(len(plan.schema.label_classes or ()), width)
    trial = Apprentice(recipe, plan.schema, means, teacher, 0, device)
    _advance(trial, 1)  # the first step is slower than the others
    start = clock()
    _advance(trial, _TRIAL)
    return (clock() - start) / _TRIAL


def _advance(trial: Apprentice, steps: int) -> None:
    """Take steps and wait until they are done: reading a weight waits for whatever the device has queued."""
    for _ in range(steps):
        trial.advance()
    next(trial.generator.parameters()).flatten()[0].item()
