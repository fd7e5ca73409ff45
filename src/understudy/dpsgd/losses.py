"""The losses of records: one for each, never a mean over rows, because a private step clips per record.

A loss is an objective of a critic, whose formulas and slopes are written out here, or a `RecordLoss`: any function of
one record and of what the model makes of it, such as the cross-entropy of a classifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
from torch.func import grad, vmap
from torch.nn import functional

from understudy.dpsgd.objectives import Minimax, Objective, WassersteinPenalty

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__all__ = [
    "Loss",
    "RecordLoss",
    "fake_loss",
    "fake_slope",
    "generator_loss",
    "penalty",
    "penalty_slope",
    "penalty_weight",
    "real_loss",
    "real_slope",
    "record_losses",
    "record_slopes",
]


class RecordLoss(Protocol):
    """The loss of one record, as a number that `torch.func` can differentiate.

    It is handed one record at a time, so that no loss can depend on the other records of a batch.
    """

    def __call__(self, outputs: Tensor, x: Tensor, label: Tensor | None, /) -> Tensor:
        """The loss, from the model's outputs at the record, the record, and its label if there are labels."""
        ...


Loss = Objective | RecordLoss


def record_losses(loss: Loss, outputs: Tensor, x: Tensor, labels: Tensor | None) -> Tensor:
    """The loss of each record, from the model's outputs at all of them; without a penalty."""
    if isinstance(loss, Objective):
        return real_loss(loss, outputs.flatten())
    return _one_by_one(loss, outputs, x, labels)


def record_slopes(loss: Loss, outputs: Tensor, x: Tensor, labels: Tensor | None) -> Tensor:
    """The derivative of each record's loss in the model's outputs at it."""
    if isinstance(loss, Objective):
        return real_slope(loss, outputs.flatten())
    return _one_by_one(grad(loss), outputs, x, labels)


def _one_by_one(function: Callable[..., Tensor], outputs: Tensor, x: Tensor, labels: Tensor | None) -> Tensor:
    in_dims = (0, 0, None if labels is None else 0)
    result: Tensor = vmap(function, in_dims=in_dims, randomness="different")(outputs, x, labels)
    return result


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
        return -functional.softplus(logits) if objective.saturating else functional.softplus(-logits)
    return -logits


def penalty_weight(objective: Loss) -> float:
    """The weight of the gradient penalty; zero when the objective has none."""
    return objective.weight if isinstance(objective, WassersteinPenalty) else 0.0


def penalty(objective: Loss, input_gradients: Tensor) -> Tensor:
    """`weight` · (‖∇D(x̂)‖ − 1)² for each row of input gradients."""
    norms: Tensor = torch.linalg.vector_norm(input_gradients.flatten(1), dim=1)
    excess = (norms - 1.0).square()
    return excess * penalty_weight(objective)


def penalty_slope(objective: Loss, input_gradients: Tensor) -> Tensor:
    """The derivative of each row's `penalty` in its input gradient; zero where that is zero."""
    norms: Tensor = torch.linalg.vector_norm(input_gradients.flatten(1), dim=1)
    pull = (2.0 * penalty_weight(objective) * (norms - 1.0) / norms).masked_fill(norms == 0, 0.0)
    return input_gradients * pull.reshape(-1, *[1] * (input_gradients.dim() - 1))
