"""Clamping, spectral normalisation and averaging, against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from understudy.door.source import Rows
from understudy.dpsgd import Critic, MovingAverage, clamp_weights, spectral_normalise
from understudy.dpsgd.clipping import GlobalClip, SeparateClip
from understudy.dpsgd.losses import fake_loss
from understudy.dpsgd.objectives import Minimax
from understudy.dpsgd.postprocess import fakes_gradient


def test_the_gradient_of_fakes_is_autograds_mean() -> None:
    """Under a rule that leaves fakes alone it is the plain mean gradient of their loss, by ordinary autograd."""
    critic = Critic(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))).double()
    fakes = torch.randn(9, 4, dtype=torch.float64)
    found = fakes_gradient(critic, Minimax(), Rows(fakes), GlobalClip(0.01))
    loss = fake_loss(Minimax(), critic(fakes, None).reshape(-1)).mean()
    expected = torch.autograd.grad(loss, list(critic.parameters()))
    for (name, _), gradient in zip(critic.named_parameters(), expected, strict=True):
        assert torch.allclose(found[name], gradient)


def test_the_gradient_of_fakes_obeys_their_own_bound() -> None:
    """A tiny bound on fakes bounds the mean of their gradients."""
    critic = Critic(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))).double()
    fakes = Rows(torch.randn(9, 4, dtype=torch.float64))
    found = fakes_gradient(critic, Minimax(), fakes, SeparateClip(1.0, 0.001))
    norm = torch.cat([value.flatten() for value in found.values()]).norm().item()
    assert 0 < norm <= 0.001


def test_clamped_weights_are_within_the_limit() -> None:
    """Every parameter ends within the limit, and small ones are left as they were."""
    model = nn.Linear(5, 4)
    before = model.weight.detach().clone()
    clamp_weights(model, 0.1)
    assert torch.equal(model.weight, before.clamp(-0.1, 0.1))
    assert bool((model.bias.abs() <= 0.1).all())


def test_spectral_normalisation_bounds_the_largest_singular_value() -> None:
    """Large weights end at the bound by an independent singular value decomposition; small ones do not move."""
    model = nn.Sequential(nn.Linear(8, 6), nn.Conv2d(2, 3, 3), nn.Linear(4, 4)).double()
    with torch.no_grad():
        model[0].weight.mul_(50)
        model[1].weight.mul_(50)
        model[2].weight.mul_(1e-3)
    small = model[2].weight.detach().clone()
    spectral_normalise(model, bound=2.0, iterations=200)
    for layer in (model[0], model[1]):
        largest = torch.linalg.matrix_norm(layer.weight.flatten(1), ord=2)
        assert largest.item() == pytest.approx(2.0, rel=1e-6)
    assert torch.equal(model[2].weight, small)


def test_the_average_follows_the_weights() -> None:
    """After n warm updates towards a constant the distance has shrunk by decay to the n; without decay it is zero."""
    model = nn.Linear(3, 2)
    average, none = MovingAverage(model, decay=0.9), MovingAverage(model, decay=None)
    start = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    for taken in range(1000, 1005):
        average.update(model, taken)
        none.update(model, taken)
    assert torch.allclose(average.weights()["weight"], start + (1 - 0.9**5), atol=1e-6)
    assert torch.equal(none.weights()["weight"], model.weight)


def test_a_cold_average_forgets_faster_and_can_be_resumed() -> None:
    """The first update keeps 2/11 of the start; a restored average goes on where the other stood."""
    model = nn.BatchNorm1d(2).double()
    average, other = MovingAverage(model, decay=0.9), MovingAverage(model, decay=0.9)
    model(torch.randn(5, 2).double())
    average.update(model, 1)
    assert torch.allclose(average.weights()["running_mean"], 9 / 11 * model.running_mean)
    assert average.weights()["num_batches_tracked"].item() == 1
    other.restore(average.weights())
    for each in (average, other):
        each.update(model, 2)
    assert torch.equal(average.weights()["running_mean"], other.weights()["running_mean"])
