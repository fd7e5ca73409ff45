"""A time budget chooses the steps, before a private row is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tiny import TINY_IMAGES, TINY_TABLE
from understudy.errors import PlanError
from understudy.planning import Plan, plan
from understudy.run.pace import in_words, paced
from understudy.run.progress import _FirstSteps
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, MeanEmbedding, UpsamplingGenerator
from understudy.synthesizers.gan.papers import dp_gan
from understudy.synthesizers.gan.parts import ConvCritic, DeconvGenerator


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


def test_fewer_private_steps_need_less_noise_for_the_same_budget() -> None:
    """A minute of half-second steps makes 120 of 500, charged as such; the rest of the budget goes into less noise."""
    made = plan(TINY_TABLE, epsilon=5.0, delta=1e-3, rows=64, recipe="dp-cgan", batch=8, steps=500)
    chosen = paced(made, 1.0, clock=ticking(0.5))
    assert chosen.steps == chosen.training.steps == 120
    assert chosen.training.noise_multiplier < made.training.noise_multiplier
    assert chosen.spent is not None
    assert 4.9 < chosen.spent.epsilon <= 5.0


def test_private_steps_do_not_exceed_those_of_the_recipe() -> None:
    """Time to spare is not filled with steps that the recipe's rates were not chosen for: the plan stays as it is."""
    made = plan(TINY_TABLE, epsilon=5.0, delta=1e-3, rows=64, recipe="dp-cgan", batch=8, steps=60)
    assert paced(made, 100.0, clock=ticking(0.5)) == made


def test_a_warm_start_is_part_of_the_time() -> None:
    """Steps on public records are taken off those that fit."""
    recipe = replace(dp_gan(warm_steps=70), critic=ConvCritic(2), generator=DeconvGenerator(2), batch=8)
    made = plan(TINY_IMAGES, epsilon=5.0, delta=1e-3, rows=64, recipe=recipe)
    assert paced(made, 1.0, clock=ticking(0.5)).steps == 50


def test_a_baseline_is_paced_without_noise() -> None:
    """There is no budget that anything could follow from."""
    made = plan(TINY_TABLE, epsilon=None, rows=64, recipe="dp-cgan", batch=8, steps=500)
    chosen = paced(made, 1.0, clock=ticking(0.5))
    assert (chosen.steps, chosen.private) == (120, False)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 seconds"), (40, "40 seconds"), (600, "10 minutes"), (93_600, "26 hours"), (5e5, "6 days")],
)
def test_durations_are_told_in_words(seconds: float, words: str) -> None:
    """An estimate is read by people."""
    assert in_words(seconds) == words


def test_the_first_steps_of_a_run_tell_its_time() -> None:
    """Ten steps of half a second announce the other 489, once."""
    times = iter([0.5, 5.5])  # after the first step, and after the eleventh
    pace = _FirstSteps(500, lambda: next(times))
    told = [pace.told(done) for done in range(500)]
    assert [one for one in told if one] == ["about 4 minutes for the other 489 steps, by the first 10"]
