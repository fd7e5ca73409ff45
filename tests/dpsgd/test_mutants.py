"""Planted bugs: each is a mistake that real systems made, and each is caught by a check with a name.

A check runs the real step through the real door and asserts one promise. The healthy step passes all checks; under each
mutation the named check must fail. A check that no mutant can fail would be worth nothing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from understudy.door import door as the_door
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.query import Published
from understudy.door.source import Rows
from understudy.dpsgd import Critic, NoisyGradients, step
from understudy.dpsgd.clipping import SLACK, Clipping, GlobalClip, GroupedClip, MicrobatchClip, Partition
from understudy.dpsgd.conditioning import OneHotFeatures
from understudy.dpsgd.gradients import clipped_sum, norms, sums
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein, WassersteinPenalty
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.dpsgd.batch import ClippedSum, CriticBatch

    Check = Callable[[], None]
    Mutation = Callable[[pytest.MonkeyPatch], None]

SIGMA, DIVISOR, WIDTH, CLASSES = 1.3, 8.0, 30, 3
NAMES = ("body.0.weight", "body.0.bias", "body.2.weight", "body.2.bias")
GROUPS = GroupedClip((1.0, 1.0, 1.0, 1.0), tuple((name,) for name in NAMES))


def a_critic() -> Critic:
    """30-200-1 in float64, the same at every call."""
    torch.manual_seed(0)
    return Critic(nn.Sequential(nn.Linear(WIDTH, 200), nn.LeakyReLU(0.2), nn.Linear(200, 1))).double()


def rows_of(count: int, scale: float = 1.0) -> Rows:
    """Random records, the same at every call."""
    source = torch.Generator().manual_seed(5)
    return Rows(scale * torch.randn(count, WIDTH, generator=source, dtype=torch.float64))


NONE = rows_of(0)


def a_step(
    rule: Clipping, objective: Objective, *, sigma: float = SIGMA, rate: float = 1.0, seed: int | None = None
) -> Callable[[Critic, Rows, Rows], dict[str, Tensor]]:
    """From a critic, records and fakes to what the real step releases; secure noise unless a seed is given."""
    noise = SecureNoise() if seed is None else SeededNoise(seed)
    charge = Charge("steps", SubsampledGaussian(rate, sigma, 10**6))
    gradients = NoisyGradients("steps", rule, objective, DIVISOR)

    def released(critic: Critic, records: Rows, fakes: Rows) -> dict[str, Tensor]:
        return gradients.step(Door(records, (charge,), noise, insecure=True), critic, fakes)

    return released


def check_noise_level() -> None:
    """Every tensor's noise has the standard deviation σ·√ΣC_j²/divisor, for one bound and for four groups."""
    for rule, sensitivity in ((GlobalClip(2.0), 2.0), (GROUPS, 2.0)):
        release = a_step(rule, Wasserstein())
        draws = [release(a_critic(), NONE, NONE) for _ in range(60)]
        for name in NAMES:
            values = torch.stack([draw[name].flatten() for draw in draws]) / (SIGMA * sensitivity / DIVISOR)
            statistic = float(values.square().sum())
            tail = stats.chi2.sf(statistic, values.numel())
            assert 1e-8 < tail < 1 - 1e-8


def check_one_record_moves_the_sum_by_at_most_its_bound() -> None:
    """Removing a record moves the released sum by at most C, be its gradient mostly weights or mostly biases.

    In float64 nothing is rounded that could use up the slack, so the bound is C / (1 + SLACK).
    """
    for objective, scale in itertools.product((Wasserstein(), WassersteinPenalty(), Minimax()), (3.0, 0.1)):
        released = []
        for count in (12, 11):
            release = a_step(GlobalClip(0.1), objective, sigma=1e-12, seed=3)
            records = Rows(rows_of(12, scale).x[:count])
            released.append(release(a_critic(), records, rows_of(4)))
        moved = math.sqrt(sum(float((released[0][n] - released[1][n]).square().sum()) for n in NAMES))
        assert moved * DIVISOR <= 0.1 / (1.0 + SLACK) + 1e-9


def check_a_label_counts_in_the_norm() -> None:
    """Removing a record whose gradient is mostly that of its label moves the sum by at most C."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(WIDTH + CLASSES, 20), nn.LeakyReLU(0.2), nn.Linear(20, 1, bias=False))
    critic = Critic(body, OneHotFeatures(CLASSES)).double()
    labels, x = torch.arange(12) % CLASSES, torch.as_tensor(rows_of(12, 1e-3).x)
    fakes = Rows(torch.as_tensor(rows_of(4).x), torch.zeros(4, dtype=torch.int64))
    released = []
    for count in (12, 11):
        release = a_step(GlobalClip(0.1), Wasserstein(), sigma=1e-12, seed=3)
        released.append(release(critic, Rows(x[:count], labels[:count]), fakes))
    moved = math.sqrt(sum(float((released[0][n] - released[1][n]).square().sum()) for n in released[0]))
    assert moved * DIVISOR <= 0.1 + 1e-9


def check_noise_is_never_used_twice() -> None:
    """Two steps share no noise: among 2¹⁷ cells of the grid, 6,000 numbers hardly ever meet."""
    release = a_step(GlobalClip(1.0), Wasserstein())
    first, second = (release(a_critic(), NONE, NONE)[NAMES[0]].flatten() for _ in range(2))
    assert float((first == second).double().mean()) < 0.01


def check_the_divisor_does_not_know_the_batch() -> None:
    """Twice the records give twice the released gradient."""
    some = torch.as_tensor(rows_of(6).x)
    release = a_step(GlobalClip(1.0), Wasserstein(), sigma=1e-12)
    once = release(a_critic(), Rows(some), NONE)
    twice = release(a_critic(), Rows(some.repeat(2, 1)), NONE)
    for name in NAMES:
        assert torch.allclose(2 * once[name], twice[name], atol=1e-9)


def check_records_join_like_coins() -> None:
    """The number of records in a batch varies like Binomial(N, q), read from the released sums."""
    critic = Critic(nn.Sequential(nn.Linear(WIDTH, 1, bias=False))).double()
    rows = Rows(torch.ones(50, WIDTH, dtype=torch.float64))
    release = a_step(GlobalClip(1.0), Wasserstein(), sigma=1e-9, rate=0.2, seed=8)
    sums = [release(critic, rows, NONE)["body.0.weight"].norm().item() * DIVISOR for _ in range(300)]
    assert np.mean(sums) == pytest.approx(10.0, abs=4 * math.sqrt(8 / 300))
    assert np.var(sums) == pytest.approx(8.0, rel=0.35)


def check_empty_batches_release_noise() -> None:
    """A step without records still gives a noisy gradient."""
    released = a_step(GlobalClip(1.0), Wasserstein())(a_critic(), NONE, NONE)
    assert all(float((g != 0).double().mean()) > 0.9 for g in released.values())


def check_a_broken_record_is_left_out() -> None:
    """A record with NaN does not reach the release."""
    x = torch.as_tensor(rows_of(4).x).clone()
    x[1, 3] = math.nan
    released = a_step(GlobalClip(1.0), Minimax())(a_critic(), Rows(x), NONE)
    assert all(g.isfinite().all() for g in released.values())


CHECKS: list[Check] = [
    check_noise_level,
    check_one_record_moves_the_sum_by_at_most_its_bound,
    check_a_label_counts_in_the_norm,
    check_noise_is_never_used_twice,
    check_the_divisor_does_not_know_the_batch,
    check_records_join_like_coins,
    check_empty_batches_release_noise,
    check_a_broken_record_is_left_out,
]


def noise_over_root_batch(patch: pytest.MonkeyPatch) -> None:
    """Noise divided by √B."""
    real = SecureNoise.perturb
    patch.setattr(SecureNoise, "perturb", lambda s, t, scale, f: real(s, t, scale / math.sqrt(DIVISOR), f))


def noise_on_the_mean(patch: pytest.MonkeyPatch) -> None:
    """Noise of the mean's sensitivity C/B, added to the sum."""
    real = SecureNoise.perturb
    patch.setattr(SecureNoise, "perturb", lambda s, t, scale, f: real(s, t, scale / DIVISOR, f))


def one_tensor_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The last tensor is divided but not noised."""
    real = SecureNoise.perturb

    def perturb(self: SecureNoise, tensors: object, scale: float, factor: float) -> None:
        every = list(tensors)  # type: ignore[call-overload]
        real(self, every[:-1], scale, factor)
        every[-1].mul_(factor)

    patch.setattr(SecureNoise, "perturb", perturb)


def groups_without_root_k(patch: pytest.MonkeyPatch) -> None:
    """k groups each clipped at C, with noise for C."""
    patch.setattr(GroupedClip, "sensitivity", lambda self, adjacency: max(self.bounds))


def tensors_clipped_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Every tensor clipped at C on its own while the noise is for one C."""
    patch.setattr(
        GlobalClip,
        "partition",
        lambda self, names: Partition(tuple((n,) for n in names), (self.bound,) * len(list(names))),
    )


def clipped_average(patch: pytest.MonkeyPatch) -> None:
    """The batch's average is clipped instead of each record."""

    def average(
        critic: nn.Module, objective: Objective, batch: CriticBatch, rule: GlobalClip, chunk: int | None
    ) -> ClippedSum:
        count = len(batch.real)
        if count < 2:
            return clipped_sum(critic, objective, batch, rule, chunk=chunk)
        one = replace(batch, microbatch=torch.zeros(count, dtype=torch.int64))
        total = clipped_sum(critic, objective, one, MicrobatchClip(rule.bound, count))
        return replace(total, gradients={n: g * count for n, g in total.gradients.items()})

    patch.setattr(step, "clipped_sum", average)


def reused_key(patch: pytest.MonkeyPatch) -> None:
    """The same key at every step."""
    patch.setattr(SecureNoise, "_key", lambda self: bytes(32))


def divisor_of_the_realised_batch(patch: pytest.MonkeyPatch) -> None:
    """Division by the number of records that were drawn."""
    real = step.clipped_sum

    def averaged(*args: object, chunk: int | None) -> ClippedSum:
        total = real(*args, chunk=chunk)  # type: ignore[arg-type]
        share = DIVISOR / max(len(args[2].real), 1)  # type: ignore[attr-defined]
        return replace(total, gradients={n: g * share for n, g in total.gradients.items()})

    patch.setattr(step, "clipped_sum", averaged)


def shuffled_batches(patch: pytest.MonkeyPatch) -> None:
    """Batches of fixed size out of a shuffled data set."""
    patch.setattr(
        the_door,
        "poisson_indices",
        lambda rows, rate, noise, *_: torch.randperm(rows)[: round(rows * rate)],
    )


def bias_left_out_of_the_norm(patch: pytest.MonkeyPatch) -> None:
    """The norm forgets the biases."""
    patch.setattr(norms, "bias_squares", lambda outputs: outputs[0].double().square().sum(1) * 0)


def penalty_left_out_of_the_norm(patch: pytest.MonkeyPatch) -> None:
    """The norm sees the record's own place only, not the transposed one of the penalty."""
    real = norms.linear_squares
    patch.setattr(norms, "linear_squares", lambda pairs: real(pairs[:1]))


def label_left_out_of_the_norm(patch: pytest.MonkeyPatch) -> None:
    """The norm forgets the columns of the first weight that meet the one-hot label."""
    real = norms.linear_squares

    def squares(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        net, gross = real(pairs)
        return net * (0.0 if pairs[0][0].shape[1] == CLASSES else 1.0), gross

    patch.setattr(norms, "linear_squares", squares)


def empty_batches_skipped(patch: pytest.MonkeyPatch) -> None:
    """No noise when no record was drawn."""
    real = Door._drawn

    def skip(self: Door, purpose: str, sums: list[Tensor], scale: float) -> Published:
        if not any(one.any() for one in sums):
            return Published(tuple(sums), scale)
        return real(self, purpose, sums, scale)

    patch.setattr(Door, "_drawn", skip)


def broken_records_kept(patch: pytest.MonkeyPatch) -> None:
    """A factor of zero multiplies NaN, which stays NaN."""
    patch.setattr(sums.RowWeights, "clean", lambda self, x: x)


MUTANTS: list[tuple[Mutation, Check]] = [
    (noise_over_root_batch, check_noise_level),
    (noise_on_the_mean, check_noise_level),
    (one_tensor_without_noise, check_noise_level),
    (groups_without_root_k, check_noise_level),
    (tensors_clipped_one_by_one, check_one_record_moves_the_sum_by_at_most_its_bound),
    (clipped_average, check_one_record_moves_the_sum_by_at_most_its_bound),
    (bias_left_out_of_the_norm, check_one_record_moves_the_sum_by_at_most_its_bound),
    (penalty_left_out_of_the_norm, check_one_record_moves_the_sum_by_at_most_its_bound),
    (label_left_out_of_the_norm, check_a_label_counts_in_the_norm),
    (reused_key, check_noise_is_never_used_twice),
    (divisor_of_the_realised_batch, check_the_divisor_does_not_know_the_batch),
    (shuffled_batches, check_records_join_like_coins),
    (empty_batches_skipped, check_empty_batches_release_noise),
    (broken_records_kept, check_a_broken_record_is_left_out),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_healthy_step_passes(check: Check) -> None:
    """Without a planted bug every check holds."""
    check()


@pytest.mark.parametrize(("mutate", "check"), MUTANTS, ids=lambda part: part.__name__)
def test_the_named_check_kills_the_mutant(
    mutate: Mutation, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the planted bug the named check fails."""
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        check()


def test_every_check_kills_something() -> None:
    """No check is there for show."""
    assert {check for _, check in MUTANTS} == set(CHECKS)
