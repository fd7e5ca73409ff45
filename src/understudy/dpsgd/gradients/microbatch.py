"""Ordinary autograd: gradients of whole microbatches, and what else needs no gradient per record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.losses import penalty, penalty_weight, record_losses
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import MicrobatchClip
    from understudy.dpsgd.losses import Loss

__all__ = ["clipped_sum", "gradients_of", "summed_losses"]


def clipped_sum(
    critic: nn.Module, objective: Loss, batch: CriticBatch, rule: MicrobatchClip, chunk: int | None
) -> tuple[dict[str, Tensor], float]:
    """Σ over microbatches of the clipped gradient of (Σ losses / size), in float64.

    A microbatch's gradient is made of its own records alone, so a record changes one term of this sum; records of one
    person are in one microbatch.
    """
    if batch.microbatch is None:
        raise PlanError("MicrobatchClip needs the microbatch of each record: set CriticBatch.microbatch.")
    params = trained_parameters(critic)
    partition = rule.partition(params)
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in params.items()}
    count = 0.0
    for number in sorted(set(batch.microbatch.tolist())):
        gradient = _in_pieces(
            lambda rows: _summed_gradient(critic, objective, _pick(batch, rows), 1.0 / rule.size),
            (batch.microbatch == number).nonzero().squeeze(1),
            chunk,
        )
        squares = {name: g.double().square().sum()[None] for name, g in gradient.items()}
        factors = partition.factors(squares)
        for name, g in gradient.items():
            factor = factors[name].item()
            if factor > 0:
                total[name].add_(g.double(), alpha=factor)
        count += 0.5 if min(f.item() for f in factors.values()) >= 1.0 else -0.5
    return total, count


def _in_pieces(
    gradient: Callable[[Tensor], dict[str, Tensor]], rows: Tensor, chunk: int | None
) -> dict[str, Tensor]:
    """A gradient that is a sum over rows, taken for at most `chunk` rows at once."""
    first, *others = torch.split(rows, chunk or max(len(rows), 1))
    total = gradient(first)
    for more in others:
        for name, part in gradient(more).items():
            total[name] += part
    return total


def _pick(batch: CriticBatch, rows: Tensor) -> CriticBatch:
    return replace(
        batch,
        real=batch.real[rows],
        real_labels=None if batch.real_labels is None else batch.real_labels[rows],
        mixing=None if batch.mixing is None else batch.mixing[rows],
        partner=batch.partners()[rows],
        weights=None if batch.weights is None else batch.weights[rows],
    )


def _summed_gradient(
    critic: nn.Module, objective: Loss, batch: CriticBatch, weight: float
) -> dict[str, Tensor]:
    """`weight` · ∇ of the sum of the records' losses, penalty included, by ordinary autograd."""
    with torch.enable_grad():
        losses, penalties = summed_losses(critic, objective, batch)
        return gradients_of(critic, weight * (losses + penalties))


def summed_losses(critic: nn.Module, objective: Loss, batch: CriticBatch) -> tuple[Tensor, Tensor]:
    """The sums of the records' losses and of their penalties, for autograd."""
    outputs = critic(batch.real, batch.real_labels)
    loss = _summed(record_losses(objective, outputs, batch.real, batch.real_labels), batch.weights)
    if not penalty_weight(objective):
        return loss, torch.zeros_like(loss)
    point = batch.interpolates().requires_grad_()
    logits = critic(point, batch.real_labels)
    (slope,) = torch.autograd.grad(logits.sum(), point, create_graph=True)
    return loss, _summed(penalty(objective, slope), batch.weights)


def _summed(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The sum; where persons have several records, of the mean loss of each."""
    return losses.sum() if weights is None else (weights * losses.reshape(weights.shape)).sum()


def gradients_of(critic: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """The gradient of a loss by ordinary autograd, by parameter name."""
    params = {name: p for name, p in critic.named_parameters() if p.requires_grad}
    found = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
    return dict(zip(params, found, strict=True))
