"""What may be done to weights after a noisy step, free of charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.gradients import fakes_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from understudy.door.source import Rows
    from understudy.dpsgd.clipping import Clipping
    from understudy.dpsgd.objectives import Objective

__all__ = ["clamp_weights", "clipped_together", "fakes_gradient"]


def fakes_gradient(
    critic: nn.Module, objective: Objective, fakes: Rows, clipping: Clipping
) -> dict[str, Tensor]:
    """The mean gradient of the critic's loss on fakes alone, each clipped where the rule has a bound for fakes.

    Fakes hold nothing of the private records but what earlier noisy steps released, so an update with this gradient
    needs no noise and is no event for the accountant.
    """
    fake, labels = fakes.all(next(critic.parameters()).detach())
    return fakes_part(critic, objective, fake, labels, clipping).gradients


def clipped_together(gradients: Sequence[Tensor], bound: float) -> tuple[Tensor, ...]:
    """Gradients scaled by one factor so that their joint norm is at most the bound."""
    norm = torch.stack([one.norm() for one in gradients]).norm()
    factor = (bound / norm).clamp(max=1.0)
    return tuple(factor * one for one in gradients)


@torch.no_grad()
def clamp_weights(critic: nn.Module, limit: float) -> None:
    """Clamp every parameter to [−limit, limit], in place (the Lipschitz constraint of the first WGAN)."""
    for parameter in critic.parameters():
        parameter.clamp_(-limit, limit)
