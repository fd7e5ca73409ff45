"""What may be done to weights after a noisy step, free of charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.engine.batch import CriticBatch
from understudy.engine.clipping import GlobalClip, SeparateClip
from understudy.engine.gradients import clipped_sum

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.engine.clipping import Clipping
    from understudy.engine.objectives import Objective
    from understudy.engine.sampling import Rows

__all__ = ["MovingAverage", "clamp_weights", "fakes_gradient", "spectral_normalise"]


def fakes_gradient(
    critic: nn.Module, objective: Objective, fakes: Rows, clipping: Clipping
) -> dict[str, Tensor]:
    """The mean gradient of the critic's loss on fakes alone, each clipped where the rule has a bound for fakes.

    Fakes hold nothing of the private records but what earlier noisy steps released, so an update with this gradient
    needs no noise and is no event for the accountant.
    """
    fake, labels = fakes.all(next(critic.parameters()).detach())
    batch = CriticBatch(
        real=fake[:0],
        real_labels=None if labels is None else labels[:0],
        fake=fake,
        fake_labels=labels,
        fake_weight=1.0 / len(fake),
    )
    rule = (
        clipping if isinstance(clipping, SeparateClip) else GlobalClip(1.0)
    )  # a global rule leaves fakes as they are
    return clipped_sum(critic, objective, batch, rule).gradients


@torch.no_grad()
def clamp_weights(critic: nn.Module, limit: float) -> None:
    """Clamp every parameter to [−limit, limit], in place (the Lipschitz constraint of the first WGAN)."""
    for parameter in critic.parameters():
        parameter.clamp_(-limit, limit)


@torch.no_grad()
def spectral_normalise(critic: nn.Module, bound: float = 1.0, iterations: int = 5) -> None:
    """Scale each Linear and Conv2d weight so that its largest singular value is at most `bound`, in place.

    The value is estimated by power iteration from a fixed start, on the weight reshaped to a matrix. Weights
    that are already within the bound are left as they are.
    """
    for module in critic.modules():
        if not isinstance(module, (nn.Linear, nn.Conv2d)):
            continue
        matrix = module.weight.flatten(1)
        u = torch.ones(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        v = matrix.T @ u
        for _ in range(iterations):
            v = nn.functional.normalize(matrix.T @ u, dim=0)
            u = nn.functional.normalize(matrix @ v, dim=0)
        largest = torch.dot(u, matrix @ v)
        module.weight.mul_(torch.clamp(bound / largest.clamp(min=1e-12), max=1.0))


class MovingAverage:
    """An exponential moving average of a model's weights: often the better generator to release.

    Args:
        model: the model to follow; the average starts at its current weights.
        decay: the share of the old average that each `update` keeps.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model's weights."""
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter, 1.0 - self.decay)

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Write the average into a model of the same shape."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self.weights[name])
