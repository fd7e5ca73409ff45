"""The fast path: one backward gives all factors, norms come from the factors, the sum is a few products.

The gradient of a layer's weight for one record is a sum over its places (and, for a convolution, over the
output positions) of outer products d·aᵀ. Put the input factors of one record in the columns of A and the
output factors in the columns of D; then the gradient is D·Aᵀ and

    ‖D·Aᵀ‖² = Σ (AᵀA ⊙ DᵀD),     Σ_i f_i·D_i·A_iᵀ = one product over all records with D scaled by f.

The Gram matrices on the left are made in float64: places of one record can nearly cancel. Where the Gram
matrices would be larger than the gradient itself, the gradient of each record is made instead, in chunks that
stay in the cache, and both its norm and its part of the sum are taken from it. `sums` keeps the rounding of the
product on the right within the clipping margin. See docs/engine.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.clipping import SLACK
from understudy.dpsgd.gradients import norms
from understudy.dpsgd.gradients.book import book_of_records
from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.gradients.layers import ConvLayer
from understudy.dpsgd.gradients.sums import RowWeights, Total, longest, row_weights, rows_at_once

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import ConcreteClip, Partition
    from understudy.dpsgd.gradients.book import Book
    from understudy.dpsgd.gradients.walk import Chain
    from understudy.dpsgd.losses import Loss

__all__ = ["clipped_book", "clipped_sum", "over_positions", "squared_norms"]

_CACHE_BYTES = 8_000_000
"""Whole gradients and patches are made for as many records at once as fit in about this much memory."""


@torch.no_grad()
def clipped_sum(
    critic: nn.Module,
    chain: Chain,
    objective: Loss,
    batch: CriticBatch,
    rule: ConcreteClip,
    records: int,
) -> tuple[dict[str, Tensor], float]:
    """The clipped sum over records, and the shifted count of unclipped ones.

    Args:
        critic: the model.
        chain: the same, as known layers.
        objective: the loss.
        batch: the records at hand.
        rule: how they are clipped.
        records: how many (or how many persons) the whole batch has, of which these may be a piece; together they share
            one slack.
    """
    params = trained_parameters(critic)
    book = book_of_records(chain, objective, batch, joint=rule.paired)
    if batch.persons is not None and batch.weights is not None:
        book = book.of_persons(batch.persons, batch.weights)
    gradients, factors = clipped_book(book, params, rule.partition(params), records)
    within = torch.stack(list({id(f): f for f in factors.values()}.values())).amin(0) >= 1.0
    return gradients, float(within.sum()) - 0.5 * within.shape[0]


@torch.no_grad()
def squared_norms(
    critic: nn.Module, chain: Chain, objective: Loss, batch: CriticBatch, *, joint: bool
) -> dict[str, Tensor]:
    """For each parameter, each record's squared gradient norm in float64."""
    book = book_of_records(chain, objective, batch, joint=joint)
    squares, _ = _plain_squares(book, trained_parameters(critic))
    for layer in _convolutions(book):
        if layer.weight_name is not None:
            for start, stop in _chunks(book, [layer]):
                gradients = norms.conv_gradients(layer, book.pairs(layer, start, stop))
                squares[layer.weight_name][start:stop] = norms.row_squares(gradients)
    return squares


def over_positions(d: Tensor) -> Tensor:
    """What a bias feels of each row: the sum over output positions, if there are any."""
    return d.flatten(2).sum(2, dtype=torch.float64) if d.dim() > 2 else d


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


def _plain_squares(book: Book, params: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The squared norms of all parameters, zero for the convolutions' weights, and the linear layers' gross ones."""
    squares: dict[str, Tensor] = {}
    gross: dict[str, Tensor] = {}
    for layer, places in book.layers.items():
        if layer.weight_name is not None and not isinstance(layer, ConvLayer):
            found = norms.linear_squares([(place.a, place.d) for place in places])
            for known, new in zip((squares, gross), found, strict=True):
                before = known.get(layer.weight_name)
                known[layer.weight_name] = new if before is None else before + new
        outputs = [place.d for place in places if place.forward]
        if layer.bias_name is not None and outputs:
            squares[layer.bias_name] = norms.bias_squares(outputs)
    for name, rows in book.rows.items():
        squares[name] = norms.row_squares(torch.stack(rows).sum(0) if len(rows) > 1 else rows[0])
    for name, p in params.items():
        if name not in squares:
            squares[name] = torch.zeros(book.records, dtype=torch.float64, device=p.device)
    return squares, gross


def clipped_book(
    book: Book, params: dict[str, Tensor], partition: Partition, records: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The sum of the clipped gradients, in float64, and the factors by which they were clipped.

    Args:
        book: the records, or fakes, at hand.
        params: the critic's parameters.
        partition: the groups and their bounds.
        records: how many records the whole batch has; none if these are fakes, whose rounding moves no sensitivity.
    """
    total = Total()
    squares, gross = _plain_squares(book, params)
    whole = [
        layer
        for layer in _convolutions(book)
        if layer.weight_name is not None
        and norms.makes_whole_gradients(layer, book.pairs(layer, 0, 1), records)
    ]
    least = 0
    if _convolutions(book):
        length = longest(records)
        chunks = _chunks(book, whole)
        factors = _add_whole(total, book, squares, gross, partition, whole, chunks, length)
        least = min(chunks[0][1] + len(chunks), length) if whole else 0
    else:
        factors = partition.factors(squares)
    if book.records:
        lengths = _lengths(gross, factors, partition, records / book.records, least)
        _add_plain(total, book, factors, lengths, whole)
    gradients = total.gradients(params)
    for layer in whole:
        assert layer.weight_name is not None
        gradients[layer.weight_name] = layer.as_weight(gradients[layer.weight_name]).contiguous()
    return gradients, factors


def _lengths(
    gross: dict[str, Tensor], factors: dict[str, Tensor], partition: Partition, times: float, least: int
) -> dict[str, int]:
    """For each parameter in `gross`, how often a term of its sum may be rounded in float32.

    Args:
        gross: the squared gross norms.
        factors: the clipping factors.
        partition: the groups and their bounds.
        times: how many times as many records the whole batch has.
        least: how often whole gradients of convolutions were, 0 if there are none. The slack is theirs too: their norms
            (each at most the bound) count, and fewer roundings than theirs leave nothing for others.
    """
    lengths: dict[str, int] = {}
    for group, bound in zip(partition.groups, partition.bounds, strict=True):
        names = [name for name in group if name in gross]
        if names:
            factor = factors[names[0]]
            sizes = sum((gross[name] for name in names[1:]), gross[names[0]]).sqrt() * factor
            size = float(sizes.sum())
            if not math.isfinite(size):  # of records that are left out
                size = float(sizes.where(factor > 0, 0.0).sum())
            units = (1.0 + SLACK) / bound * size + (len(factor) if least else 0)
            length = longest(units * times)
            lengths.update(dict.fromkeys(names, length if length >= least else 0))
    return lengths


def _add_plain(
    total: Total, book: Book, factors: dict[str, Tensor], lengths: dict[str, int], whole: list[ConvLayer]
) -> None:
    """Add the records' gradients of everything but the convolutions in `whole`."""
    weights = row_weights(factors)
    for layer, places in book.layers.items():
        if layer.bias_name is not None:
            for place in places:
                if place.forward:
                    total.add(layer.bias_name, weights[layer.bias_name].sum(over_positions(place.d)))
        if layer.weight_name is None:
            continue
        rows = weights[layer.weight_name]
        if isinstance(layer, ConvLayer):
            if layer not in whole:
                _add_convolution(total, book, layer, rows, lengths[layer.weight_name])
        else:
            pairs = [(rows.clean(place.a), rows.scale(place.d)) for place in places]
            total.add_products(layer, pairs, lengths[layer.weight_name])
    for name, entries in book.rows.items():
        for entry in entries:
            total.add(name, weights[name].sum(entry))


def _add_whole(
    total: Total,
    book: Book,
    squares: dict[str, Tensor],
    gross: dict[str, Tensor],
    partition: Partition,
    whole: list[ConvLayer],
    chunks: list[tuple[int, int]],
    length: int,
) -> dict[str, Tensor]:
    """The factors of all records, found chunk by chunk; adds the records' gradients of the layers in `whole`.

    A whole gradient is what its norm was taken of, so nothing of it cancels any more, and it may be rounded `length`
    times in float32. Of the other convolutions the squared gross norms are added to `gross`.
    """
    parts: list[dict[str, Tensor]] = []
    grosses: dict[str, list[Tensor]] = {}
    for start, stop in chunks:
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
                found = norms.conv_gram_squares(norms.conv_columns(layer, pairs))
                part[layer.weight_name] = found[0]
                grosses.setdefault(layer.weight_name, []).append(found[1])
        parts.append(partition.factors(part))
        weights = row_weights(parts[-1])
        for name, rows in gradients.items():
            total.add_rows(name, weights[name], rows, length)
    gross.update({name: torch.cat(found) for name, found in grosses.items()})
    joined = {id(f): torch.cat([part[name] for part in parts]) for name, f in parts[0].items()}
    return {name: joined[id(factor)] for name, factor in parts[0].items()}


def _add_convolution(total: Total, book: Book, layer: ConvLayer, weights: RowWeights, length: int) -> None:
    """Add the records' gradients of a convolution's weight; every output position of a record is a term.

    Only the CPU's library is trusted to add up plain products: others may transform, or use fewer digits.
    """
    assert layer.weight_name is not None
    for place in book.layers[layer]:
        a, d = weights.clean(place.a), weights.scale(place.d)
        plain = d.dtype == torch.float32 and d.device.type == "cpu"
        size = rows_at_once(book.records, d[0, 0].numel(), length) if plain else 0
        if not size:
            a, d, size = a.double(), d.double(), book.records
        found: Tensor | None = None
        for start in range(0, book.records, size):
            more = layer.weight_gradient(a[start : start + size], d[start : start + size])
            found = more if found is None else found.add_(more)
        if found is not None:
            total.add(layer.weight_name, found)
