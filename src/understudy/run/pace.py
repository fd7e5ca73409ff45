"""How long a run takes on this machine, and how many steps fit into a time: measured on stand-in records.

Nothing here has seen a private row. A run that stopped by a clock while it reads private batches would tell by its
number of steps how large they were; so the number is chosen before, and where steps are private, the noise follows.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.door.noise import SecureNoise
from understudy.errors import PlanError
from understudy.planning import plan as make_plan
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.run.run import Run
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import with_stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from understudy.planning import Plan

__all__ = ["in_words", "paced", "seconds_per_step", "steps_in", "with_steps"]

LEAST_STEPS = 50
"""A generator of fewer steps is not worth its release."""
_TRIAL, _ROWS = 4, 64


def paced(
    plan: Plan,
    minutes: float,
    device: torch.device | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """The same plan with as many steps as take about this long, at the present number of threads.

    Free steps fill the time. Private ones are at most those of the plan, for which the recipe's rates were chosen;
    if fewer fit, they need less noise for the same budget. A warm start is part of the time; publishing before the
    first step is not.

    Args:
        plan: what is to be trained.
        minutes: for all steps together.
        device: where networks will learn.
        clock: seconds, for tests.

    Raises:
        PlanError: too few steps fit.
    """
    fitting = steps_in(plan, minutes, device, clock)
    return with_steps(plan, fitting if plan.sampled is None else min(fitting, plan.steps))


def with_steps(plan: Plan, steps: int) -> Plan:
    """The plan with another number of steps: free ones change no charge, private ones the noise."""
    if plan.sampled is None or steps == plan.steps:
        return replace(plan, recipe=replace(plan.recipe, steps=steps))  # type: ignore[type-var]
    recipe = replace(plan.recipe, steps=steps, noise_multiplier=None)  # type: ignore[type-var]
    if plan.budget is None:
        return make_plan(plan.schema, epsilon=None, rows=plan.rows, recipe=recipe)
    budget = plan.budget
    return make_plan(
        plan.schema,
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency,
        rows=plan.rows,
        recipe=recipe,
        batch_cap=plan.training.batch_cap,
        accept_large_delta=True,  # or the plan would not exist
    )


def in_words(seconds: float) -> str:
    """A duration for people: "40 seconds", "12 minutes", "26 hours"."""
    for size, unit in ((48 * 3600, None), (5400, 3600), (90, 60)):
        if seconds >= size:
            if unit is None:
                return f"{seconds / 86_400:.0f} days"
            return f"{seconds / unit:.0f} {'hours' if unit == 3600 else 'minutes'}"
    return f"{max(seconds, 1):.0f} seconds"


def steps_in(
    plan: Plan,
    minutes: float,
    device: torch.device | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """How many steps of a plan take about this long, after its warm start; arguments as for `paced`.

    Raises:
        PlanError: too few steps fit.
    """
    seconds = seconds_per_step(plan, device, clock)
    steps = int(60 * minutes / seconds) - plan.recipe.warm_steps
    if steps < LEAST_STEPS:
        least = LEAST_STEPS + plan.recipe.warm_steps
        raise PlanError(
            f"{minutes:g} minutes are too short: a step takes {seconds:.2g} seconds here, and a generator needs at "
            f"least {least:,}. Allow {least * seconds / 60:.1f} minutes or more."
        )
    return steps


def seconds_per_step(
    plan: Plan, device: torch.device | None = None, clock: Callable[[], float] = time.monotonic
) -> float:
    """The time of one step on stand-in records, of a run that is thrown away."""
    assert plan.schema is not None
    schema = with_stand_ins(plan.schema)
    charges = tuple(
        replace(one, mechanism=replace(one.mechanism, steps=_TRIAL + 1, batch_cap=None, rows=None))
        if isinstance(one.mechanism, SubsampledGaussian)
        else one
        for one in plan.run_charges
    )
    recipe = replace(plan.recipe, steps=_TRIAL + 1)  # type: ignore[type-var]
    trial = Run(
        replace(plan, schema=schema, recipe=recipe, charges=charges),
        noise=SecureNoise(),
        seed=0,
        device=device,
    )
    size = _ROWS if plan.sampled is None else round(plan.rows or _ROWS / plan.training.sampling_rate)
    rows = stand_in_rows(schema, min(size, 20_000), 0)
    public = stand_in_rows(schema.without_persons(), _ROWS, 1) if recipe.learns_from_public else None
    trial.open(rows, None)  # no warm start
    _advance(trial, public, 1)  # the first step is slower than the others
    start = clock()
    _advance(trial, public, _TRIAL)
    return (clock() - start) / _TRIAL


def _advance(trial: Run, public: object, steps: int) -> None:
    """Take steps and wait until they are done: reading a number waits for whatever the device has queued."""
    for _ in range(steps):
        trial.advance(public)  # type: ignore[arg-type]
    next(iter(trial.state().values())).sum().item()
