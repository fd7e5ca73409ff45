"""The fast path: one backward gives all factors, norms come from the factors, the sum is one product.

The gradient of a layer's weight for one record is a sum over its places (and, for a convolution, over the
output positions) of outer products d·aᵀ. Put the input factors of one record in the columns of A and the
output factors in the columns of D; then the gradient is D·Aᵀ and

    ‖D·Aᵀ‖² = Σ (AᵀA ⊙ DᵀD),     Σ_i f_i·D_i·A_iᵀ = one product over all records with D scaled by f.

The Gram matrices on the left are made in float64: places of one record can nearly cancel. Where the Gram
matrices would be larger than the gradient itself, the gradient of each record is made instead, in chunks that
stay in the cache, and both its norm and its part of the sum are taken from it. See docs/engine.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from understudy.engine.clipping import JointClip, SeparateClip
from understudy.engine.gradients import norms
from understudy.engine.gradients.guard import trained_parameters
from understudy.engine.gradients.layers import ConvLayer, Tape
from understudy.engine.losses import fake_loss, penalty, penalty_weight, real_loss

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.engine.batch import CriticBatch
    from understudy.engine.clipping import ConcreteClip, Partition
    from understudy.engine.gradients.layers import WeightedLayer
    from understudy.engine.gradients.walk import Chain
    from understudy.engine.objectives import Objective

__all__ = ["clipped_sum", "squared_norms"]

_CACHE_BYTES = 8_000_000
"""Whole gradients and patches are made for as many records at once as fit in about this much memory."""


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

    def enter(self, tape: Tape, loss: Tensor, shares: int) -> None:
        """Run the backward of `loss` (a sum over rows) and note the factors of everything on the tape."""
        handles = [place.handle for place in tape.places] + [p.copies for p in tape.row_parameters]
        found = torch.autograd.grad(loss, handles, allow_unused=True)
        for place, other in zip(tape.places, found, strict=False):
            if other is None:
                continue
            a, d = (place.known, other) if place.forward else (other, place.known)
            self.layers.setdefault(place.layer, []).append(Block(a, d, place.forward, shares))
        for parameter, rows in zip(tape.row_parameters, found[len(tape.places) :], strict=True):
            if rows is not None:
                self.rows.setdefault(parameter.name, []).append((rows, shares))

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


def clipped_sum(
    critic: nn.Module,
    chain: Chain,
    objective: Objective,
    batch: CriticBatch,
    rule: ConcreteClip,
    chunk: int | None,
) -> tuple[dict[str, Tensor], float]:
    """The clipped sum over records plus the fakes' part, and the shifted count of unclipped records."""
    params = trained_parameters(critic)
    total = {name: torch.zeros_like(p) for name, p in params.items()}
    apart = isinstance(rule, SeparateClip)
    book = _book(chain, objective, batch, joint=isinstance(rule, JointClip), with_fakes=not apart)
    factors = _add_clipped(total, book, rule.partition(params), 1.0, batch.fake_weight, chunk)
    if isinstance(rule, SeparateClip) and batch.fake.shape[0]:
        fakes = _fake_book(chain, objective, batch)
        _add_clipped(total, fakes, rule.fake_partition(params), batch.fake_weight, 0.0, chunk)
    within = torch.stack(list(factors.values())).amin(0) >= 1.0
    return total, float(within.sum()) - 0.5 * within.shape[0]


def squared_norms(
    critic: nn.Module, chain: Chain, objective: Objective, batch: CriticBatch, *, joint: bool
) -> dict[str, Tensor]:
    """For each parameter, each record's squared gradient norm in float64."""
    book = _book(chain, objective, batch, joint=joint, with_fakes=False)
    squares = _zero_squares(trained_parameters(critic), book.records)
    squares |= _plain_squares(book)
    for layer in _convolutions(book):
        if layer.weight_name is not None:
            for start, stop in _chunks(book, [layer], None):
                gradients = norms.conv_gradients(layer, book.pairs(layer, start, stop))
                squares[layer.weight_name][start:stop] = norms.row_squares(gradients)
    return squares


def _book(chain: Chain, objective: Objective, batch: CriticBatch, *, joint: bool, with_fakes: bool) -> Book:
    """Forward and backward of the records, with the fakes alongside (as partners, or free, or not at all)."""
    records = batch.real.shape[0]
    book = Book.empty(records)
    fake, fake_labels = batch.fake, batch.fake_labels
    if joint:
        partners = batch.partners()
        fake = fake[partners]
        fake_labels = None if fake_labels is None else fake_labels[partners]
    elif not with_fakes:
        fake, fake_labels = fake[:0], None if fake_labels is None else fake_labels[:0]
    with torch.enable_grad():
        if records + fake.shape[0]:
            parts = [(batch.real, batch.real_labels), (fake, fake_labels)]
            tape = Tape()
            logits = chain.logits([part for part in parts if part[0].shape[0]], tape)
            loss = real_loss(objective, logits[:records]).sum() + fake_loss(objective, logits[records:]).sum()
            book.enter(tape, loss, 2 if joint else 1)
        if records and penalty_weight(objective):
            tape = Tape()
            slopes = chain.input_gradients(batch.interpolates(), batch.real_labels, tape)
            book.enter(tape, penalty(objective, slopes).sum(), 1)
    return book


def _fake_book(chain: Chain, objective: Objective, batch: CriticBatch) -> Book:
    """Forward and backward of the fakes, each treated like a record."""
    book = Book.empty(batch.fake.shape[0])
    with torch.enable_grad():
        tape = Tape()
        logits = chain.logits([(batch.fake, batch.fake_labels)], tape)
        book.enter(tape, fake_loss(objective, logits).sum(), 1)
    return book


def _convolutions(book: Book) -> list[ConvLayer]:
    return [layer for layer in book.layers if isinstance(layer, ConvLayer)]


def _zero_squares(params: dict[str, Tensor], records: int) -> dict[str, Tensor]:
    return {name: torch.zeros(records, dtype=torch.float64, device=p.device) for name, p in params.items()}


def _chunks(book: Book, whole: list[ConvLayer], chunk: int | None) -> list[tuple[int, int]]:
    """Ranges of records whose whole gradients (of the layers in `whole`) and patches fit in the cache."""
    if not book.records:
        return []
    patches = max(
        d.shape[2] * d.shape[3] * layer.weight[0].numel() * (4 if layer in whole else 8)
        for layer in _convolutions(book)
        for _, d in book.pairs(layer, 0, 1)
    )
    each = patches + 4 * sum(layer.weight.numel() for layer in whole)
    size = chunk or max(1, min(book.records, _CACHE_BYTES // each))
    return [(start, min(start + size, book.records)) for start in range(0, book.records, size)]


def _plain_squares(book: Book) -> dict[str, Tensor]:
    """The squared norms of all parameters except the weights of convolutions."""
    squares: dict[str, Tensor] = {}
    for layer, blocks in book.layers.items():
        pairs = book.pairs(layer, 0, book.records)
        if layer.weight_name is not None and not isinstance(layer, ConvLayer):
            squares[layer.weight_name] = norms.linear_squares(pairs)
        outputs = [
            block.d[share * book.records : (share + 1) * book.records]
            for block in blocks
            if block.forward
            for share in range(block.shares)
        ]
        if layer.bias_name is not None and outputs:
            squares[layer.bias_name] = norms.bias_squares(outputs)
    for name, entries in book.rows.items():
        rows = [part for entry, shares in entries for part in _record_rows(entry, shares, book.records)]
        squares[name] = norms.row_squares(torch.stack(rows).sum(0) if len(rows) > 1 else rows[0])
    return squares


def _record_rows(rows: Tensor, shares: int, records: int) -> list[Tensor]:
    return [rows[share * records : (share + 1) * records] for share in range(shares)]


def _add_clipped(
    total: dict[str, Tensor],
    book: Book,
    partition: Partition,
    record_weight: float,
    free_weight: float,
    chunk: int | None,
) -> dict[str, Tensor]:
    """Add the records' clipped gradients and the free rows' gradients to `total`; returns the factors."""
    squares = _zero_squares(total, book.records)
    squares |= _plain_squares(book)
    whole = [
        layer
        for layer in _convolutions(book)
        if layer.weight_name is not None
        and book.records
        and norms.makes_whole_gradients(layer, book.pairs(layer, 0, 1))
    ]
    if not _convolutions(book):
        factors = partition.factors(squares)
        _add_products(total, book, factors, record_weight, free_weight, [])
        return factors
    factors = _zero_squares(total, book.records)
    for start, stop in _chunks(book, whole, chunk):
        part = {name: square[start:stop] for name, square in squares.items()}
        gradients: dict[str, Tensor] = {}
        for layer in _convolutions(book):
            if layer.weight_name is None:
                continue
            pairs = book.pairs(layer, start, stop)
            if layer in whole:
                gradients[layer.weight_name] = norms.conv_gradients(layer, pairs)
                part[layer.weight_name] = norms.row_squares(gradients[layer.weight_name])
            else:
                part[layer.weight_name] = norms.conv_gram_squares(layer, pairs)
        for name, factor in partition.factors(part).items():
            factors[name][start:stop] = factor
        for layer in whole:
            assert layer.weight_name is not None
            weights = factors[layer.weight_name][start:stop] * record_weight
            total[layer.weight_name] += layer.as_weight(_weighted(gradients[layer.weight_name], weights))
    _add_products(total, book, factors, record_weight, free_weight, whole)
    return factors


def _add_products(
    total: dict[str, Tensor],
    book: Book,
    factors: dict[str, Tensor],
    record_weight: float,
    free_weight: float,
    whole: list[ConvLayer],
) -> None:
    """Add the weighted sums of all blocks; of the layers in `whole` the records are in already."""
    for layer, blocks in book.layers.items():
        for block in blocks:
            _add_block(total, layer, block, book.records, factors, record_weight, free_weight, layer in whole)
    for name, entries in book.rows.items():
        for rows, shares in entries:
            weights = _row_weights(factors[name], shares, rows.shape[0], record_weight, free_weight)
            total[name] += _weighted(rows, weights)


def _weighted(rows: Tensor, weights: Tensor) -> Tensor:
    """Σ weight·row; a weight of zero removes the row even if it is not finite."""
    flat = rows.flatten(1)
    weights = weights.to(flat.dtype)
    if bool((weights == 0).any()):
        flat = flat.masked_fill((weights == 0)[:, None], 0.0)
    return (weights @ flat).reshape(rows.shape[1:])


def _row_weights(factor: Tensor, shares: int, rows: int, record_weight: float, free_weight: float) -> Tensor:
    """The factor of each row of a block: those of the records, as often as they occur, then the free ones."""
    parts = [factor * record_weight] * shares
    free = rows - shares * factor.shape[0]
    return torch.cat([*parts, factor.new_full((free,), free_weight)]) if free or shares > 1 else parts[0]


def _add_block(
    total: dict[str, Tensor],
    layer: WeightedLayer,
    block: Block,
    records: int,
    factors: dict[str, Tensor],
    record_weight: float,
    free_weight: float,
    only_free: bool,
) -> None:
    """Add the weighted sum of one block's gradients to the layer's weight and bias."""
    if layer.bias_name is not None and block.forward:
        weights = _row_weights(
            factors[layer.bias_name], block.shares, block.d.shape[0], record_weight, free_weight
        )
        rows = block.d.flatten(2).sum(2) if block.d.dim() > 2 else block.d
        total[layer.bias_name] += _weighted(rows, weights)
    if layer.weight_name is None:
        return
    a, d = block.a, block.d
    weights = _row_weights(factors[layer.weight_name], block.shares, d.shape[0], record_weight, free_weight)
    if only_free:
        done = block.shares * records
        a, d, weights = a[done:], d[done:], weights[done:]
    if not d.shape[0]:
        return
    a, d = _scaled(a, d, weights)
    if isinstance(layer, ConvLayer):
        total[layer.weight_name] += layer.weight_gradient(a, d)
    else:
        total[layer.weight_name].addmm_(d.T, a)


def _scaled(a: Tensor, d: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """`a` and weight·d row by row; rows of weight zero vanish from both even if they are not finite."""
    shape = (-1, *[1] * (d.dim() - 1))
    column = weights.to(d.dtype).reshape(shape)
    if bool((weights == 0).any()):
        gone = column == 0
        return a.masked_fill(gone.reshape(-1, *[1] * (a.dim() - 1)), 0.0), (d * column).masked_fill(gone, 0.0)
    return a, d * column
