"""The general path: each record's gradient is made whole by `torch.func`, in chunks.

It takes any module of (x, labels), any loss and any order of differentiation. It is the fallback of
the book-keeping path and the oracle of its tests, so it is kept as plain as possible: one function is the
loss of one record, and everything else is derived from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.func import functional_call, grad, vmap

from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.gradients.sums import longest, row_weights
from understudy.dpsgd.losses import fake_loss, penalty, penalty_weight, record_losses
from understudy.dpsgd.objectives import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import ConcreteClip, Partition
    from understudy.dpsgd.losses import Loss

    Gradients = dict[str, Tensor]

__all__ = ["clipped_fakes", "clipped_sum", "squared_norms"]

DEFAULT_CHUNK = 16


def clipped_sum(
    critic: nn.Module,
    objective: Loss,
    batch: CriticBatch,
    rule: ConcreteClip,
    chunk: int | None = None,
    records: int | None = None,
) -> tuple[Gradients, float]:
    """The clipped sum over records in float64, and the shifted count of unclipped ones.

    Args:
        critic: the model.
        objective: the loss.
        batch: the records at hand.
        rule: how they are clipped.
        chunk: how many are handled at once.
        records: how many (or how many persons) the whole batch has, if these are a piece of it; together they share one
            slack.
    """
    params = trained_parameters(critic)
    total = _zeros(params)
    count, length = 0.0, longest(records or batch.people)
    for rows in _clipped_together(critic, objective, batch, joint=rule.paired, chunk=chunk):
        factors = rule.partition(params).factors(_squares(rows))
        _add_weighted(total, rows, factors, length)
        within = torch.stack(list(factors.values())).amin(0) >= 1.0
        count += float(within.sum()) - 0.5 * len(within)
    return total, count


def clipped_fakes(
    critic: nn.Module, objective: Objective, fake: Tensor, labels: Tensor | None, partition: Partition
) -> Gradients:
    """The sum of the fakes' clipped gradients."""
    output = _output(critic)

    def loss(params: Gradients, x: Tensor, label: Tensor | None) -> Tensor:
        return fake_loss(objective, output(params, x, label)).sum()

    total = _zeros(trained_parameters(critic))
    for rows in _in_chunks(critic, loss, (fake, labels), None):
        _add_weighted(total, rows, partition.factors(_squares(rows)), len(fake))
    return total


def squared_norms(
    critic: nn.Module, objective: Loss, batch: CriticBatch, *, joint: bool, chunk: int | None
) -> dict[str, Tensor]:
    """For each parameter, each record's squared gradient norm in float64."""
    parts = [_squares(rows) for rows in _record_gradients(critic, objective, batch, joint=joint, chunk=chunk)]
    names = trained_parameters(critic)
    if not parts:
        return {name: torch.zeros(0, dtype=torch.float64, device=p.device) for name, p in names.items()}
    return {name: torch.cat([part[name] for part in parts]) for name in names}


def _squares(rows: Gradients) -> dict[str, Tensor]:
    return {name: g.flatten(1).double().square().sum(1) for name, g in rows.items()}


def _zeros(params: Gradients) -> Gradients:
    return {name: torch.zeros_like(p, dtype=torch.float64) for name, p in params.items()}


def _add_weighted(total: Gradients, rows: Gradients, factors: dict[str, Tensor], length: int) -> None:
    """Add Σ factor·gradient; a factor of zero removes the record even if its gradient is not finite."""
    weights = row_weights(factors)
    for name, g in rows.items():
        total[name] += weights[name].sum(g, length)


def _clipped_together(
    critic: nn.Module, objective: Loss, batch: CriticBatch, *, joint: bool, chunk: int | None
) -> Iterator[Gradients]:
    """What is clipped as one: the gradients of records, or the weighted sums of those of each person."""
    if batch.persons is None:
        yield from _record_gradients(critic, objective, batch, joint=joint, chunk=chunk)
        return
    for piece in batch.pieces(chunk or DEFAULT_CHUNK):
        assert piece.persons is not None
        assert piece.weights is not None
        for rows in _record_gradients(critic, objective, piece, joint=joint, chunk=len(piece.real)):
            yield {name: _of_persons(g.double(), piece.persons, piece.weights) for name, g in rows.items()}


def _of_persons(rows: Tensor, persons: Tensor, weights: Tensor) -> Tensor:
    weighted = rows * weights.to(rows.dtype).reshape(-1, *[1] * (rows.dim() - 1))
    return rows.new_zeros(int(persons[-1]) + 1, *rows.shape[1:]).index_add_(0, persons, weighted)


def _record_gradients(
    critic: nn.Module, objective: Loss, batch: CriticBatch, *, joint: bool, chunk: int | None
) -> Iterator[Gradients]:
    """The gradients of the records' losses, one chunk of records at a time."""
    if not len(batch.real):
        return
    partners = batch.partners()
    labels = batch.real_labels
    mixed = batch.interpolates() if penalty_weight(objective) else None
    fakes = batch.fake[partners] if joint else None
    fake_labels = batch.fake_labels[partners] if joint and batch.fake_labels is not None else None
    columns = (batch.real, labels, mixed, fakes, fake_labels)
    yield from _in_chunks(critic, _record_loss(critic, objective), columns, chunk)


def _in_chunks(
    critic: nn.Module,
    loss: Callable[..., Tensor],
    columns: tuple[Tensor | None, ...],
    chunk: int | None,
) -> Iterator[Gradients]:
    params = trained_parameters(critic)
    in_dims = (None, *[None if column is None else 0 for column in columns])
    gradients = vmap(grad(loss), in_dims=in_dims, randomness="different")
    first = columns[0]
    assert first is not None
    size = chunk or DEFAULT_CHUNK
    for start in range(0, len(first), size):
        part = [None if column is None else column[start : start + size] for column in columns]
        yield gradients(params, *part)


def _output(critic: nn.Module) -> Callable[[Gradients, Tensor, Tensor | None], Tensor]:
    """What the model makes of a batch of one record, as a function of the parameters.

    Tied weights are passed once for each module that holds them. Torch's own handling of ties is switched off: for a
    module that occurs twice it would leave a wrong tensor behind in the critic.
    """
    fixed = {name: p.detach() for name, p in critic.named_parameters() if not p.requires_grad}
    buffers = dict(critic.named_buffers())
    first = {id(p): name for name, p in critic.named_parameters()}
    uses = {
        f"{place}.{attribute}" if place else attribute: first[id(p)]
        for place, module in critic.named_modules()
        for attribute, p in module.named_parameters(recurse=False)
    }

    def output(params: Gradients, x: Tensor, label: Tensor | None) -> Tensor:
        one = None if label is None else label[None]
        known = {**fixed, **params}
        values = {name: known[owner] for name, owner in uses.items()}
        out: Tensor = functional_call(critic, {**buffers, **values}, (x[None], one), tie_weights=False)
        return out

    return output


def _record_loss(critic: nn.Module, objective: Loss) -> Callable[..., Tensor]:
    """The loss of one record: real part, penalty at its interpolate, and its partner's part if joint."""
    output = _output(critic)

    def loss(
        params: Gradients,
        x: Tensor,
        label: Tensor | None,
        mixed: Tensor | None,
        fake: Tensor | None,
        fake_label: Tensor | None,
    ) -> Tensor:
        known = None if label is None else label[None]
        total = record_losses(objective, output(params, x, label), x[None], known).sum()
        if mixed is not None:
            slope = grad(lambda point: output(params, point, label).sum())(mixed)
            total = total + penalty(objective, slope[None]).squeeze(0)
        if fake is not None:
            assert isinstance(objective, Objective)
            total = total + fake_loss(objective, output(params, fake, fake_label)).sum()
        return total

    return loss
