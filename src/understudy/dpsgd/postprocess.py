"""What may be done to weights after a noisy step, free of charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.dpsgd.gradients import fakes_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from understudy.door.source import Rows
    from understudy.dpsgd.clipping import Clipping
    from understudy.dpsgd.objectives import Objective

__all__ = ["MovingAverage", "clamp_weights", "fakes_gradient", "spectral_normalise"]


def fakes_gradient(
    critic: nn.Module, objective: Objective, fakes: Rows, clipping: Clipping
) -> dict[str, Tensor]:
    """The mean gradient of the critic's loss on fakes alone, each clipped where the rule has a bound for fakes.

    Fakes hold nothing of the private records but what earlier noisy steps released, so an update with this gradient
    needs no noise and is no event for the accountant.
    """
    fake, labels = fakes.all(next(critic.parameters()).detach())
    return fakes_part(critic, objective, fake, labels, clipping).gradients


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
    """An exponential moving average of a model's state, running statistics included: often the better generator.

    Args:
        model: the model to follow; the average starts at its current state.
        decay: the share of the old average that each `update` keeps once it is warm; None keeps nothing, so that the
            average is the model itself.
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.decay = decay
        self._weights = {name: value.clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, taken: int) -> None:
        """Move the average towards the model's state after `taken` steps; the first steps are forgotten faster."""
        kept = min(self.decay or 0.0, (1 + taken) / (10 + taken))
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                self._weights[name].lerp_(value, 1.0 - kept)
            else:
                self._weights[name].copy_(value)

    def weights(self) -> dict[str, Tensor]:
        """The averaged state, by name."""
        return {name: value.clone() for name, value in self._weights.items()}

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from what `weights` gave, on the device of the model."""
        self._weights = {
            name: value.to(self._weights[name].device, copy=True) for name, value in weights.items()
        }
