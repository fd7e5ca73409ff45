"""The private step: noise level through the real code, budget, empty batches, adaptive rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.poisson import poisson_indices
from understudy.door.source import Rows
from understudy.dpsgd import Critic, CriticBatch, NonPrivateStep, PrivateStep
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
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein, WassersteinPenalty
from understudy.errors import BudgetError, PlanError
from understudy.privacy.budget import Adjacency
from understudy.privacy.mechanisms import SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

ADD = Adjacency.ADD_OR_REMOVE_ONE


def a_step(
    clipping: Clipping,
    *,
    sigma: float = 1.3,
    steps: int = 10,
    rate: float = 0.2,
    divisor: float = 8.0,
    objective: Objective | None = None,
    noise: SecureNoise | SeededNoise | None = None,
) -> PrivateStep:
    """A step with the common settings of these tests."""
    mechanism = SubsampledGaussian(rate, sigma, steps)
    return PrivateStep(mechanism, clipping, objective or Minimax(), noise or SecureNoise(), divisor)


NO_ROWS = Rows(torch.zeros(0, 6, dtype=torch.float64))
FAKES = Rows(torch.zeros(4, 6, dtype=torch.float64))
RULES: list[tuple[Clipping, float]] = [
    (GlobalClip(2.0), 2.0),
    (SeparateClip(2.0, 1.0), 2.0),
    (JointClip(2.0), 2.0),
    (GroupedClip((3.0, 4.0), (("body.0.weight", "body.0.bias"), ("body.2.weight", "body.2.bias"))), 5.0),
    (WeightsBiasesClip(3.0, 4.0), 5.0),
    (WeightsBiasesClip(3.0, 4.0, paired=True), 5.0),
    (
        MicrobatchClip(2.0, 4),
        4.0 * 4,
    ),  # 2C on the sum of microbatches, and there are four times fewer of them
]


@pytest.mark.parametrize(("rule", "sensitivity"), RULES, ids=[rule.kind for rule, _ in RULES])
def test_a_million_draws_have_the_right_variance(rule: Clipping, sensitivity: float) -> None:
    """Chi-square on noise taken through the real step accepts σ, and rejects 0.98σ and 1.02σ."""
    if isinstance(rule, GroupedClip):
        rule = GroupedClip(rule.bounds, (("0.weight",), ("0.bias",)))
    critic = _Plain(100_000)
    sigma, divisor = 1.3, 8.0
    step = a_step(rule, sigma=sigma, divisor=divisor, objective=Wasserstein())
    zero = Rows(torch.zeros(0, 100_000, dtype=torch.float64))
    none = Rows(torch.zeros(1, 100_000, dtype=torch.float64))
    draws = torch.cat(
        [g.flatten() for _ in range(10) for n, g in step.step(critic, zero, none).items() if "weight" in n]
    )
    assert len(draws) == 1_000_000
    truth = sigma * sensitivity / divisor
    assert _variance_p_value(draws, truth) > 1e-7
    assert _variance_p_value(draws, 0.98 * truth) < 1e-12
    assert _variance_p_value(draws, 1.02 * truth) < 1e-12


class _Plain(nn.Module):
    """One linear layer in float64, whose weights get the noise that is measured."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.add_module("0", nn.Linear(width, 1, dtype=torch.float64))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
        return self.get_submodule("0")(x).squeeze(1)


def _variance_p_value(draws: torch.Tensor, scale: float) -> float:
    """The two-sided chi-square p-value of draws that should be N(0, scale²)."""
    statistic = float((draws / scale).square().sum())
    upper = stats.chi2.sf(statistic, len(draws))
    return float(2 * min(upper, 1 - upper))


def test_bound_does_not_change_the_event(small_critic: Critic) -> None:
    """ε comes from the mechanism alone: a rule with another bound has the same event."""
    assert a_step(GlobalClip(0.1)).event() == a_step(GlobalClip(10.0)).event()
    assert a_step(GlobalClip(0.1)).event() == SubsampledGaussian(0.2, 1.3, 10).event()


def test_steps_beyond_the_plan_are_refused(small_critic: Critic) -> None:
    """The mechanism's T steps run, the next one raises, also after a resume."""
    step = a_step(GlobalClip(1.0), steps=2)
    step.step(small_critic, NO_ROWS, FAKES)
    step.step(small_critic, NO_ROWS, FAKES)
    with pytest.raises(BudgetError, match="all 2 steps"):
        step.step(small_critic, NO_ROWS, FAKES)
    resumed = PrivateStep(step.mechanism, GlobalClip(1.0), Minimax(), SecureNoise(), 8.0, taken=2)
    with pytest.raises(BudgetError):
        resumed.step(small_critic, NO_ROWS, FAKES)


def test_a_cap_is_refused_for_more_records_than_it_was_accounted_for(small_critic: Critic) -> None:
    """More records than the truncated event knows would cut batches more often than was charged; nothing is drawn."""
    mechanism = SubsampledGaussian(0.2, 1.3, 10, batch_cap=8, rows=20)
    step = PrivateStep(mechanism, GlobalClip(1.0), Minimax(), SecureNoise(), 4.0)
    step.step(small_critic, Rows(torch.zeros(20, 6, dtype=torch.float64)), FAKES)
    with pytest.raises(PlanError, match="at most 20 records"):
        step.step(small_critic, Rows(torch.zeros(21, 6, dtype=torch.float64)), FAKES)
    assert step.taken == 1


def test_no_noise_is_not_a_private_step() -> None:
    """A multiplier of zero is sent to the class that is stamped not private."""
    with pytest.raises(PlanError, match="NonPrivateStep"):
        a_step(GlobalClip(1.0), sigma=0.0)


def test_an_empty_batch_still_gives_noise(small_critic: Critic) -> None:
    """Without records the step releases noise plus the fakes' part, and counts."""
    step = a_step(GlobalClip(1.0))
    first = step.step(small_critic, NO_ROWS, FAKES)
    second = step.step(small_critic, NO_ROWS, FAKES)
    assert step.taken == 2
    for name in first:
        assert first[name].isfinite().all()
        assert not torch.equal(first[name], second[name])


def test_noise_is_fresh_across_steps_and_parameters(small_critic: Critic) -> None:
    """No number of the noise occurs twice in a run, and steps are uncorrelated."""
    critic = Critic(nn.Sequential(nn.Linear(6, 400), nn.Linear(400, 1))).double()
    for p in critic.parameters():
        torch.nn.init.zeros_(p)
    step = a_step(GlobalClip(1.0), objective=Wasserstein())
    no_fakes = Rows(torch.zeros(0, 6, dtype=torch.float64))
    runs = [torch.cat([g.flatten() for g in step.step(critic, NO_ROWS, no_fakes).values()]) for _ in range(4)]
    assert len(torch.cat(runs).unique()) == 4 * len(runs[0])
    assert np.abs(np.corrcoef(torch.stack(runs).numpy()) - np.eye(4)).max() < 4.5 / math.sqrt(len(runs[0]))


def test_the_divisor_is_public(small_critic: Critic) -> None:
    """With negligible noise, twice the records give twice the released mean: the divisor is fixed."""
    records = torch.randn(6, 6, dtype=torch.float64)
    results = []
    for copies in (1, 2):
        rows = Rows(records.repeat(copies, 1))
        step = a_step(GlobalClip(1.0), sigma=1e-12, rate=1.0, objective=Wasserstein())
        results.append(step.step(small_critic, rows, Rows(torch.zeros(0, 6, dtype=torch.float64))))
    for name in results[0]:
        assert torch.allclose(2 * results[0][name], results[1][name], atol=1e-9)


def test_real_and_fake_parts_have_equal_weight(small_critic: Critic) -> None:
    """At huge bounds and no noise to speak of, the step is the ordinary mean gradient of a balanced loss."""
    records, fakes = torch.randn(8, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    step = a_step(GlobalClip(1e9), sigma=1e-20, rate=1.0, divisor=8.0)
    released = step.step(small_critic, Rows(records), Rows(fakes))
    small_critic.zero_grad()
    bce = nn.functional.binary_cross_entropy_with_logits
    loss = bce(small_critic(records), torch.ones(8).double()) + bce(
        small_critic(fakes), torch.zeros(5).double()
    )
    loss.backward()
    for name, p in small_critic.named_parameters():
        assert torch.allclose(released[name], p.grad, atol=1e-9)


def test_the_quantile_bound_follows_the_norms(small_critic: Critic) -> None:
    """From a bound far too large, the private quantile brings it near the median norm."""
    records = Rows(torch.randn(400, 6, dtype=torch.float64))
    rule = QuantileAdaptiveClip(quantile=0.5, first_bound=20.0, rate=0.2, count_noise=5.0)
    step = a_step(rule, steps=80, rate=0.25, divisor=100.0, noise=SeededNoise(0), objective=Wasserstein())
    bounds = []
    for _ in range(80):
        step.step(small_critic, records, FAKES)
        assert step.bound is not None
        bounds.append(step.bound)
    norms = _record_norms(small_critic, records)
    assert np.quantile(norms, 0.3) < np.mean(bounds[40:]) < np.quantile(norms, 0.7)


def _record_norms(critic: Critic, records: Rows) -> np.ndarray:
    result = []
    for row in torch.as_tensor(records.x):
        gradients = torch.autograd.grad(-critic(row[None]).sum(), list(critic.parameters()))
        result.append(math.sqrt(sum(float(g.square().sum()) for g in gradients)))
    return np.array(result)


def test_gradients_and_count_together_have_the_mechanisms_multiplier(small_critic: Critic) -> None:
    """The quantile rule's gradient noise is larger than σ·C by exactly what the count spends."""
    rule = QuantileAdaptiveClip(quantile=0.5, first_bound=2.0, rate=0.0, count_noise=1.0)
    critic = _Plain(100_000)
    step = a_step(rule, sigma=1.3, objective=Wasserstein())
    empty = Rows(torch.zeros(0, 100_000, dtype=torch.float64))
    draws = torch.cat([step.step(critic, empty, empty)["0.weight"].flatten() for _ in range(5)])
    sigma_g = (1.3**-2 - 0.25) ** -0.5
    assert _variance_p_value(draws, sigma_g * 2.0 / 8.0) > 1e-7
    assert _variance_p_value(draws, 1.3 * 2.0 / 8.0) < 1e-12


def test_public_bounds_need_public_rows(small_critic: Critic) -> None:
    """The public rule takes its bounds from public rows only, and says so when there are none."""
    step = a_step(PublicAdaptiveClip(1), objective=WassersteinPenalty())
    with pytest.raises(PlanError, match="public"):
        step.step(small_critic, NO_ROWS, FAKES)
    public = Rows(torch.randn(7, 6, dtype=torch.float64))
    released = step.step(small_critic, NO_ROWS, FAKES, public)
    assert set(released) == {name for name, _ in small_critic.named_parameters()}


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-9])
@pytest.mark.parametrize("objective", [Wasserstein(), WassersteinPenalty()], ids=lambda o: o.kind)
def test_the_baseline_is_the_plain_mean_gradient(
    small_critic: Critic, rate: float, objective: Objective
) -> None:
    """Without noise both sides are means, over the records that were drawn (also none) and over the fakes."""
    records, fakes = torch.randn(40, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    step = NonPrivateStep(rate, objective, SeededNoise(0))
    released = step.step(small_critic, Rows(records), Rows(fakes))
    source = SeededNoise(0)
    real = records[poisson_indices(40, rate, source)]
    assert (len(real) == 40) == (rate == 1.0)
    loss = small_critic(fakes).mean()
    if len(real):
        loss = loss - small_critic(real).mean()
    assert step.loss == pytest.approx(loss.item())
    if isinstance(objective, WassersteinPenalty) and len(real):
        mixing = source.uniform((len(real),))[:, None]
        partners = fakes[source.integers(5, len(real))]
        point = (mixing * real + (1 - mixing) * partners).requires_grad_()
        (slope,) = torch.autograd.grad(small_critic(point).sum(), point, create_graph=True)
        loss = loss + objective.weight * (slope.norm(dim=1) - 1).square().mean()
    expected = torch.autograd.grad(loss, list(small_critic.parameters()))
    for found, gradient in zip(released.values(), expected, strict=True):
        assert torch.allclose(found, gradient, atol=1e-12)


def test_the_baseline_is_stamped_not_private() -> None:
    """The step without noise, and one with noise from a seed, say that they are not private."""
    assert not NonPrivateStep(1.0, Wasserstein(), SeededNoise(0)).private
    assert not a_step(GlobalClip(1.0), noise=SeededNoise(0)).private
    assert a_step(GlobalClip(1.0)).private


def test_batches_are_drawn_by_the_mechanisms_rate(
    small_critic: Critic, make_batch: Callable[..., CriticBatch]
) -> None:
    """The step samples with q of the mechanism: the mean clipped weight of a constant record is q·N·C."""
    rows = Rows(torch.full((50, 6), 1.0, dtype=torch.float64))
    critic = Critic(nn.Sequential(nn.Linear(6, 1, bias=False))).double()
    step = a_step(
        GlobalClip(1.0),
        sigma=1e-9,
        steps=400,
        rate=0.2,
        divisor=1.0,
        objective=Wasserstein(),
        noise=SeededNoise(4),
    )
    empty = Rows(torch.zeros(0, 6, dtype=torch.float64))
    sizes = np.array([float(step.step(critic, rows, empty)["body.0.weight"].norm()) for _ in range(400)])
    assert sizes.mean() == pytest.approx(10.0, abs=4 * math.sqrt(8.0 / 400))
    assert sizes.var() == pytest.approx(8.0, rel=0.3)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_the_step_runs_on_the_critics_device(device: str) -> None:
    """Records are moved to the critic, noise is added there, and the result is where the critic is."""
    critic = Critic(nn.Sequential(nn.Linear(6, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))).to(device)
    rows, fakes = Rows(np.random.default_rng(0).normal(size=(20, 6))), Rows(torch.randn(4, 6))
    for rule in (GlobalClip(1.0), JointClip(1.0), MicrobatchClip(1.0, 2)):
        step = a_step(rule, rate=0.5, objective=WassersteinPenalty())
        for name, gradient in step.step(critic, rows, fakes).items():
            assert gradient.device == critic.get_parameter(name).device
            assert gradient.dtype == torch.float32
            assert gradient.isfinite().all()
