"""Gradients of whole microbatches: one ordinary backward for each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.losses import fake_loss, penalty, penalty_weight, real_loss
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import MicrobatchClip
    from understudy.dpsgd.objectives import Objective

__all__ = ["clipped_sum", "fake_gradient", "summed_gradient"]


def clipped_sum(
    critic: nn.Module, objective: Objective, batch: CriticBatch, rule: MicrobatchClip, chunk: int | None
) -> tuple[dict[str, Tensor], float]:
    """Σ over microbatches of the clipped gradient of (Σ losses / size), plus the fakes' part."""
    if batch.microbatch is None:
        raise PlanError("MicrobatchClip needs the microbatch of each record: set CriticBatch.microbatch.")
    partition = rule.partition(trained_parameters(critic))
    total = _in_pieces(
        lambda rows: fake_gradient(critic, objective, _pick_fakes(batch, rows)),
        torch.arange(batch.fake.shape[0], device=batch.fake.device),
        chunk,
    )
    count = 0.0
    for number in sorted(set(batch.microbatch.tolist())):
        gradient = _in_pieces(
            lambda rows: summed_gradient(critic, objective, _pick(batch, rows), 1.0 / rule.size),
            (batch.microbatch == number).nonzero().squeeze(1),
            chunk,
        )
        squares = {name: g.double().square().sum()[None] for name, g in gradient.items()}
        factors = partition.factors(squares)
        for name, g in gradient.items():
            factor = factors[name].item()
            if factor > 0:
                total[name] += factor * g
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
    )


def _pick_fakes(batch: CriticBatch, rows: Tensor) -> CriticBatch:
    labels = batch.fake_labels
    return replace(batch, fake=batch.fake[rows], fake_labels=None if labels is None else labels[rows])


def summed_gradient(
    critic: nn.Module, objective: Objective, batch: CriticBatch, weight: float
) -> dict[str, Tensor]:
    """`weight` · ∇ of the sum of the records' losses, penalty included, by ordinary autograd."""
    params = {name: p for name, p in critic.named_parameters() if p.requires_grad}
    with torch.enable_grad():
        loss = real_loss(objective, critic(batch.real, batch.real_labels).reshape(-1)).sum()
        if penalty_weight(objective):
            point = batch.interpolates().requires_grad_()
            logits = critic(point, batch.real_labels)
            (slope,) = torch.autograd.grad(logits.sum(), point, create_graph=True)
            loss = loss + penalty(objective, slope).sum()
        return _gradients(weight * loss, params)


def fake_gradient(critic: nn.Module, objective: Objective, batch: CriticBatch) -> dict[str, Tensor]:
    """The weighted sum of the fakes' gradients, by ordinary autograd."""
    params = {name: p for name, p in critic.named_parameters() if p.requires_grad}
    if not len(batch.fake) or batch.fake_weight == 0:
        return {name: torch.zeros_like(p) for name, p in params.items()}
    with torch.enable_grad():
        loss = fake_loss(objective, critic(batch.fake, batch.fake_labels).reshape(-1)).sum()
        return _gradients(batch.fake_weight * loss, params)


def _gradients(loss: Tensor, params: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    found = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
    return dict(zip(params, found, strict=True))
