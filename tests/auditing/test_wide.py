"""The recipes' critics with places for canaries: the same function, the fast path, and directions that are apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from understudy.auditing.production import ProductionSubject
from understudy.auditing.step import LOUD
from understudy.auditing.wide import WideCritic
from understudy.door.noise import SeededNoise
from understudy.dpsgd import explain
from understudy.errors import PlanError
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.records.encode import encoded_shape
from understudy.schema import ImageSchema
from understudy.synthesizers.gan.critics import build_critic
from understudy.synthesizers.gan.parts import Activation, ConvCritic, DenseCritic
from understudy.synthesizers.registry import find_recipe

SIDE = ImageSchema(16, 16, 1, classes=("0", "1", "2"))
CONV = ConvCritic(capacity=4)
CASES = {
    "dense, one-hot": replace(find_recipe("dp-cgan"), critic=DenseCritic(hidden=(12, 8))),
    "conv": replace(find_recipe("small-images"), critic=CONV),
    "conv, one-hot": replace(find_recipe("small-images"), critic=CONV, conditional=True),
    "conv, grouped": replace(find_recipe("dp-gan"), critic=CONV),
}


def build(recipe, canaries=16, schema=SIDE):
    """A recipe's critic, narrow and wide."""
    schema = recipe.sees(schema)
    torch.manual_seed(0)
    critic = build_critic(recipe, schema)
    return critic, WideCritic(critic, encoded_shape(schema), canaries)


@pytest.mark.parametrize("case", CASES)
def test_codes_change_no_output_and_the_fast_path_is_taken(case):
    """A wide critic gives the logit of the narrow one whatever the codes, by book-keeping."""
    recipe = CASES[case]
    critic, wide = build(recipe)
    codes = np.zeros((3, wide.canaries))
    codes[1, 5], codes[2] = LOUD, 7.0
    rows = wide.records(codes)
    record = rows[:1, : rows.shape[1] - wide.canaries] if rows.dim() == 2 else rows[:1, :1]
    expected = critic(record, wide.labels(1))
    assert torch.allclose(wide.critic(rows, wide.labels(3)), expected.expand(3), atol=1e-5)
    assert explain(wide.critic, recipe.objective).startswith("book-keeping")


@pytest.mark.parametrize("case", CASES)
def test_canaries_use_their_whole_bound_in_their_own_direction(case):
    """Almost without noise, a canary moves its own coordinates by 1 (all groups together) and nobody else's."""
    recipe = CASES[case]
    _, wide = build(recipe)
    quiet = SubsampledGaussian(1.0, 1e-6, 10)
    subject = ProductionSubject(
        case, wide, quiet, recipe.clipping, recipe.objective, SeededNoise(0), divisor=8.0
    )
    without = subject.release(np.zeros((2, wide.canaries)))
    code = np.zeros((2, wide.canaries))
    code[1, 6] = LOUD
    code[0, 9] = LOUD
    released = subject.release(code)
    moved = subject.blocks(released)
    lengths = np.linalg.norm(moved, axis=1)
    # What biases take of a rule with groups is not in the canaries' own coordinates.
    floor = 0.985 if "grouped" not in case else 0.5
    assert floor < lengths[6] <= 1.0 + 1e-6
    assert floor < lengths[9] <= 1.0 + 1e-6
    assert np.delete(lengths, [6, 9]).max() < 1e-3
    assert np.linalg.norm(subject.blocks(without)) < 1e-3


def test_four_canaries_share_a_channel_only_where_they_stay_apart():
    """Images of 16 pixels and more take four canaries per channel, smaller ones take one."""
    recipe = CASES["conv"]
    assert build(recipe, 16)[1].records(np.zeros((1, 16))).shape[1] == 1 + 4
    small = build(recipe, 16, ImageSchema(8, 8, 1, classes=("0", "1", "2")))[1]
    assert small.records(np.zeros((1, 16))).shape[1] == 1 + 16


def test_activations_that_would_fill_the_places_are_refused():
    """Softplus is not zero at zero, so ordinary records would stand where only canaries may."""
    recipe = replace(find_recipe("dp-cgan"), critic=DenseCritic(activation=Activation.SOFTPLUS))
    with pytest.raises(PlanError, match="Softplus"):
        build(recipe)
