"""The engine's own step under audit: it passes, and every planted error in it is caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from understudy.auditing.canaries import CriticSubject, wide_mlp
from understudy.auditing.production import engine_claim, engine_sampler, engine_step
from understudy.auditing.step import Thoroughness, audit_step
from understudy.auditing.verdict import Outcome
from understudy.door import door as the_door
from understudy.door.noise import SeededNoise
from understudy.dpsgd import NoisyGradients
from understudy.dpsgd import step as the_step
from understudy.dpsgd.batch import ClippedSum
from understudy.dpsgd.clipping import (
    GlobalClip,
    GroupedClip,
    JointClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
    SeparateClip,
    WeightsBiasesClip,
)
from understudy.dpsgd.objectives import Minimax, Wasserstein, WassersteinPenalty
from understudy.privacy.mechanisms import SubsampledGaussian

MECHANISM = SubsampledGaussian(0.1, 1.15, 200)
QUICK = Thoroughness(rounds=80, opposed_rounds=20, training_rounds=2, empty_rounds=4, sampler_rounds=200)
TINY = replace(QUICK, rounds=40, resolution=0.4)
NAMES = [f"body.{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]
RULES = [
    GlobalClip(1.0),
    SeparateClip(1.0, 2.0),
    JointClip(1.0),
    WeightsBiasesClip(1.0, 0.5),
    GroupedClip((1.0, 1.0, 0.7), tuple(zip(NAMES[::2], NAMES[1::2], strict=True))),
    MicrobatchClip(1.0, 4),
    PublicAdaptiveClip(2),
    PublicAdaptiveClip(2, paired=True),
    WeightsBiasesClip(1.0, 0.5, paired=True),
    QuantileAdaptiveClip(0.5, 1.0, 0.2, 5.0),
]
OBJECTIVES = [Minimax(), Wasserstein(), WassersteinPenalty()]
PER_TENSOR = GroupedClip((1.0,) * 6, tuple((name,) for name in NAMES))


def attack(
    clipping=RULES[0],
    objective=None,
    make=NoisyGradients,
    noise=None,
    sampler=None,
    seed=0,
    canaries=300,
    how=QUICK,
):
    """Audit the production step on a small critic; in microbatches only opposed rounds see a record move it."""
    if isinstance(clipping, MicrobatchClip):
        how = replace(how, opposed_rounds=400)
    source = noise or SeededNoise(seed)
    subject = CriticSubject(
        type(clipping).__name__,
        engine_step(MECHANISM, clipping, objective or Minimax(), source, make=make),
        wide_mlp(6, (8, 8), canaries, seed=seed),
        canaries,
        sensitivity=1.0,
        sampler=sampler,
        seed=seed,
    )
    return audit_step(subject, engine_claim(MECHANISM, clipping, 1e-5), how, seed=seed)


def failing(result):
    """Names of the readings that fail."""
    return {reading.name for reading in result.readings if reading.outcome is Outcome.FAIL}


def test_correct_step_passes_and_the_bound_is_near_the_claim():
    """At a claimed ε of 7.8 the audit proves at least 6.5 of the production step, and its sampler is Poisson."""
    result = attack(sampler=engine_sampler(MECHANISM, SeededNoise(9)), how=replace(QUICK, rounds=120))
    assert result.verdict.outcome is Outcome.PASS, result.verdict
    assert 6.5 < result.lower_bound < result.claimed_epsilon


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not isinstance(rule, MicrobatchClip)], ids=lambda r: r.kind
)
def test_correct_step_passes_under_every_rule_once(rule):
    """One small audit of each clipping rule passes (microbatches: those of a recipe, in test_configuration)."""
    seed = RULES.index(rule)
    verdict = attack(rule, OBJECTIVES[seed % 3], seed=seed, canaries=60, how=TINY).verdict
    assert verdict.outcome is Outcome.PASS, verdict


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.kind)
def test_correct_step_passes_under_every_rule(rule, objective):
    """Three seeded audits of each rule and loss: 72 in all, and every one passes."""
    outcomes = [attack(rule, objective, seed=seed).verdict for seed in range(3)]
    assert [verdict for verdict in outcomes if verdict.outcome is not Outcome.PASS] == []


class WeakNoise(SeededNoise):
    """Noise 3 % too small."""

    def perturb(self, tensors, scale, factor):
        super().perturb(tensors, 0.97 * scale, factor)


class RootBatch(SeededNoise):
    """Noise divided by the root of the batch."""

    def perturb(self, tensors, scale, factor):
        super().perturb(tensors, scale / math.sqrt(64), factor)


class NoiseOnMean(SeededNoise):
    """Noise of the sum's scale added to the mean."""

    def perturb(self, tensors, scale, factor):
        super().perturb(tensors, 64 * scale, factor)


class BareTensor(SeededNoise):
    """One bias leaves the step without noise."""

    def perturb(self, tensors, scale, factor):
        first, bias, *others = tensors
        super().perturb([first, *others], scale, factor)
        bias.mul_(factor)


class OneKey(SeededNoise):
    """Every draw starts from the same key."""

    def _key(self):
        self.draws = 0
        return super()._key()


@pytest.mark.parametrize(
    ("noise", "reading"),
    [(WeakNoise, "variance"), (RootBatch, "multiplier"), (NoiseOnMean, "variance"), (BareTensor, "tensors")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_wrong_noise_is_caught(noise, reading):
    """Weak noise, noise over √B, noise on the mean, and one bare tensor fail their readings."""
    assert reading in failing(attack(noise=noise(0), how=QUICK if noise is WeakNoise else TINY))


def test_reused_key_is_caught():
    """A noise source that repeats its key fails the reuse reading."""
    assert "reuse" in failing(attack(noise=OneKey(1), how=TINY))


@pytest.mark.parametrize("rule", [PER_TENSOR, WeightsBiasesClip(1.0, 1.0)], ids=lambda r: r.kind)
def test_groups_without_the_root_are_caught(rule, monkeypatch):
    """Groups at C each, counted as one C, are seen also when one group is the biases."""
    monkeypatch.setattr(type(rule), "sensitivity", lambda self, adjacency: 1.0)
    assert {"multiplier"} <= failing(
        attack(rule, WassersteinPenalty(), how=replace(QUICK, rounds=120), canaries=120)
    )


def test_clipped_average_is_caught(monkeypatch):
    """A step that clips the batch's gradient as a whole fails."""
    plain = the_step.clipped_sum

    def average(critic, objective, batch, clipping, chunk):
        whole = plain(critic, objective, batch, GlobalClip(1e12), chunk=chunk)
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in whole.gradients.values()))
        scaled = {name: g * (min(1.0, 1.0 / max(norm, 1e-12))) for name, g in whole.gradients.items()}
        return ClippedSum(scaled, 1.0, 0.0)

    monkeypatch.setattr(the_step, "clipped_sum", average)
    assert "opposed" in failing(attack(how=replace(TINY, opposed_rounds=400), canaries=40))


def test_divisor_of_the_realised_batch_is_caught(monkeypatch):
    """A step that divides by the number of records it happened to draw fails."""
    plain, seen = the_step.critic_batch, [1]

    def watching(records, *args, **kwargs):
        seen[0] = max(len(records), 1)
        return plain(records, *args, **kwargs)

    class Realised(NoisyGradients):
        def step(self, *args, **kwargs):
            released = super().step(*args, **kwargs)
            return {name: g * (self.divisor / seen[0]) for name, g in released.items()}

    monkeypatch.setattr(the_step, "critic_batch", watching)
    assert "divisor" in failing(attack(make=Realised, how=TINY))


def test_shuffled_batches_are_caught(monkeypatch):
    """A production step whose sampler walks through shuffled epochs fails the sampler readings."""
    rng, left = np.random.default_rng(0), []

    def shuffled(rows, rate, *_):
        nonlocal left
        if not len(left):
            left = np.array_split(rng.permutation(rows), round(1 / rate))
        return torch.from_numpy(left.pop())

    sampler = engine_sampler(MECHANISM, SeededNoise(1))

    def drawing(rows):
        with monkeypatch.context() as patch:
            patch.setattr(the_door, "poisson_indices", shuffled)
            return sampler(rows)

    assert {"batch-size", "consecutive-batches"} <= failing(attack(sampler=drawing, how=TINY))
