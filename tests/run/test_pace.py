"""A time budget chooses free steps only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tiny import TINY_IMAGES, TINY_TABLE
from understudy.errors import PlanError
from understudy.planning import Plan, plan
from understudy.run.pace import paced
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, MeanEmbedding, UpsamplingGenerator


def small_plan() -> Plan:
    recipe = replace(
        UNDERSTUDY_IMAGES,
        embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
        generator=UpsamplingGenerator(hidden=(8,), channels=2),
        batch=8,
    )
    return plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, recipe=recipe)


def ticking(seconds_per_step: float) -> Callable[[], float]:
    """A clock that is asked before and after four steps."""
    times = iter([0.0, 4 * seconds_per_step])
    return lambda: next(times)


def test_the_steps_fill_the_time_and_the_charges_stay() -> None:
    """Half a second per step makes 240 steps of two minutes, and not one number of the account changes."""
    made = small_plan()
    chosen = paced(made, 2.0, clock=ticking(0.5))
    assert chosen.steps == 240
    assert (chosen.charges, chosen.spent, chosen.budget) == (made.charges, made.spent, made.budget)


def test_too_little_time_is_refused_with_the_time_it_needs() -> None:
    """Fifty steps of three seconds need two and a half minutes."""
    with pytest.raises(PlanError, match=r"Allow 2\.5 minutes"):
        paced(small_plan(), 1.0, clock=ticking(3.0))


def test_private_steps_do_not_follow_a_clock() -> None:
    """The steps of a critic are charged in the plan, so a time budget for them is refused."""
    made = plan(TINY_TABLE, epsilon=5.0, delta=1e-3, rows=64, recipe="dp-cgan", batch=8, steps=5)
    with pytest.raises(PlanError, match="part of the plan"):
        paced(made, 10.0)
