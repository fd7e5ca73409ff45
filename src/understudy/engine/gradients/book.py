"""Forward and backward of one batch: both factors of every use of every weight, record by record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from understudy.engine.critics import condition, condition_parts
from understudy.engine.gradients.layers import Tape
from understudy.engine.losses import fake_loss, penalty, penalty_weight, real_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.engine.batch import CriticBatch
    from understudy.engine.gradients.layers import WeightedLayer
    from understudy.engine.gradients.walk import Chain
    from understudy.engine.objectives import Objective

    Rows = tuple[Tensor, Tensor | None]

__all__ = ["Block", "Book", "book_of_fakes", "book_of_records"]


@dataclass
class Block:
    """Rows that went through a place together, with both factors.

    Args:
        a: the input-shaped factor of each row.
        d: the output-shaped factor of each row.
        forward: whether the bias has a part in it.
        shares: how many times the records occur in the rows, one after the other (twice when a partner's rows
            are the record's too); the rows after them are free: they are not clipped.
    """

    a: Tensor
    d: Tensor
    forward: bool
    shares: int


@dataclass
class Book:
    """All factors of one batch: by layer, and by name for small parameters with a derivative per row."""

    records: int
    layers: dict[WeightedLayer, list[Block]]
    rows: dict[str, list[tuple[Tensor, int]]]

    @classmethod
    def empty(cls, records: int) -> Book:
        """A book without entries."""
        return cls(records, {}, {})

    def enter(self, tape: Tape, shares: int) -> None:
        """Sort what a walk noted by layer and by name."""
        for place in tape.places:
            block = Block(place.a, place.d, place.forward, shares)
            self.layers.setdefault(place.layer, []).append(block)
        for name, rows in tape.rows:
            self.rows.setdefault(name, []).append((rows, shares))

    def pairs(self, layer: WeightedLayer, start: int, stop: int) -> list[tuple[Tensor, Tensor]]:
        """(a, d) of the records start … stop − 1 in each place."""
        return [
            (
                block.a[share * self.records + start : share * self.records + stop],
                block.d[share * self.records + start : share * self.records + stop],
            )
            for block in self.layers[layer]
            for share in range(block.shares)
        ]


def book_of_records(
    chain: Chain, objective: Objective, batch: CriticBatch, *, joint: bool, with_fakes: bool
) -> Book:
    """The factors of the records' gradients, with the fakes alongside (as partners, or free, or not at all)."""
    records = batch.real.shape[0]
    book = Book.empty(records)
    parts: list[Rows] = [(batch.real, batch.real_labels)] if records else []
    if joint and records:
        partners, labels = batch.partners(), batch.fake_labels
        parts.append((batch.fake[partners], None if labels is None else labels[partners]))
    elif with_fakes and not joint and batch.fake.shape[0]:
        parts.append((batch.fake, batch.fake_labels))
    if not parts:
        return book

    def loss(logits: Tensor) -> Tensor:
        real = real_loss(objective, logits[:records]).sum()
        return real + fake_loss(objective, logits[records:]).sum()

    values = _enter_losses(book, chain, loss, parts, shares=2 if joint else 1)
    if records and penalty_weight(objective):
        if chain.piecewise_linear and chain.affine_layers and len(parts) == 2:
            values = _mixed_values(chain, batch, values, joint=joint)
        else:
            values = chain.values(condition(chain.conditioning, batch.interpolates(), batch.real_labels))
        tape = Tape()
        chain.note_penalty(values, batch.real_labels, partial(_penalty_slopes, objective), tape)
        book.enter(tape, 1)
    return book


def book_of_fakes(chain: Chain, objective: Objective, batch: CriticBatch) -> Book:
    """The factors of the fakes' gradients, each treated like a record."""
    book = Book.empty(batch.fake.shape[0])
    if book.records:
        parts = [(batch.fake, batch.fake_labels)]
        _enter_losses(book, chain, lambda logits: fake_loss(objective, logits).sum(), parts, shares=1)
    return book


def _enter_losses(
    book: Book, chain: Chain, loss: Callable[[Tensor], Tensor], parts: list[Rows], *, shares: int
) -> list[Tensor]:
    """Enter the gradients of the rows' losses, records first; returns the value at each layer."""
    known = [labels for _, labels in parts if labels is not None]
    labels = torch.cat(known) if known else None
    values = chain.values(condition_parts(chain.conditioning, parts))
    tape = Tape()
    chain.note_loss(values, labels, _slopes(loss, chain.logits(values[-1], labels)), tape)
    book.enter(tape, shares)
    return values


def _mixed_values(chain: Chain, batch: CriticBatch, values: list[Tensor], *, joint: bool) -> list[Tensor]:
    """The values at the interpolates: up to the first weight these are the interpolates of the values.

    Before the first weight the records' values stand in: a piecewise linear chain asks only for their shape.
    """
    records, first = batch.real.shape[0], chain.affine_layers
    ends = values[first][records:]
    mixed = batch.between(ends if joint else ends[batch.partners()], values[first][:records])
    return [value[:records] for value in values[:first]] + chain.values(mixed, first)


def _penalty_slopes(objective: Objective, input_gradients: Tensor) -> Tensor:
    return _slopes(lambda at: penalty(objective, at).sum(), input_gradients)


def _slopes(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The derivative of a number in x."""
    with torch.enable_grad():
        at = x.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(function(at), at)
    return slopes
