"""The fakes' gradient and clamping, against their definitions."""

from __future__ import annotations

import torch
from torch import nn

from understudy.door.source import Rows
from understudy.dpsgd import Critic, clamp_weights
from understudy.dpsgd.clipping import GlobalClip, SeparateClip
from understudy.dpsgd.losses import fake_loss
from understudy.dpsgd.objectives import Minimax
from understudy.dpsgd.postprocess import clipped_together, fakes_gradient


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


def test_gradients_are_clipped_together() -> None:
    """One factor for all tensors brings their joint norm to the bound; what is within it is left as it was."""
    gradients = (torch.tensor([3.0]), torch.tensor([[0.0, 4.0]]))
    shrunk = clipped_together(gradients, 0.5)
    assert torch.allclose(shrunk[0], torch.tensor([0.3]))
    assert torch.allclose(shrunk[1], torch.tensor([[0.0, 0.4]]))
    assert all(torch.equal(a, b) for a, b in zip(clipped_together(gradients, 9.0), gradients, strict=True))


def test_clamped_weights_are_within_the_limit() -> None:
    """Every parameter ends within the limit, and small ones are left as they were."""
    model = nn.Linear(5, 4)
    before = model.weight.detach().clone()
    clamp_weights(model, 0.1)
    assert torch.equal(model.weight, before.clamp(-0.1, 0.1))
    assert bool((model.bias.abs() <= 0.1).all())
