"""Squared gradient norms of each record, from the two factors of every place.

`pairs` is always a list of (a, d): input-shaped and output-shaped factors of the same records, one pair for
each place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.gradients.sums import longest, rows_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from understudy.dpsgd.gradients.layers import ConvLayer

    Pair = tuple[Tensor, Tensor]

__all__ = [
    "bias_squares",
    "conv_columns",
    "conv_gradients",
    "conv_gram_squares",
    "linear_squares",
    "makes_whole_gradients",
    "row_squares",
]

_SMALL, _LARGE = 1e-12, 1e12
"""Norms between these have squares that float32 can hold, and so have all entries that matter to them."""

_WHOLE_GRADIENT_COST = 12.0
"""What reading and writing one entry of a whole gradient costs, in multiplications of a Gram matrix."""


_MANY_PLACES = 8
"""With more places than this (as records of one person have), all products at once are faster than one by one."""


_BLOCK = 1024
"""So many entries are measured in float32 at once: whatever the order, a norm errs by 1024·2⁻²⁵ = 3e-5 of itself."""


def row_squares(x: Tensor) -> Tensor:
    """The squared norm of each row, in float64.

    A sum of squares has nothing to cancel, so single precision is exact to 1e-4 as long as it is not too long and no
    square overflows or vanishes; long rows are measured in blocks, and rows that are too large or small in float64.
    """
    flat = x.flatten(1)
    norms = _norms(flat)
    if flat.dtype != torch.float64 and norms.shape[0]:
        least, most = torch.aminmax(norms)
        if not (least.item() > _SMALL and most.item() < _LARGE):  # also when one is not a number
            odd = ~((norms > _SMALL) & (norms < _LARGE))  # only these: the others must not depend on them
            norms = norms.double()
            norms[odd] = _norms(flat[odd].double())
    return norms.double().square()


def _norms(rows: Tensor) -> Tensor:
    """The norm of each row; of long ones by blocks, whose norms are joined in float64."""
    blocks, rest = divmod(rows.shape[1], _BLOCK)
    if blocks and rows.dtype != torch.float64:
        whole = rows[:, : blocks * _BLOCK].reshape(len(rows), blocks, _BLOCK)
        parts = [torch.linalg.vector_norm(whole, dim=2)]
        parts += [torch.linalg.vector_norm(rows[:, -rest:], dim=1, keepdim=True)] if rest else []
        rows = torch.cat(parts, dim=1).double()
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms


def linear_squares(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """‖Σ_k d_k·a_kᵀ‖² for each record, from the Gram matrices of both factors, and its gross (Σ_k ‖d_k‖‖a_k‖)².

    The Gram matrices are in float64, except for records whose places provably do not cancel: there the sum
    is at least a fiftieth of the gross one, and single precision is exact to 1e-4 of the norm with room
    to spare.
    """
    if len(pairs) == 1:
        a, d = pairs[0]
        only = row_squares(a) * row_squares(d)
        return only, only
    total, most = _gram_sum(pairs)
    if pairs[0][0].dtype == torch.float64:
        return total, most
    safe = (total >= 0.02 * most) & (most > _SMALL) & (most < _LARGE)
    if not bool(safe.all()):
        rows = (~safe).nonzero().squeeze(1)
        total[rows], most[rows] = _gram_sum([(a[rows].double(), d[rows].double()) for a, d in pairs])
    return total, most


def _gram_sum(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Σ_{k,m} (a_k·a_m)(d_k·d_m), and its largest possible value (Σ_k ‖a_k‖‖d_k‖)²."""
    lengths = torch.stack([_norms(a) * _norms(d) for a, d in pairs]).double()
    if len(pairs) > _MANY_PLACES:
        each = [torch.stack(factors, dim=1) for factors in zip(*pairs, strict=True)]
        grams = [(one @ one.transpose(1, 2)).double() for one in each]
        return grams[0].mul_(grams[1]).sum((1, 2)).clamp_(min=0.0), lengths.sum(0).square_()
    total = lengths.square().sum(0)
    for k, (a, d) in enumerate(pairs):
        for other_a, other_d in pairs[:k]:
            total += 2.0 * _dot(a, other_a) * _dot(d, other_d)
    return total.clamp_(min=0.0), lengths.sum(0).square_()


def _dot(x: Tensor, y: Tensor) -> Tensor:
    product: Tensor = torch.linalg.vecdot(x, y)
    return product.double()


def bias_squares(outputs: Sequence[Tensor]) -> Tensor:
    """‖Σ over places and positions of d‖² for each record."""
    if len(outputs) == 1 and outputs[0].dim() == 2:
        return row_squares(outputs[0])
    total = torch.zeros(outputs[0].shape[:2], dtype=torch.float64, device=outputs[0].device)
    for d in outputs:
        total += d.flatten(2).sum(2, dtype=torch.float64) if d.dim() > 2 else d
    return total.square_().sum(1)


def makes_whole_gradients(layer: ConvLayer, pairs: Sequence[Pair], records: int) -> bool:
    """Whether making each record's gradient is cheaper than its Gram matrices.

    The product that follows the Gram matrices costs twice as much where so many records need float64. Whether they do
    is guessed from a gross norm of √columns, which is what columns in independent directions have.
    """
    columns = sum(d.shape[2] * d.shape[3] for _, d in pairs)
    outputs = layer.weight.shape[0]
    inputs = layer.weight[0].numel()
    single = rows_at_once(records, columns, longest(records * math.sqrt(columns))) > 0
    more = 0 if single else columns
    return columns**2 * (inputs + outputs) > (_WHOLE_GRADIENT_COST - more) * inputs * outputs


def conv_gradients(layer: ConvLayer, pairs: Sequence[Pair]) -> Tensor:
    """Each record's gradient of the weight, in the order of `patches`: (records, out-channels, …)."""
    a, d = pairs[0]
    total = torch.bmm(d.flatten(2), layer.patches(a))
    for a, d in pairs[1:]:
        total.baddbmm_(d.flatten(2), layer.patches(a))
    return total


def conv_columns(layer: ConvLayer, pairs: Sequence[Pair]) -> Pair:
    """Both factors of each record's gradient in float64, (records, columns, …), over places and positions."""
    inputs = torch.cat([layer.patches(a).double() for a, _ in pairs], dim=1)
    outputs = torch.cat([d.flatten(2).transpose(1, 2).double() for _, d in pairs], dim=1)
    return inputs, outputs


def conv_gram_squares(columns: Pair) -> tuple[Tensor, Tensor]:
    """‖D·Aᵀ‖² for each record, from what `conv_columns` gave, and its gross (Σ over columns ‖d‖‖a‖)²."""
    gram_a, gram_d = (x @ x.transpose(1, 2) for x in columns)
    gram = gram_a.mul_(gram_d)
    gross = gram.diagonal(dim1=1, dim2=2).sqrt().sum(1).square_()
    return gram.sum((1, 2)).clamp_(min=0.0), gross
