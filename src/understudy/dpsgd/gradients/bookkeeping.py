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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.clipping import SeparateClip
from understudy.dpsgd.gradients import norms
from understudy.dpsgd.gradients.book import book_of_fakes, book_of_records, walk_fakes
from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.gradients.layers import ConvLayer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import ConcreteClip, Partition
    from understudy.dpsgd.gradients.book import Book
    from understudy.dpsgd.gradients.layers import Place
    from understudy.dpsgd.gradients.walk import Chain
    from understudy.dpsgd.objectives import Objective

__all__ = ["clipped_sum", "squared_norms"]

_CACHE_BYTES = 8_000_000
"""Whole gradients and patches are made for as many records at once as fit in about this much memory."""


@torch.no_grad()
def clipped_sum(
    critic: nn.Module, chain: Chain, objective: Objective, batch: CriticBatch, rule: ConcreteClip
) -> tuple[dict[str, Tensor], float]:
    """The clipped sum over records plus the fakes' part, and the shifted count of unclipped records."""
    params = trained_parameters(critic)
    total = _Total()
    joint, partners = rule.paired, None
    if isinstance(rule, SeparateClip):
        if batch.fake_weight:
            fakes = book_of_fakes(chain, objective, batch)
            _add_clipped(total, fakes, params, rule.fake_partition(params), batch.fake_weight)
    elif not joint and batch.fake_weight and batch.fake.shape[0]:
        partners = _add_free(total, chain, objective, batch)
    book = book_of_records(chain, objective, batch, joint=joint, partners=partners)
    factors = _add_clipped(total, book, params, rule.partition(params), 1.0)
    within = torch.stack(list({id(f): f for f in factors.values()}.values())).amin(0) >= 1.0
    return total.gradients(params), float(within.sum()) - 0.5 * within.shape[0]


@torch.no_grad()
def squared_norms(
    critic: nn.Module, chain: Chain, objective: Objective, batch: CriticBatch, *, joint: bool
) -> dict[str, Tensor]:
    """For each parameter, each record's squared gradient norm in float64."""
    book = book_of_records(chain, objective, batch, joint=joint)
    squares = _plain_squares(book, trained_parameters(critic))
    for layer in _convolutions(book):
        if layer.weight_name is not None:
            for start, stop in _chunks(book, [layer]):
                gradients = norms.conv_gradients(layer, book.pairs(layer, start, stop))
                squares[layer.weight_name][start:stop] = norms.row_squares(gradients)
    return squares


@dataclass
class _Total:
    """Sums of gradients; a weight that is split by columns has one sum for each part."""

    sums: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def add(self, name: str, gradient: Tensor) -> None:
        """Add to the sum of a whole parameter."""
        if (name, 0) in self.sums:
            self.sums[name, 0] += gradient
        else:
            self.sums[name, 0] = gradient.contiguous()

    def add_place(self, place: Place, a: Tensor, d: Tensor, weight: float = 1.0) -> None:
        """Add weight · Σ over rows of the place's gradient of its layer's weight, from given factors."""
        layer = place.layer
        if layer.weight_name is None:
            return
        if isinstance(layer, ConvLayer):
            self.add(layer.weight_name, weight * layer.weight_gradient(a, d))
            return
        key = (layer.weight_name, layer.offset)
        if key in self.sums:
            self.sums[key].addmm_(d.T, a, alpha=weight)
        else:
            start = torch.empty_like(layer.weight, memory_format=torch.contiguous_format)
            self.sums[key] = start.addmm_(d.T, a, beta=0.0, alpha=weight)

    def gradients(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums by name, with the parts of a split weight side by side, and zero where nothing was added."""
        result: dict[str, Tensor] = {}
        for name, offset in sorted(self.sums):
            part = self.sums[name, offset]
            result[name] = torch.cat([result[name], part], dim=1) if offset else part
        return {name: result[name] if name in result else torch.zeros_like(p) for name, p in params.items()}


def _add_free(total: _Total, chain: Chain, objective: Objective, batch: CriticBatch) -> Tensor | None:
    """Add the fakes' gradients, which are not clipped; returns what `walk_fakes` gives of the partners."""
    tape, partners = walk_fakes(chain, objective, batch)
    for place in tape.places:
        if place.layer.bias_name is not None and place.forward:
            total.add(place.layer.bias_name, batch.fake_weight * _over_positions(place.d).sum(0))
        total.add_place(place, place.a, place.d, batch.fake_weight)
    for name, rows in tape.rows:
        total.add(name, batch.fake_weight * rows.sum(0))
    return partners


def _over_positions(d: Tensor) -> Tensor:
    """What a bias feels of each row: the sum over output positions, if there are any."""
    return d.flatten(2).sum(2) if d.dim() > 2 else d


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


def _plain_squares(book: Book, params: dict[str, Tensor]) -> dict[str, Tensor]:
    """The squared norms of all parameters; those of the convolutions' weights are still zero."""
    squares: dict[str, Tensor] = {}
    for layer, places in book.layers.items():
        if layer.weight_name is not None and not isinstance(layer, ConvLayer):
            found = norms.linear_squares([(place.a, place.d) for place in places])
            before = squares.get(layer.weight_name)
            squares[layer.weight_name] = found if before is None else before + found
        outputs = [place.d for place in places if place.forward]
        if layer.bias_name is not None and outputs:
            squares[layer.bias_name] = norms.bias_squares(outputs)
    for name, rows in book.rows.items():
        squares[name] = norms.row_squares(torch.stack(rows).sum(0) if len(rows) > 1 else rows[0])
    for name, p in params.items():
        if name not in squares:
            squares[name] = torch.zeros(book.records, dtype=torch.float64, device=p.device)
    return squares


def _add_clipped(
    total: _Total, book: Book, params: dict[str, Tensor], partition: Partition, weight: float
) -> dict[str, Tensor]:
    """Add weight · the records' clipped gradients; returns the factors by which they were clipped."""
    squares = _plain_squares(book, params)
    whole = [
        layer
        for layer in _convolutions(book)
        if layer.weight_name is not None and norms.makes_whole_gradients(layer, book.pairs(layer, 0, 1))
    ]
    if _convolutions(book):
        factors = _add_convolutions(total, book, squares, partition, weight, whole)
    else:
        factors = partition.factors(squares)
    if not book.records:
        return factors
    weights = _row_weights(factors, weight)
    for layer, places in book.layers.items():
        for place in places:
            if layer.bias_name is not None and place.forward:
                total.add(layer.bias_name, weights[layer.bias_name].sum(_over_positions(place.d)))
            if layer.weight_name is not None and layer not in whole:
                rows = weights[layer.weight_name]
                total.add_place(place, rows.clean(place.a), rows.scale(place.d))
    for name, entries in book.rows.items():
        for entry in entries:
            total.add(name, weights[name].sum(entry))
    return factors


def _add_convolutions(
    total: _Total,
    book: Book,
    squares: dict[str, Tensor],
    partition: Partition,
    weight: float,
    whole: list[ConvLayer],
) -> dict[str, Tensor]:
    """The factors of all records, found chunk by chunk; adds the records' gradients of the layers in `whole`."""
    parts: list[dict[str, Tensor]] = []
    for start, stop in _chunks(book, whole):
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
        parts.append(partition.factors(part))
        weights = _row_weights(parts[-1], weight)
        for layer in whole:
            assert layer.weight_name is not None
            name = layer.weight_name
            total.add(name, layer.as_weight(weights[name].sum(gradients[name])))
    joined = {id(f): torch.cat([part[name] for part in parts]) for name, f in parts[0].items()}
    return {name: joined[id(factor)] for name, factor in parts[0].items()}


@dataclass(frozen=True)
class _RowWeights:
    """One weight for each record; a weight of zero removes the record even if it is not finite.

    Args:
        column: the weights.
        gone: which of them are zero, or None when none is.
    """

    column: Tensor
    gone: Tensor | None

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


def _row_weights(factors: dict[str, Tensor], weight: float) -> dict[str, _RowWeights]:
    """Weight · factor for each parameter, made once for parameters that share a factor."""
    known: dict[int, _RowWeights] = {}
    for factor in factors.values():
        if id(factor) not in known:
            column = factor if weight == 1.0 else factor * weight
            gone = column == 0
            known[id(factor)] = _RowWeights(column, gone if bool(gone.any()) else None)
    return {name: known[id(factor)] for name, factor in factors.items()}
