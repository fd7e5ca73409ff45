"""The private step: noise level through the real door, budget, empty batches, adaptive rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.poisson import poisson_indices
from understudy.door.source import Rows
from understudy.dpsgd import Critic, NoisyGradients, PlainGradients, step
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
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

STEPS = "steps"


def a_door(
    records: Rows,
    *,
    sigma: float = 1.3,
    steps: int = 10,
    rate: float = 0.2,
    noise: SecureNoise | SeededNoise | None = None,
    private: bool = True,
) -> Door:
    """A door to records with the common settings of these tests."""
    charge = Charge(STEPS, SubsampledGaussian(rate, sigma, steps))
    return Door(records, (charge,), noise or SecureNoise(), private=private, insecure=True)


def a_step(clipping: Clipping, *, divisor: float = 8.0, objective: Objective | None = None) -> NoisyGradients:
    """A step with the common settings of these tests."""
    return NoisyGradients(STEPS, clipping, objective or Minimax(), divisor)


def rows(count: int, width: int = 6) -> Rows:
    """So many records of zeros."""
    return Rows(torch.zeros(count, width, dtype=torch.float64))


NO_ROWS, FAKES = rows(0), rows(4)
RULES: list[tuple[Clipping, float]] = [
    (GlobalClip(2.0), 2.0),
    (SeparateClip(2.0, 1.0), 2.0),
    (JointClip(2.0), 2.0),
    (GroupedClip((3.0, 4.0), (("0.weight",), ("0.bias",))), 5.0),
    (WeightsBiasesClip(3.0, 4.0), 5.0),
    (WeightsBiasesClip(3.0, 4.0, paired=True), 5.0),
    # 2C on the sum of microbatches, and there are four times fewer of them
    (MicrobatchClip(2.0, 4), 4.0 * 4),
]


@pytest.mark.parametrize(("rule", "sensitivity"), RULES, ids=[rule.kind for rule, _ in RULES])
def test_a_million_draws_have_the_right_variance(rule: Clipping, sensitivity: float) -> None:
    """Chi-square on noise taken through the real step accepts σ, and rejects 0.98σ and 1.02σ."""
    critic, sigma, divisor = _Plain(100_000), 1.3, 8.0
    step, door = a_step(rule, divisor=divisor, objective=Wasserstein()), a_door(rows(0, 100_000), sigma=sigma)
    fake = rows(1, 100_000)
    draws = torch.cat([step.step(door, critic, fake)["0.weight"].flatten() for _ in range(10)])
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

    def forward(self, x: Tensor, labels: Tensor | None) -> Tensor:
        return self.get_submodule("0")(x).squeeze(1)


def _variance_p_value(draws: Tensor, scale: float) -> float:
    """The two-sided chi-square p-value of draws that should be N(0, scale²)."""
    statistic = float((draws / scale).square().sum())
    upper = stats.chi2.sf(statistic, len(draws))
    return float(2 * min(upper, 1 - upper))


@pytest.mark.parametrize("bound", [0.1, 10.0])
def test_noise_follows_the_bound_and_the_price_does_not(bound: float) -> None:
    """ε comes from σ alone: the noise is σ times the bound of whatever rule is asked, which the plan never sees."""
    step, door = a_step(GlobalClip(bound), objective=Wasserstein()), a_door(rows(0, 100_000))
    draws = step.step(door, _Plain(100_000), rows(0, 100_000))["0.weight"].flatten()
    assert _variance_p_value(draws, door.sigma(STEPS) * bound / 8.0) > 1e-7


def test_steps_beyond_the_plan_are_refused(small_critic: Critic) -> None:
    """The plan's T steps run, the next one raises, also after a resume."""
    step, door = a_step(GlobalClip(1.0)), a_door(NO_ROWS, steps=2)
    step.step(door, small_critic, FAKES)
    step.step(door, small_critic, FAKES)
    with pytest.raises(BudgetError, match="2 times"):
        step.step(door, small_critic, FAKES)
    charge = Charge(STEPS, SubsampledGaussian(0.2, 1.3, 2))
    resumed = Door(NO_ROWS, (charge,), SecureNoise(), used={STEPS: 2})
    with pytest.raises(BudgetError):
        step.step(resumed, small_critic, FAKES)


def test_no_noise_is_not_a_private_step(small_critic: Critic) -> None:
    """A multiplier of zero is refused by a private door."""
    with pytest.raises(PlanError, match="noise multiplier 0"):
        a_step(GlobalClip(1.0)).step(a_door(NO_ROWS, sigma=0.0), small_critic, FAKES)


@pytest.mark.parametrize("divisor", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_divisor_is_refused(divisor: float) -> None:
    """The sum is divided by a positive public number."""
    with pytest.raises(PlanError, match="divisor"):
        a_step(GlobalClip(1.0), divisor=divisor)


def test_an_empty_batch_still_gives_noise(small_critic: Critic) -> None:
    """Without records the step releases noise plus the fakes' part, and counts."""
    step, door = a_step(GlobalClip(1.0)), a_door(NO_ROWS)
    first, second = (step.step(door, small_critic, FAKES) for _ in range(2))
    assert door.used == {STEPS: 2}
    for name in first:
        assert first[name].isfinite().all()
        assert not torch.equal(first[name], second[name])


def test_noise_is_fresh_across_steps_and_parameters() -> None:
    """No number of the noise occurs twice in a run (but for the grid's cells), and steps are uncorrelated."""
    critic = Critic(nn.Sequential(nn.Linear(6, 400), nn.Linear(400, 1))).double()
    for p in critic.parameters():
        torch.nn.init.zeros_(p)
    step, door = a_step(GlobalClip(1.0), objective=Wasserstein()), a_door(NO_ROWS)
    runs = [torch.cat([g.flatten() for g in step.step(door, critic, NO_ROWS).values()]) for _ in range(4)]
    correlations = np.corrcoef(torch.stack(runs).numpy())
    assert np.abs(correlations - np.eye(4)).max() < 5.5 / math.sqrt(len(runs[0]))
    # About 2¹⁸ cells are in use, so that 12,804 numbers share one now and then.
    assert len(torch.cat(runs).unique()) > 0.95 * 4 * len(runs[0])


def test_the_divisor_is_public(small_critic: Critic) -> None:
    """With negligible noise, twice the records give twice the released mean: the divisor is fixed."""
    records = torch.randn(6, 6, dtype=torch.float64)
    results = []
    for copies in (1, 2):
        door = a_door(Rows(records.repeat(copies, 1)), sigma=1e-12, rate=1.0)
        results.append(a_step(GlobalClip(1.0), objective=Wasserstein()).step(door, small_critic, NO_ROWS))
    for name in results[0]:
        assert torch.allclose(2 * results[0][name], results[1][name], atol=1e-9)


def test_real_and_fake_parts_have_equal_weight(small_critic: Critic) -> None:
    """At huge bounds and no noise to speak of, the step is the ordinary mean gradient of a balanced loss."""
    records, fakes = torch.randn(8, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    door = a_door(Rows(records), sigma=1e-20, rate=1.0)
    released = a_step(GlobalClip(1e9)).step(door, small_critic, Rows(fakes))
    small_critic.zero_grad()
    bce = nn.functional.binary_cross_entropy_with_logits
    loss = bce(small_critic(records), torch.ones(8).double()) + bce(
        small_critic(fakes), torch.zeros(5).double()
    )
    loss.backward()
    for name, p in small_critic.named_parameters():
        assert torch.allclose(released[name], p.grad, atol=1e-9)


@pytest.mark.parametrize("rule", [GlobalClip(1.0), SeparateClip(1.0, 0.5)], ids=lambda rule: rule.kind)
def test_free_fakes_are_no_part_of_what_the_door_sees(rule: Clipping, small_critic: Critic) -> None:
    """From one draw, steps with and without fakes differ by the fakes' own gradient, whatever the records."""
    differences = []
    for count in (0, 7):
        records = Rows(torch.randn(count, 6, dtype=torch.float64))
        found = [
            a_step(rule).step(a_door(records, noise=SeededNoise(3)), small_critic, fakes)
            for fakes in (Rows(torch.ones(4, 6).double()), NO_ROWS)
        ]
        differences.append({name: found[0][name] - found[1][name] for name in found[0]})
    for name, difference in differences[0].items():
        assert difference.any()
        assert torch.allclose(difference, differences[1][name], atol=1e-12)


def test_frozen_parameters_get_no_gradient_and_no_noise(small_critic: Critic) -> None:
    """A frozen parameter has no part in the step."""
    small_critic.body[0].bias.requires_grad_(False)
    records = Rows(torch.randn(9, 6, dtype=torch.float64))
    released = a_step(GlobalClip(1.0)).step(a_door(records), small_critic, FAKES)
    assert set(released) == {"body.0.weight", "body.2.weight", "body.2.bias"}
    for name, gradient in released.items():
        assert gradient.shape == small_critic.get_parameter(name).shape


def test_the_quantile_bound_follows_the_norms(small_critic: Critic) -> None:
    """From a bound far too large, the private quantile brings it near the median norm."""
    records = Rows(torch.randn(400, 6, dtype=torch.float64))
    rule = QuantileAdaptiveClip(quantile=0.5, first_bound=20.0, rate=0.2, count_noise=5.0)
    door = a_door(records, steps=80, rate=0.25, noise=SeededNoise(0))
    step = a_step(rule, divisor=100.0, objective=Wasserstein())
    bounds = []
    for _ in range(80):
        step.step(door, small_critic, FAKES)
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


def test_gradients_and_count_together_have_the_mechanisms_multiplier() -> None:
    """The quantile rule's gradient noise is larger than σ·C by exactly what the count spends."""
    rule = QuantileAdaptiveClip(quantile=0.5, first_bound=2.0, rate=0.0, count_noise=1.0)
    critic, door = _Plain(100_000), a_door(rows(0, 100_000), sigma=1.3)
    step = a_step(rule, objective=Wasserstein())
    draws = torch.cat([step.step(door, critic, rows(0, 100_000))["0.weight"].flatten() for _ in range(5)])
    sigma_g = (1.3**-2 - 0.25) ** -0.5
    assert _variance_p_value(draws, sigma_g * 2.0 / 8.0) > 1e-7
    assert _variance_p_value(draws, 1.3 * 2.0 / 8.0) < 1e-12


def test_the_count_of_the_quantile_has_its_own_noise(small_critic: Critic) -> None:
    """The noise on the number of records within the bound has the deviation that the rule names, at any σ."""
    rule = QuantileAdaptiveClip(quantile=0.5, first_bound=2.0, rate=1.0, count_noise=3.0)
    counts = []
    door = a_door(NO_ROWS, steps=400, noise=SeededNoise(1))
    for _ in range(400):  # without records the share is ½ plus the count's noise over the divisor
        step = a_step(rule, divisor=100.0, objective=Wasserstein())
        step.step(door, small_critic, NO_ROWS)
        assert step.bound is not None
        counts.append(-math.log(step.bound / 2.0) * 100.0)
    assert _variance_p_value(torch.tensor(counts), 3.0) > 1e-7
    assert _variance_p_value(torch.tensor(counts), 2.0) < 1e-7


def test_public_bounds_need_public_rows(small_critic: Critic) -> None:
    """The public rule takes its bounds from public rows only, and says so when there are none; nothing is drawn."""
    step, door = a_step(PublicAdaptiveClip(1), objective=WassersteinPenalty()), a_door(NO_ROWS)
    with pytest.raises(PlanError, match="public"):
        step.step(door, small_critic, FAKES)
    assert door.used == {}
    public = Rows(torch.randn(7, 6, dtype=torch.float64))
    released = step.step(door, small_critic, FAKES, public)
    assert set(released) == {name for name, _ in small_critic.named_parameters()}


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-9])
@pytest.mark.parametrize("objective", [Wasserstein(), WassersteinPenalty()], ids=lambda o: o.kind)
def test_the_baseline_is_the_plain_mean_gradient(
    small_critic: Critic, rate: float, objective: Objective
) -> None:
    """Without noise both sides are means, over the records that were drawn (also none) and over the fakes."""
    records, fakes = torch.randn(40, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    door = a_door(Rows(records), sigma=0.0, rate=rate, noise=SeededNoise(0), private=False)
    step = PlainGradients(STEPS, objective)
    released = step.step(door, small_critic, Rows(fakes))
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


def test_the_baseline_is_refused_at_a_private_door(small_critic: Critic) -> None:
    """Gradients without a bound do not pass, however much noise there is."""
    door = a_door(rows(8))
    with pytest.raises(PlanError, match="sensitivity inf"):
        PlainGradients(STEPS, Wasserstein()).step(door, small_critic, FAKES)
    assert door.used == {}


def test_batches_are_drawn_by_the_mechanisms_rate() -> None:
    """The step samples with q of the plan: the clipped weight of a constant record is q·N·C on average."""
    records = Rows(torch.full((50, 6), 1.0, dtype=torch.float64))
    critic = Critic(nn.Sequential(nn.Linear(6, 1, bias=False))).double()
    door = a_door(records, sigma=1e-9, steps=400, rate=0.2, noise=SeededNoise(4))
    step = a_step(GlobalClip(1.0), divisor=1.0, objective=Wasserstein())
    sizes = np.array([float(step.step(door, critic, NO_ROWS)["body.0.weight"].norm()) for _ in range(400)])
    assert sizes.mean() == pytest.approx(10.0, abs=5 * math.sqrt(8.0 / 400))
    assert sizes.var() == pytest.approx(8.0, rel=0.3)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_the_step_runs_on_the_critics_device(device: str) -> None:
    """Records are moved to the critic, noise is added there, and the result is where the critic is."""
    critic = Critic(nn.Sequential(nn.Linear(6, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))).to(device)
    records, fakes = Rows(np.random.default_rng(0).normal(size=(20, 6))), Rows(torch.randn(4, 6))
    for rule in (GlobalClip(1.0), JointClip(1.0), MicrobatchClip(1.0, 2)):
        step = a_step(rule, objective=WassersteinPenalty())
        for name, gradient in step.step(a_door(records, rate=0.5), critic, fakes).items():
            assert gradient.device == critic.get_parameter(name).device
            assert gradient.dtype == torch.float32
            assert gradient.isfinite().all()


def test_memory_that_ran_out_for_records_is_not_told(
    small_critic: Critic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether a batch fits follows how many records were drawn: nothing is logged, and fakes are summed as before."""
    whole = step.clipped_sum

    def tight(*arguments: Any, chunk: int | None = None, **options: Any) -> Any:
        if chunk is None:
            raise MemoryError
        return whole(*arguments, chunk=chunk, **options)

    monkeypatch.setattr(step, "clipped_sum", tight)
    gradients = a_step(GlobalClip(2.0))
    gradients.step(a_door(rows(40), rate=1.0), small_critic, FAKES)
    assert gradients._records_at_once.rows == 8
    assert gradients._fakes_at_once.rows is None
    assert not caplog.records
