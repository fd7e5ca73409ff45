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
from understudy.engine.gradients.book import book_of_fakes, book_of_records
from understudy.engine.gradients.guard import trained_parameters
from understudy.engine.gradients.layers import ConvLayer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.engine.batch import CriticBatch
    from understudy.engine.clipping import ConcreteClip, Partition
    from understudy.engine.gradients.book import Block, Book
    from understudy.engine.gradients.layers import WeightedLayer
    from understudy.engine.gradients.walk import Chain
    from understudy.engine.objectives import Objective

    Sums = dict[str, Tensor]

__all__ = ["clipped_sum", "squared_norms"]

_CACHE_BYTES = 8_000_000
"""Whole gradients and patches are made for as many records at once as fit in about this much memory."""


@torch.no_grad()
def clipped_sum(
    critic: nn.Module, chain: Chain, objective: Objective, batch: CriticBatch, rule: ConcreteClip
) -> tuple[Sums, float]:
    """The clipped sum over records plus the fakes' part, and the shifted count of unclipped records."""
    params = trained_parameters(critic)
    total: Sums = {}
    apart = isinstance(rule, SeparateClip)
    joint = isinstance(rule, JointClip)
    with_fakes = not apart and batch.fake_weight != 0
    book = book_of_records(chain, objective, batch, joint=joint, with_fakes=with_fakes)
    factors = _add_clipped(total, params, book, rule.partition(params), 1.0, batch.fake_weight)
    if isinstance(rule, SeparateClip):
        fakes = book_of_fakes(chain, objective, batch)
        _add_clipped(total, params, fakes, rule.fake_partition(params), batch.fake_weight, 0.0)
    within = torch.stack(_distinct(factors)).amin(0) >= 1.0
    gradients = {name: total[name] if name in total else torch.zeros_like(p) for name, p in params.items()}
    return gradients, float(within.sum()) - 0.5 * within.shape[0]


@torch.no_grad()
def squared_norms(
    critic: nn.Module, chain: Chain, objective: Objective, batch: CriticBatch, *, joint: bool
) -> dict[str, Tensor]:
    """For each parameter, each record's squared gradient norm in float64."""
    book = book_of_records(chain, objective, batch, joint=joint, with_fakes=False)
    squares = _plain_squares(trained_parameters(critic), book)
    for layer in _convolutions(book):
        if layer.weight_name is not None:
            for start, stop in _chunks(book, [layer]):
                gradients = norms.conv_gradients(layer, book.pairs(layer, start, stop))
                squares[layer.weight_name][start:stop] = norms.row_squares(gradients)
    return squares


def _convolutions(book: Book) -> list[ConvLayer]:
    return [layer for layer in book.layers if isinstance(layer, ConvLayer)]


def _chunks(book: Book, whole: list[ConvLayer]) -> list[tuple[int, int]]:
    """Ranges of records whose whole gradients (of the layers in `whole`) and patches fit in the cache."""
    if not book.records:
        return []
    patches = max(
        d.shape[2] * d.shape[3] * layer.weight[0].numel() * (4 if layer in whole else 8)
        for layer in _convolutions(book)
        for _, d in book.pairs(layer, 0, 1)
    )
    each = patches + 4 * sum(layer.weight.numel() for layer in whole)
    size = max(1, min(book.records, _CACHE_BYTES // each))
    return [(start, min(start + size, book.records)) for start in range(0, book.records, size)]


def _plain_squares(params: Sums, book: Book) -> dict[str, Tensor]:
    """The squared norms of all parameters; those of the convolutions' weights are still zero."""
    squares: dict[str, Tensor] = {}
    for layer, blocks in book.layers.items():
        if layer.weight_name is not None and not isinstance(layer, ConvLayer):
            squares[layer.weight_name] = norms.linear_squares(book.pairs(layer, 0, book.records))
        outputs = [
            part
            for block in blocks
            if block.forward
            for part in _record_rows(block.d, block.shares, book.records)
        ]
        if layer.bias_name is not None and outputs:
            squares[layer.bias_name] = norms.bias_squares(outputs)
    for name, entries in book.rows.items():
        rows = [part for entry, shares in entries for part in _record_rows(entry, shares, book.records)]
        squares[name] = norms.row_squares(torch.stack(rows).sum(0) if len(rows) > 1 else rows[0])
    for name, p in params.items():
        if name not in squares:
            squares[name] = torch.zeros(book.records, dtype=torch.float64, device=p.device)
    return squares


def _record_rows(rows: Tensor, shares: int, records: int) -> list[Tensor]:
    return [rows[share * records : (share + 1) * records] for share in range(shares)]


def _distinct(factors: dict[str, Tensor]) -> list[Tensor]:
    """Each tensor once, however many parameters share it."""
    return list({id(factor): factor for factor in factors.values()}.values())


def _add_clipped(
    total: Sums, params: Sums, book: Book, partition: Partition, record_weight: float, free_weight: float
) -> dict[str, Tensor]:
    """Add the records' clipped gradients and the free rows' gradients to `total`; returns the factors."""
    squares = _plain_squares(params, book)
    whole = [
        layer
        for layer in _convolutions(book)
        if layer.weight_name is not None
        and book.records
        and norms.makes_whole_gradients(layer, book.pairs(layer, 0, 1))
    ]
    if _convolutions(book):
        factors = _add_convolutions(total, squares, book, partition, record_weight, whole)
    else:
        factors = partition.factors(squares)
    weighing = _Weighing(factors, record_weight, free_weight)
    for layer, blocks in book.layers.items():
        for block in blocks:
            _add_block(total, layer, block, weighing, book.records if layer in whole else 0)
    for name, entries in book.rows.items():
        for rows, shares in entries:
            _add(total, name, weighing.of(name, shares, rows.shape[0]).sum(rows))
    return factors


def _add_convolutions(
    total: Sums,
    squares: dict[str, Tensor],
    book: Book,
    partition: Partition,
    record_weight: float,
    whole: list[ConvLayer],
) -> dict[str, Tensor]:
    """The factors of all records, found chunk by chunk; adds the records' gradients of the layers in `whole`."""
    parts: list[dict[str, Tensor]] = []
    for start, stop in _chunks(book, whole):
        part = {name: square[start:stop] for name, square in squares.items()}
        gradients: Sums = {}
        for layer in _convolutions(book):
            if layer.weight_name is None:
                continue
            pairs = book.pairs(layer, start, stop)
            if layer in whole:
                gradients[layer.weight_name] = norms.conv_gradients(layer, pairs)
                part[layer.weight_name] = norms.row_squares(gradients[layer.weight_name])
            else:
                part[layer.weight_name] = norms.conv_gram_squares(layer, pairs)
        parts.append(partition.factors(part))
        weighing = _Weighing(parts[-1], record_weight, 0.0)
        for layer in whole:
            assert layer.weight_name is not None
            name = layer.weight_name
            _add(total, name, layer.as_weight(weighing.of(name, 1, stop - start).sum(gradients[name])))
    if not parts:
        return partition.factors(squares)
    if len(parts) == 1:
        return parts[0]
    joined = {id(factor): torch.cat([part[name] for part in parts]) for name, factor in parts[0].items()}
    return {name: joined[id(factor)] for name, factor in parts[0].items()}


@dataclass(frozen=True)
class _RowWeights:
    """One weight for each row; a weight of zero removes the row even if it is not finite.

    Args:
        column: the weights.
        gone: which of them are zero, or None when none is.
    """

    column: Tensor
    gone: Tensor | None

    def after(self, rows: int) -> _RowWeights:
        """Those of the rows behind the first `rows`."""
        return _RowWeights(self.column[rows:], None if self.gone is None else self.gone[rows:])

    def clean(self, x: Tensor) -> Tensor:
        """The rows, with zeros in place of those of weight zero."""
        return x if self.gone is None else x.masked_fill(_as_column(self.gone, x), 0.0)

    def scale(self, x: Tensor) -> Tensor:
        """Weight · row."""
        return self.clean(x) * _as_column(self.column, x).to(x.dtype)

    def sum(self, x: Tensor) -> Tensor:
        """Σ weight · row."""
        flat = self.clean(x).flatten(1)
        return (self.column.to(x.dtype) @ flat).reshape(x.shape[1:])


def _as_column(rows: Tensor, like: Tensor) -> Tensor:
    return rows.reshape(-1, *[1] * (like.dim() - 1))


class _Weighing:
    """The weight of every row of a block, for each parameter; made once for parameters that share a factor."""

    def __init__(self, factors: dict[str, Tensor], record_weight: float, free_weight: float) -> None:
        self._factors = factors
        self._record_weight, self._free_weight = record_weight, free_weight
        self._known: dict[tuple[int, int, int], _RowWeights] = {}

    def of(self, name: str, shares: int, rows: int) -> _RowWeights:
        """The records' factors, as often as the records occur in the block, then the weight of free rows."""
        factor = self._factors[name]
        key = (id(factor), shares, rows)
        if key not in self._known:
            parts = [factor * self._record_weight] * shares
            free = factor.new_full((rows - shares * factor.shape[0],), self._free_weight)
            column = torch.cat([*parts, free])
            gone = column == 0
            self._known[key] = _RowWeights(column, gone if bool(gone.any()) else None)
        return self._known[key]


def _add(total: Sums, name: str, gradient: Tensor) -> None:
    if name in total:
        total[name] += gradient
    else:
        total[name] = gradient.contiguous()


def _add_block(total: Sums, layer: WeightedLayer, block: Block, weighing: _Weighing, done: int) -> None:
    """Add the weighted sum of one block's gradients to the layer's weight and bias.

    Args:
        total: what is added to.
        layer: whose block it is.
        block: the factors.
        weighing: the weights of the rows.
        done: how many records are in the weight's sum already.
    """
    a, d, shares = block.a, block.d, block.shares
    if layer.bias_name is not None and block.forward:
        sums = d.flatten(2).sum(2) if d.dim() > 2 else d
        _add(total, layer.bias_name, weighing.of(layer.bias_name, shares, d.shape[0]).sum(sums))
    if layer.weight_name is None:
        return
    weights = weighing.of(layer.weight_name, shares, d.shape[0])
    if done:
        a, d, weights = a[shares * done :], d[shares * done :], weights.after(shares * done)
    if not d.shape[0]:
        return
    a, d = weights.clean(a), weights.scale(d)
    if isinstance(layer, ConvLayer):
        _add(total, layer.weight_name, layer.weight_gradient(a, d))
    elif layer.weight_name in total:
        total[layer.weight_name].addmm_(d.T, a)
    else:
        total[layer.weight_name] = d.T @ a
