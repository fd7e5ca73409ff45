"""The critic container and the losses: shapes, conditioning, formulas."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.dpsgd import Critic
from understudy.dpsgd.conditioning import OneHotChannels, OneHotFeatures
from understudy.dpsgd.critics import condition
from understudy.dpsgd.losses import (
    fake_loss,
    fake_slope,
    generator_loss,
    penalty,
    penalty_slope,
    real_loss,
    real_slope,
)
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein, WassersteinPenalty
from understudy.errors import PlanError, UnsupportedModel

LABELS = torch.tensor([0, 2, 1])


def test_channels_hold_the_label() -> None:
    """The plane of the record's class is one, the others are zero, and the record comes first."""
    x = torch.randn(3, 2, 5, 4)
    rows = condition(OneHotChannels(3), x, LABELS)
    assert torch.equal(rows[:, :2], x)
    assert torch.equal(rows[:, 2:].mean((2, 3)), torch.eye(3)[LABELS])


def test_a_label_among_the_features_has_its_scale() -> None:
    """The record comes first, then the scale at the record's own class and zeros elsewhere."""
    x = torch.randn(3, 4)
    rows = condition(OneHotFeatures(3, 5.0), x, LABELS)
    assert torch.equal(rows, torch.cat([x, 5.0 * torch.eye(3)[LABELS]], dim=1))


def test_the_unit_range_moves_the_record_and_not_the_label() -> None:
    """Values in [−1, 1] are shown in [0, 1]; the label keeps its scale."""
    x = 2 * torch.rand(3, 4) - 1
    rows = condition(OneHotFeatures(3, 5.0, unit_range=True), x, LABELS)
    assert torch.equal(rows, torch.cat([(x + 1) / 2, 5.0 * torch.eye(3)[LABELS]], dim=1))


def test_missing_labels_are_named() -> None:
    """A conditional critic without labels says what to do."""
    critic = Critic(nn.Sequential(nn.Linear(7, 1)), OneHotFeatures(3))
    with pytest.raises(UnsupportedModel, match="no labels"):
        critic(torch.randn(2, 4), None)


def test_losses_follow_their_formulas() -> None:
    """Each objective's three losses equal the textbook formula at a few logits."""
    z = torch.tensor([-1.5, 0.0, 2.0], dtype=torch.float64)
    log_sigmoid = torch.log(1 / (1 + torch.exp(-z)))
    log_other = torch.log(1 / (1 + torch.exp(z)))
    assert torch.allclose(real_loss(Minimax(), z), -log_sigmoid)
    assert torch.allclose(real_loss(Minimax(0.1), z), -(0.9 * log_sigmoid + 0.1 * log_other))
    assert torch.allclose(fake_loss(Minimax(), z), -log_other)
    assert torch.allclose(generator_loss(Minimax(), z), -log_sigmoid)
    assert torch.allclose(generator_loss(Minimax(saturating=True), z), log_other)
    for objective in (Wasserstein(), WassersteinPenalty()):
        assert torch.equal(real_loss(objective, z), -z)
        assert torch.equal(fake_loss(objective, z), z)
        assert torch.equal(generator_loss(objective, z), -z)
    assert penalty(WassersteinPenalty(10.0), torch.tensor([[3.0, 4.0]])).tolist() == [160.0]


@pytest.mark.parametrize("objective", [Minimax(), Minimax(0.1), Wasserstein(), WassersteinPenalty()], ids=str)
def test_slopes_are_the_derivatives_of_the_losses(objective: Objective) -> None:
    """What the fast path takes for the losses' derivatives is what autograd finds, also where a norm is zero."""
    z = torch.linspace(-3, 3, 20, dtype=torch.float64, requires_grad=True)
    for loss, slope in ((real_loss, real_slope), (fake_loss, fake_slope)):
        (expected,) = torch.autograd.grad(loss(objective, z).sum(), z)
        assert torch.allclose(slope(objective, z.detach()), expected, atol=1e-14)
    g = torch.randn(4, 2, 3, dtype=torch.float64)
    g[1] = 0.0
    g.requires_grad_()
    (expected,) = torch.autograd.grad(penalty(objective, g).sum(), g)
    assert torch.allclose(penalty_slope(objective, g.detach()), expected, atol=1e-12)


def test_impossible_values_are_refused() -> None:
    """Values that make no sense are refused where they are written."""
    with pytest.raises(PlanError, match="smoothing"):
        Minimax(0.5)
    with pytest.raises(PlanError, match="weight"):
        WassersteinPenalty(-1.0)
    with pytest.raises(PlanError, match="two classes"):
        OneHotFeatures(1)
    with pytest.raises(PlanError, match="scale"):
        OneHotFeatures(2, 0.0)
