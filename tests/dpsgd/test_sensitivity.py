"""One record moves what the noise is added to by no more than the noise is scaled for: every rule, every bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from doubles import Opaque, Silent
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.dpsgd import Critic, NoisyGradients, step
from understudy.dpsgd.clipping import (
    Clipping,
    GlobalClip,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
    SeparateClip,
    WeightsBiasesClip,
)
from understudy.dpsgd.gradients import bookkeeping, fakes_part, sums
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.dpsgd.batch import ClippedSum, CriticBatch
    from understudy.dpsgd.clipping import ConcreteClip

RECORDS, PIXELS = 600, 784
BOUNDS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


def a_body() -> nn.Sequential:
    """784-128-1, the same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(PIXELS, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))


def some_rows(rows: int, seed: int) -> Tensor:
    """Random records, the same at every call."""
    return torch.randn(rows, PIXELS, generator=torch.Generator().manual_seed(seed))


RULES: dict[str, Callable[[float], Clipping]] = {
    "global": GlobalClip,
    "separate": lambda bound: SeparateClip(bound, 1.0),
    "joint": JointClip,
    "grouped": lambda bound: GroupedClip((bound,) * 4, tuple((f"body.{name}",) for name in NAMES)),
    "weights-biases": lambda bound: WeightsBiasesClip(bound, bound),
    "weights-biases-paired": lambda bound: WeightsBiasesClip(bound, bound, paired=True),
    "public": lambda bound: PublicAdaptiveClip(2, least=bound),
    "public-paired": lambda bound: PublicAdaptiveClip(2, least=bound, paired=True),
    "quantile": lambda bound: QuantileAdaptiveClip(0.5, bound, 0.2, 30.0),
    "microbatch": lambda bound: MicrobatchClip(bound, 20),
}


def movement(
    critic: nn.Module, rule: Clipping, objective: Objective, records: Tensor, fakes: Tensor, public: Tensor
) -> float:
    """How far the last record moves the sum before the noise, in units of what the noise is scaled for."""
    heard, sigma = [], 1.3
    for rows in (records, records[:-1]):
        charge = Charge("steps", SubsampledGaussian(1.0, sigma, 1))
        door = Silent(Rows(rows), (charge,), SeededNoise(3), insecure=True)
        NoisyGradients("steps", rule, objective, float(RECORDS)).step(door, critic, Rows(fakes), Rows(public))
        heard.append(door.heard)
        sensitivity = door.scale / sigma
    squares = sum(float((one - other).square().sum()) for one, other in zip(*heard, strict=True))
    return math.sqrt(squares) / sensitivity


def largest_movement(critic: nn.Module, kind: str, objectives: list[Objective], rows: int = RECORDS) -> float:
    """Over all bounds and objectives; public records shrink with the bound that is to come from them.

    The record that comes and goes is a loud one of the other sign, which turns its whole microbatch.
    """
    records, fakes = some_rows(rows, 1), some_rows(rows, 2)
    records[-1] *= -1000.0
    return max(
        movement(critic, RULES[kind](bound), objective, records, fakes, bound * records[:30])
        for objective in objectives
        for bound in BOUNDS
    )


@pytest.mark.parametrize("kind", RULES)
def test_one_record_moves_the_sum_by_at_most_the_sensitivity(kind: str) -> None:
    """Book-keeping, in float32, for bounds from 1 to 1e-8 beside fakes whose gradients have no bound."""
    found = largest_movement(Critic(a_body()), kind, [Wasserstein(), Minimax()])
    assert 0.5 < found <= 1.0


@pytest.mark.parametrize("kind", [kind for kind in RULES if kind != "microbatch"])
def test_one_record_moves_the_sum_by_at_most_the_sensitivity_by_vmap(kind: str) -> None:
    """The same for critics that are taken by vmap, with fewer rows."""
    found = largest_movement(Opaque(a_body()), kind, [Wasserstein()], 32)
    assert 0.5 < found <= 1.0


def fakes_in_the_same_buffer(patch: pytest.MonkeyPatch) -> None:
    """The fakes' sum in one float32 buffer with the records'."""
    plain = step.clipped_sum

    def shared(
        critic: nn.Module, objective: Objective, batch: CriticBatch, rule: ConcreteClip, chunk: int | None
    ) -> ClippedSum:
        total = plain(critic, objective, batch, rule, chunk=chunk)
        free = fakes_part(critic, objective, batch.fake, None, rule).gradients
        mixed = {name: RECORDS * g + total.gradients[name].float() for name, g in free.items()}
        return replace(total, gradients=mixed)

    patch.setattr(step, "clipped_sum", shared)


@pytest.mark.parametrize("kind", ["global", "grouped", "weights-biases", "quantile"])
def test_fakes_in_the_same_buffer_are_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug, which an audit with canaries of their own coordinates passes, fails the test above."""
    fakes_in_the_same_buffer(monkeypatch)
    assert largest_movement(Critic(a_body()), kind, [Wasserstein()]) > 1.0


@given(st.integers(1, 5000), st.integers(1, 400), st.integers(0, 2**17))
def test_products_are_short_enough(rows: int, each: int, length: int) -> None:
    """Whatever rows are taken at once, no term is rounded more often than allowed."""
    size = sums.rows_at_once(rows, each, length)
    assert 0 <= size <= rows
    assert size == 0 or size * each + math.ceil(rows / size) <= max(length, rows * each)
    assert size == 0 or size == rows or size * each + math.ceil(rows / size) <= length


def test_float32_is_not_trusted_when_products_may_use_fewer_digits() -> None:
    """A program that allows TF32 or bfloat16 in products gets its sums in float64."""
    assert sums.longest(1.0) > 0
    torch.set_float32_matmul_precision("medium")
    try:
        assert sums.longest(1.0) == 0
    finally:
        torch.set_float32_matmul_precision("highest")


def close_pairs() -> float:
    """The movement when records and their partners are nearly the same, so that the two places of a pair cancel."""
    base = some_rows(1, 1)
    records, fakes = (base + 1e-5 * some_rows(RECORDS, seed) for seed in (2, 3))
    return movement(Critic(a_body()), JointClip(1e-8), Wasserstein(), records, fakes, records)


def test_pairs_that_cancel_are_added_up_in_more_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding of what cancels stays within the bound, and would not if all products were made in float32."""
    assert close_pairs() <= 1.0
    for module in (sums, bookkeeping):
        monkeypatch.setattr(module, "longest", lambda gross: 2**17)
    assert close_pairs() > 1.0
