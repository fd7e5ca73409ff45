"""The formulas of the objectives: one loss per row, never a mean over rows.

Losses are kept per row because a private step clips per record. Whoever wants a batch mean takes it. The slopes are
the derivatives of the losses, written out for the path that does without autograd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from understudy.dpsgd.objectives import Minimax, WassersteinPenalty

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.dpsgd.objectives import Objective

__all__ = [
    "fake_loss",
    "fake_slope",
    "generator_loss",
    "penalty",
    "penalty_slope",
    "penalty_weight",
    "real_loss",
    "real_slope",
]


def real_loss(objective: Objective, logits: Tensor) -> Tensor:
    """The critic's loss of each real record, from its logit; without the penalty."""
    if isinstance(objective, Minimax):
        target = torch.full_like(logits, 1.0 - objective.label_smoothing)
        return functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return -logits


def fake_loss(objective: Objective, logits: Tensor) -> Tensor:
    """The critic's loss of each fake record, from its logit."""
    if isinstance(objective, Minimax):
        return functional.softplus(logits)
    return logits


def real_slope(objective: Objective, logits: Tensor) -> Tensor:
    """The derivative of `real_loss` in each logit."""
    if isinstance(objective, Minimax):
        return torch.sigmoid(logits) - (1.0 - objective.label_smoothing)
    return torch.full_like(logits, -1.0)


def fake_slope(objective: Objective, logits: Tensor) -> Tensor:
    """The derivative of `fake_loss` in each logit."""
    if isinstance(objective, Minimax):
        return torch.sigmoid(logits)
    return torch.ones_like(logits)


def generator_loss(objective: Objective, logits: Tensor) -> Tensor:
    """The generator's loss of each fake record, from the critic's logit."""
    if isinstance(objective, Minimax):
        return functional.softplus(-logits)
    return -logits


def penalty_weight(objective: Objective) -> float:
    """The weight of the gradient penalty; zero when the objective has none."""
    return objective.weight if isinstance(objective, WassersteinPenalty) else 0.0


def penalty(objective: Objective, input_gradients: Tensor) -> Tensor:
    """`weight` · (‖∇D(x̂)‖ − 1)² for each row of input gradients."""
    norms: Tensor = torch.linalg.vector_norm(input_gradients.flatten(1), dim=1)
    excess = (norms - 1.0).square()
    return excess * penalty_weight(objective)


def penalty_slope(objective: Objective, input_gradients: Tensor) -> Tensor:
    """The derivative of each row's `penalty` in its input gradient; zero where that is zero."""
    norms: Tensor = torch.linalg.vector_norm(input_gradients.flatten(1), dim=1)
    pull = (2.0 * penalty_weight(objective) * (norms - 1.0) / norms).masked_fill(norms == 0, 0.0)
    return input_gradients * pull.reshape(-1, *[1] * (input_gradients.dim() - 1))
