"""The training of GANs: what private rows can and cannot move, turns, averages and resuming."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images, tiny_plan
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.dpsgd.clipping import JointClip
from understudy.dpsgd.gradients import clipped_sum
from understudy.errors import BudgetError
from understudy.privacy.mechanisms import Charge, SubsampledGaussian
from understudy.records.encode import encode
from understudy.synthesizers.gan.fit import GanFitter
from understudy.synthesizers.gan.papers import DP_CGAN, PPGAN, SMALL_IMAGES, dp_cgan_tf2
from understudy.synthesizers.gan.parts import ConvCritic, DeconvGenerator
from understudy.synthesizers.gan.recipe import TRAINING, GanRecipe
from understudy.synthesizers.registry import RECIPES
from understudy.synthesizers.shared.optimisers import scheduled_rate
from understudy.synthesizers.shared.parts import Sgd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from understudy.schema import Schema


class ConstantGradients:
    """A gradient source that ignores the records: what the rest of the loop does must then ignore them too."""

    bound = None

    def __init__(self) -> None:
        self.seen: list[int] = []

    def step(
        self, door: Door, critic: nn.Module, fakes: Rows, public: Rows | None = None
    ) -> Mapping[str, Tensor]:
        self.seen.append(len(fakes))
        return {name: torch.full_like(value, 0.01) for name, value in critic.named_parameters()}


def rows_of(schema: Schema, seed: int) -> Rows:
    content = tiny_frame(seed=seed) if isinstance(schema, type(TINY_TABLE)) else tiny_images(seed=seed)
    encoded = encode(content, schema)
    return Rows(encoded.x, encoded.labels)


def door_to(rows: Rows, steps: int = 8, noise: SeededNoise | None = None) -> Door:
    charge = Charge(TRAINING, SubsampledGaussian(8 / 64, 1.0, steps))
    return Door(rows, (charge,), noise or SeededNoise(1), insecure=True, rows=64)


def fitter_of(recipe: GanRecipe, schema: Schema = TINY_IMAGES, seed: int = 3) -> GanFitter:
    """A fitter that has begun, with declared class frequencies where there are classes."""
    seen = recipe.sees(schema)
    free = seen if seen.label_classes is None else replace(seen, label_weights=(0.5, 0.5))
    fitter = recipe.fitter(free, seed=seed, device=torch.device("cpu"))
    fitter.begin(door_to(rows_of(seen, 0)), None, lambda: None)
    return fitter


def blind_run(recipe: GanRecipe, data_seed: int, steps: int = 6) -> tuple[GanFitter, ConstantGradients]:
    """Steps whose gradients are held fixed."""
    fitter, source = fitter_of(recipe), ConstantGradients()
    fitter._gradients = source  # type: ignore[assignment]
    door = door_to(rows_of(TINY_IMAGES, data_seed))
    for _ in range(steps):
        fitter.advance(door, None)
    return fitter, source


SPLIT = dp_cgan_tf2(8, split=True, batch=8)


@pytest.mark.parametrize("name", ["dp-cgan", "dp-cgan-basic", "dp-cgan-tf2"])
def test_rows_reach_the_generator_only_through_the_gradient(name: str) -> None:
    """With the noisy gradient held fixed, other records and other labels change nothing at all."""
    recipe = replace(RECIPES[name], batch=8)
    assert isinstance(recipe, GanRecipe)
    first, second = (blind_run(recipe, data_seed)[0].released() for data_seed in (0, 1))
    for name, value in first.items():
        assert torch.equal(value, second[name])


def test_a_split_update_shows_no_fakes_to_the_private_step() -> None:
    """The private update sees records only; the free one follows it, so the optimiser moves twice per step."""
    fitter, source = blind_run(SPLIT, 0, steps=3)
    assert source.seen == [0, 0, 0]
    assert fitter.steps == 3
    assert int(fitter.state()["critic-optimiser:taken"]) == 6


def test_a_split_update_draws_from_the_private_rows_once_per_step() -> None:
    """T steps of the plan are T private updates: the update on fakes is no event, and none is left out."""
    decided = tiny_plan(TINY_IMAGES, recipe=SPLIT, steps=3)
    assert [charge.mechanism for charge in decided.charges if charge.purpose == TRAINING] == [
        decided.training
    ]
    door, fitter = door_to(rows_of(TINY_IMAGES, 0), steps=3), fitter_of(SPLIT)
    for _ in range(3):
        fitter.advance(door, None)
    assert door.used == {TRAINING: decided.training.steps}
    with pytest.raises(BudgetError):
        fitter.advance(door, None)


def test_the_update_on_fakes_ignores_the_rows() -> None:
    """With the noisy gradient held fixed, other records change neither critic nor generator."""
    first, second = (blind_run(SPLIT, seed, steps=3)[0].state() for seed in (0, 1))
    for name, value in first.items():
        assert torch.equal(value, second[name])


def test_the_number_of_fakes_is_public() -> None:
    """Every step has as many fakes as the expected batch, whatever the Poisson draw was."""
    assert blind_run(replace(DP_CGAN, batch=8), 0, steps=5)[1].seen == [8] * 5


def test_a_resumed_run_equals_an_uninterrupted_one() -> None:
    """State, optimisers, averages and random source survive: seeded runs are equal bit by bit."""
    recipe, rows = replace(DP_CGAN, batch=8, averaging=0.9), rows_of(TINY_IMAGES, 0)
    whole, door = fitter_of(recipe), door_to(rows)
    for _ in range(8):
        whole.advance(door, None)
    first, door = fitter_of(recipe), door_to(rows)
    for _ in range(4):
        first.advance(door, None)
    second = fitter_of(recipe, seed=99)
    second.restore(first.state())
    for _ in range(4):
        second.advance(door, None)
    for name, value in whole.released().items():
        assert torch.equal(value, second.released()[name])


def test_weights_stay_within_the_clamp() -> None:
    """A clamped critic never leaves its box."""
    fitter = fitter_of(replace(PPGAN, batch=8, clamp=0.005), TINY_TABLE)
    fitter._gradients = ConstantGradients()  # type: ignore[assignment]
    fitter.advance(door_to(rows_of(replace(TINY_TABLE, label=None), 0)), None)
    assert max(float(value.detach().abs().max()) for value in fitter.critic.parameters()) <= 0.005 + 1e-9


def test_the_schedule_is_the_papers() -> None:
    """The rate goes linearly from 0.15 to 0.052 in 10,000 steps and stays there."""
    part = Sgd(rate=0.15, final_rate=0.052, decay_steps=10_000)
    assert scheduled_rate(part, 0) == 0.15
    assert scheduled_rate(part, 5_000) == pytest.approx(0.101)
    assert scheduled_rate(part, 20_000) == pytest.approx(0.052)
    assert scheduled_rate(Sgd(rate=0.3), 7) == 0.3


def test_turns_count() -> None:
    """With four critic steps per turn the generator moves every fourth step."""
    fitter, door, moved = (
        fitter_of(replace(DP_CGAN, batch=8, critic_steps=4)),
        door_to(Rows(torch.zeros(0))),
        [],
    )
    fitter._gradients = ConstantGradients()  # type: ignore[assignment]
    for _ in range(8):
        before = fitter.generator.state_dict()["body.0.weight"].clone()
        fitter.advance(door, None)
        moved.append(not torch.equal(before, fitter.generator.state_dict()["body.0.weight"]))
    assert moved == [False, False, False, True] * 2


def test_without_averaging_the_last_weights_are_released() -> None:
    """The moving average is the generator itself when the recipe asks for none."""
    fitter, _ = blind_run(replace(DP_CGAN, batch=8, averaging=None), 0, steps=3)
    for name, value in fitter.generator.state_dict().items():
        assert torch.equal(value, fitter.released()[f"generator.{name}"])


def critic_after(bound: float, steps: int = 12) -> dict[str, Tensor]:
    """The critic of small-images after some steps with Adam's own ε at zero, every record clipped."""
    recipe = replace(SMALL_IMAGES, clipping=JointClip(bound), batch=8, critic_steps=1)
    fitter = fitter_of(replace(recipe, critic=ConvCritic(2), generator=DeconvGenerator(2)))
    for group in fitter._critic_stepper._optimiser.param_groups:
        group["eps"] = 0.0
    door = door_to(rows_of(recipe.sees(TINY_IMAGES), 0), steps)
    norms = []

    def watched(*args: Any, **options: Any) -> Any:
        found = clipped_sum(*args, **options)
        norms.append((found.shifted_count, len(args[2].real)))
        return found

    with patch("understudy.dpsgd.step.clipped_sum", watched):
        for _ in range(steps):
            fitter.advance(door, None)
    assert all(count == -rows / 2 for count, rows in norms)  # no gradient was within the bound
    return fitter.critic.state_dict()


def test_adam_does_not_depend_on_a_bound_below_all_norms() -> None:
    """The theorem of small-images, exactly: C and C/8 give the same critic, bit for bit, after whole steps."""
    one, other = critic_after(2.0**-7), critic_after(2.0**-10)
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    wider = critic_after(3 * 2.0**-10)  # no power of two: equal but for rounding
    assert all(torch.allclose(value, wider[name], atol=1e-5) for name, value in one.items())


def test_the_generators_gradient_is_clipped_where_the_recipe_says_so() -> None:
    """Line 9 of ppgan's algorithm: a plain step moves all weights together by at most rate · bound."""
    recipe = replace(RECIPES["ppgan-printed"], batch=8, critic_steps=1, generator_optimiser=Sgd(rate=1.0))
    assert isinstance(recipe, GanRecipe)
    fitter = fitter_of(recipe)
    before = torch.cat([one.detach().flatten().clone() for one in fitter.generator.parameters()])
    fitter.advance(door_to(rows_of(recipe.sees(TINY_IMAGES), 0)), None)
    after = torch.cat([one.detach().flatten() for one in fitter.generator.parameters()])
    assert 0 < (after - before).norm().item() <= 0.01 * 1.001


def test_the_unit_range_is_a_sigmoid_that_is_released_in_the_usual_one() -> None:
    """The generator's last activation is 2·sigmoid − 1, and the critic is shown (x + 1)/2."""
    recipe = replace(RECIPES["dp-cgan-printed"], batch=8)
    assert isinstance(recipe, GanRecipe)
    fitter = fitter_of(recipe)
    raw = torch.randn(5, 64)
    head = fitter.generator.body[-1]
    assert torch.allclose(head(raw), 2 * torch.sigmoid(raw) - 1, atol=1e-6)
    assert getattr(fitter.critic.conditioning, "unit_range", False)
