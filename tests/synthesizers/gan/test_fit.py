"""The training loop: what private rows can and cannot move, turns, averages and resuming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from understudy.dpsgd.mechanism import PrivateStep
from understudy.recipes import RECIPES
from understudy.recipes.papers import dp_cgan_tf2
from understudy.recipes.parts import FixedCriticSteps, RisingCriticSteps, Sgd
from understudy.synthesizers.gan.schedule import Turns

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images, tiny_plan
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.errors import BudgetError
from understudy.records.encode import encode
from understudy.schema import Schema
from understudy.synthesizers.gan.fit import GradientSource, Trainer
from understudy.synthesizers.shared.optimisers import scheduled_rate


class ConstantGradients:
    """A gradient source that ignores the records: what the rest of the loop does must then ignore them too."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def step(
        self, critic: nn.Module, records: Rows, fakes: Rows, public: Rows | None = None
    ) -> Mapping[str, Tensor]:
        self.seen.append(len(fakes))
        return {name: torch.full_like(value, 0.01) for name, value in critic.named_parameters()}


def rows_of(schema: Schema, seed: int) -> Rows:
    content = tiny_frame(seed=seed) if schema is TINY_TABLE else tiny_images(seed=seed)
    encoded = encode(content, schema)
    return Rows(encoded.x, encoded.labels)


def run(schema: Schema, recipe_name: str, data_seed: int, steps: int = 6) -> dict[str, Tensor]:
    recipe = replace(RECIPES[recipe_name], batch=8)
    trainer = Trainer(recipe, schema, (0.5, 0.5) if recipe.conditional else None, seed=3)
    source = ConstantGradients()
    for _ in range(steps):
        trainer.advance(source, rows_of(schema, data_seed))
    return trainer.released_weights()


@pytest.mark.parametrize("recipe", ["dp-cgan", "dp-cgan-basic", "dp-cgan-tf2"])
def test_rows_reach_the_generator_only_through_the_gradient(recipe: str) -> None:
    """With the noisy gradient held fixed, other records and other labels change nothing at all."""
    first, second = (run(TINY_IMAGES, recipe, data_seed) for data_seed in (0, 1))
    for name, value in first.items():
        assert torch.equal(value, second[name])


def split_run(source: GradientSource, rows: Rows, steps: int = 3) -> Trainer:
    recipe = replace(dp_cgan_tf2(8, split=True, batch=8), batch=8)
    trainer = Trainer(recipe, TINY_IMAGES, (0.5, 0.5), seed=3)
    for _ in range(steps):
        trainer.advance(source, rows)
    return trainer


def test_a_split_update_shows_no_fakes_to_the_private_step() -> None:
    """The private update sees records only; the free one follows it, so the optimiser moves twice per step."""
    source = ConstantGradients()
    trainer = split_run(source, rows_of(TINY_IMAGES, 0))
    assert source.seen == [0, 0, 0]
    assert trainer.steps == 3
    assert int(trainer.state()["critic-optimiser:taken"]) == 6


def test_a_split_update_draws_from_the_private_rows_once_per_step() -> None:
    """T steps of the plan are T private updates: the update on fakes is no event, and none is left out."""
    recipe = dp_cgan_tf2(8, split=True, batch=8)
    decided = tiny_plan(TINY_IMAGES, recipe=recipe, steps=3)
    step = PrivateStep(decided.training, recipe.clipping, recipe.objective, SeededNoise(1), 8.0)
    split_run(step, rows_of(TINY_IMAGES, 0))
    assert step.taken == decided.training.steps == 3
    assert [charge.mechanism for charge in decided.charges if charge.purpose == "training"] == [
        decided.training
    ]
    with pytest.raises(BudgetError):
        split_run(step, rows_of(TINY_IMAGES, 0), steps=1)


def test_the_update_on_fakes_ignores_the_rows() -> None:
    """With the noisy gradient held fixed, other records change neither critic nor generator."""
    first, second = (split_run(ConstantGradients(), rows_of(TINY_IMAGES, seed)) for seed in (0, 1))
    for name, value in first.state().items():
        assert torch.equal(value, second.state()[name])


def test_the_number_of_fakes_is_public() -> None:
    """Every step has as many fakes as the expected batch, whatever the Poisson draw was."""
    recipe = replace(RECIPES["dp-cgan"], batch=8)
    trainer, source = Trainer(recipe, TINY_IMAGES, (0.5, 0.5), seed=3), ConstantGradients()
    for _ in range(5):
        trainer.advance(source, rows_of(TINY_IMAGES, 0))
    assert source.seen == [8] * 5


def test_a_resumed_run_equals_an_uninterrupted_one() -> None:
    """State, optimisers, averages and random source survive: seeded runs are equal bit by bit."""
    recipe = replace(RECIPES["dp-cgan"], batch=8, averaging=0.9)
    rows = rows_of(TINY_IMAGES, 0)

    def trainer() -> Trainer:
        return Trainer(recipe, TINY_IMAGES, (0.5, 0.5), seed=3)

    mechanism = tiny_plan(TINY_IMAGES, steps=8).training
    whole, step = trainer(), PrivateStep(mechanism, recipe.clipping, recipe.objective, SeededNoise(1), 8.0)
    for _ in range(8):
        whole.advance(step, rows)
    first, step = trainer(), PrivateStep(mechanism, recipe.clipping, recipe.objective, SeededNoise(1), 8.0)
    for _ in range(4):
        first.advance(step, rows)
    second = Trainer(recipe, TINY_IMAGES, (0.5, 0.5), seed=99)
    second.restore(first.state())
    for _ in range(4):
        second.advance(step, rows)
    for name, value in whole.released_weights().items():
        assert torch.equal(value, second.released_weights()[name])


def test_weights_stay_within_the_clamp() -> None:
    """A clamped critic never leaves its box."""
    recipe = replace(RECIPES["ppgan"], batch=8, clamp=0.005)
    schema = tiny_plan(recipe="ppgan").schema
    assert schema is not None
    trainer = Trainer(recipe, schema, None, seed=3)
    encoded = encode(tiny_frame(), schema)
    trainer.advance(ConstantGradients(), Rows(encoded.x, None))
    assert max(float(value.detach().abs().max()) for value in trainer.critic.parameters()) <= 0.005 + 1e-9


def test_singular_values_stay_within_the_spectral_bound() -> None:
    """A recipe's spectral bound acts on every weight matrix of the critic after a step."""
    largest = {}
    for bound in (None, 0.3):
        plan = tiny_plan(recipe="ppgan")
        assert plan.schema is not None
        recipe = replace(plan.recipe, clamp=None, spectral_bound=bound)
        trainer = Trainer(recipe, plan.schema, None, seed=3)
        trainer.advance(ConstantGradients(), Rows(encode(tiny_frame(), plan.schema).x, None))
        matrices = [value.detach() for value in trainer.critic.parameters() if value.ndim == 2]
        largest[bound] = max(float(torch.linalg.matrix_norm(one, 2)) for one in matrices)
    assert largest[None] > 0.6
    assert largest[0.3] == pytest.approx(0.3, rel=0.1)


def test_the_schedule_is_the_papers() -> None:
    """The rate goes linearly from 0.15 to 0.052 in 10,000 steps and stays there."""
    part = Sgd(rate=0.15, final_rate=0.052, decay_steps=10_000)
    assert scheduled_rate(part, 0) == 0.15
    assert scheduled_rate(part, 5_000) == pytest.approx(0.101)
    assert scheduled_rate(part, 20_000) == pytest.approx(0.052)
    assert scheduled_rate(Sgd(rate=0.3), 7) == 0.3


def test_fixed_turns_count() -> None:
    """With four critic steps per turn the generator moves every fourth step."""
    turns = Turns(FixedCriticSteps(4))
    assert [turns.due() for _ in range(8)] == [False, False, False, True] * 2


def test_rising_turns_rise_when_the_critic_falls_behind_and_never_fall() -> None:
    """A critic at chance on fakes gets more steps after the grace; a strong one keeps what it has."""
    turns = Turns(RisingCriticSteps(counts=(1, 2, 5), threshold=0.6, grace=3, averaging=0.0))
    for accuracy in (0.5, 0.5):
        turns.watch(accuracy)
    assert turns.level == 0
    turns.watch(0.5)
    assert turns.level == 1
    for accuracy in (0.99,) * 10:
        turns.watch(accuracy)
    assert turns.level == 1


def test_without_averaging_the_last_weights_are_released() -> None:
    """The moving average is the generator itself when the recipe asks for none."""
    recipe = replace(RECIPES["dp-cgan"], batch=8, averaging=None)
    trainer = Trainer(recipe, TINY_IMAGES, (0.5, 0.5), seed=3)
    for _ in range(3):
        trainer.advance(ConstantGradients(), rows_of(TINY_IMAGES, 0))
    for name, value in trainer.generator.state_dict().items():
        assert torch.equal(value, trainer.released_weights()[name])
