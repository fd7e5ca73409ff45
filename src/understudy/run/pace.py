"""How many steps fit into a time, measured on this machine on stand-in records before a private row is read.

Free steps are post-processing, so their number may follow a clock at no cost in privacy. The number of private steps is
part of what is charged: whoever wants them to fit into a time makes a new plan with as many as `steps_in` says.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.door.noise import SecureNoise
from understudy.errors import PlanError
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.run.run import Run
from understudy.run.stand_ins import stand_in_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from understudy.planning import Plan

__all__ = ["paced", "seconds_per_step", "steps_in"]

LEAST_STEPS = 50
"""A generator of fewer steps is not worth its release."""
_TRIAL, _ROWS = 4, 64


def paced(
    plan: Plan,
    minutes: float,
    device: torch.device | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """The same plan with as many free steps as take about this long, at the present number of threads.

    The time that publishing takes before the first step is not part of it.

    Args:
        plan: of a recipe whose steps are free; its charges stay as they are.
        minutes: for all steps together.
        device: where networks will learn.
        clock: seconds, for tests.

    Raises:
        PlanError: the steps of this recipe are charged, or too few of them fit.
    """
    if plan.sampled is not None:
        raise PlanError(
            f"the steps of {plan.recipe.name!r} are charged, so their number is part of the plan: set --steps."
        )
    recipe = replace(plan.recipe, steps=steps_in(plan, minutes, device, clock))  # type: ignore[type-var]
    return replace(plan, recipe=recipe)


def steps_in(
    plan: Plan,
    minutes: float,
    device: torch.device | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """How many steps of a plan take about this long; arguments as for `paced`.

    Raises:
        PlanError: too few steps fit.
    """
    seconds = seconds_per_step(plan, device, clock)
    steps = int(60 * minutes / seconds)
    if steps < LEAST_STEPS:
        raise PlanError(
            f"{minutes:g} minutes are too short: a step takes {seconds:.2g} seconds here, and a generator needs at "
            f"least {LEAST_STEPS}. Allow {LEAST_STEPS * seconds / 60:.1f} minutes or more."
        )
    return steps


def seconds_per_step(
    plan: Plan, device: torch.device | None = None, clock: Callable[[], float] = time.monotonic
) -> float:
    """The time of one step on stand-in records, of a run that is thrown away."""
    assert plan.schema is not None
    charges = tuple(
        replace(one, mechanism=replace(one.mechanism, steps=_TRIAL + 1, batch_cap=None, rows=None))
        if isinstance(one.mechanism, SubsampledGaussian)
        else one
        for one in plan.run_charges
    )
    recipe = replace(plan.recipe, steps=_TRIAL + 1)  # type: ignore[type-var]
    trial = Run(replace(plan, recipe=recipe, charges=charges), noise=SecureNoise(), seed=0, device=device)
    size = _ROWS if plan.sampled is None else round(plan.rows or _ROWS / plan.training.sampling_rate)
    rows = stand_in_rows(plan.schema, min(size, 20_000), 0)
    public = stand_in_rows(plan.schema.without_persons(), _ROWS, 1) if recipe.learns_from_public else None
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
