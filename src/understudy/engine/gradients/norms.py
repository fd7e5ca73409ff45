"""Squared gradient norms of each record, from the two factors of every place.

`pairs` is always a list of (a, d): input-shaped and output-shaped factors of the same records, one pair for
each place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from understudy.engine.gradients.layers import ConvLayer

    Pair = tuple[Tensor, Tensor]

__all__ = [
    "bias_squares",
    "conv_gradients",
    "conv_gram_squares",
    "linear_squares",
    "makes_whole_gradients",
    "row_squares",
]

_WHOLE_GRADIENT_COST = 12.0
"""What reading and writing one entry of a whole gradient costs, in multiplications of a Gram matrix."""


def row_squares(x: Tensor) -> Tensor:
    """The squared norm of each row, in float64."""
    norms: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1, dtype=torch.float64)
    return norms.square()


def linear_squares(pairs: Sequence[Pair]) -> Tensor:
    """‖Σ_k d_k·a_kᵀ‖² for each record, from the Gram matrices of both factors in float64."""
    if len(pairs) == 1:
        a, d = pairs[0]
        return row_squares(a) * row_squares(d)
    total: Tensor | float = 0.0
    wide = [(a.double(), d.double()) for a, d in pairs]
    for k, (a, d) in enumerate(wide):
        for m in range(k + 1):
            other_a, other_d = wide[m]
            product = torch.linalg.vecdot(a, other_a) * torch.linalg.vecdot(d, other_d)
            total = total + (product if m == k else 2.0 * product)
    assert isinstance(total, torch.Tensor)
    return total.clamp(min=0.0)


def bias_squares(outputs: Sequence[Tensor]) -> Tensor:
    """‖Σ over places and positions of d‖² for each record."""
    total = outputs[0].flatten(2).sum(2, dtype=torch.float64) if outputs[0].dim() > 2 else outputs[0].double()
    for d in outputs[1:]:
        total = total + (d.flatten(2).sum(2, dtype=torch.float64) if d.dim() > 2 else d)
    return total.square().sum(1)


def makes_whole_gradients(layer: ConvLayer, pairs: Sequence[Pair]) -> bool:
    """Whether making each record's gradient is cheaper than its Gram matrices."""
    columns = sum(d.shape[2] * d.shape[3] for _, d in pairs)
    outputs = layer.weight.shape[0]
    inputs = layer.weight[0].numel()
    return columns**2 * (inputs + outputs) > _WHOLE_GRADIENT_COST * inputs * outputs


def conv_gradients(layer: ConvLayer, pairs: Sequence[Pair]) -> Tensor:
    """Each record's gradient of the weight: (records, out-channels, in-channels · kernel)."""
    a, d = pairs[0]
    total = torch.bmm(d.flatten(2), layer.patches(a).transpose(1, 2))
    for a, d in pairs[1:]:
        total.baddbmm_(d.flatten(2), layer.patches(a).transpose(1, 2))
    return total


def conv_gram_squares(layer: ConvLayer, pairs: Sequence[Pair]) -> Tensor:
    """‖D·Aᵀ‖² for each record, where the columns run over places and positions."""
    columns_a = torch.cat([layer.patches(a) for a, _ in pairs], dim=2).double()
    columns_d = torch.cat([d.flatten(2) for _, d in pairs], dim=2).double()
    gram_a = columns_a.transpose(1, 2) @ columns_a
    gram_d = columns_d.transpose(1, 2) @ columns_d
    return (gram_a * gram_d).sum((1, 2)).clamp(min=0.0)
