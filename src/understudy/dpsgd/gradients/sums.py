"""The records' clipped gradients added up: float32 products of some records each, and their sum in float64.

The noise hides one record's share C of the sum, so the sum as it is computed must not move by more than C, its
rounding included. One record more can make a matrix product round differently in every entry.

Let every term of a float32 sum pass through at most K roundings; then the sum errs by at most K·u·Σ|terms| in each
entry, u = 2⁻²⁴. A product of k terms has K = k, in whatever order a library adds, and m such products added up one by
one have K = k + m, which is far less than k·m. Let a record's *gross* norm be the sum over its places of ‖a‖·‖d‖; it is
the norm of its gradient unless places cancel. Then the whole errs, in norm, by at most K·u·Σ f·gross over the
records, f being the factors of the clipping. `longest` gives the K for which this is half of SUM_SLACK, in units of
the bound C' to which gradients are clipped. So every computed sum lies within C'·SUM_SLACK/2 of an exact one, exact
ones of neighbouring batches are C'·(1 + NORM_SLACK) apart, and computed ones C'·(1 + NORM_SLACK + SUM_SLACK) = C.

K may follow from the batch at hand: the error is bounded for each batch by itself, so no largest batch need be known.
Where no products are as short as that (large batches, places that cancel), they are made in float64. Fakes have no part
in any of this: their gradients know no bound, and their rounding would drown a small C.

What a record's own factors a and d are is taken as given; beside one record more they can differ in their last digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.clipping import SUM_SLACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from understudy.dpsgd.gradients.layers import WeightedLayer

__all__ = ["RowWeights", "Total", "joined", "longest", "outer_products", "row_weights", "rows_at_once"]

_UNIT = 2.0**-24
_SAFETY = 1.01
"""Covers 1 / (1 − K·u), as K is at most 2¹⁷, and what NORM_SLACK leaves open in the gross norms."""

_LEAST_TERMS = 16
"""Shorter products than this cost more in float32, with the additions between them, than one in float64."""


def longest(gross: float) -> int:
    """K: how often a term may be rounded in float32, when Σ f·gross over the batch is `gross` times the bound."""
    if torch.get_float32_matmul_precision() != "highest":
        return 0  # products may be made in fewer digits than float32 has
    roundings = SUM_SLACK / (2.0 * _SAFETY * _UNIT * max(gross, 1e-9))
    return max(0, min(int(roundings) - 3, 2**17))  # three more: the factor, its product with d, that with a


def rows_at_once(rows: int, each: int, length: int) -> int:
    """How many rows of `each` terms a float32 product may have, so that no term is rounded more than `length` times.

    With s rows in a product there are ⌈rows / s⌉ to be added up, and s·each + ⌈rows / s⌉ must not pass `length`. Zero
    where no s does, or none that is worth while.
    """
    if rows * each < length:
        return rows
    inside = length**2 - 4 * each * rows
    size = int((length + math.sqrt(inside)) / (2 * each)) - 1 if inside >= 0 else 0
    return size if size * each >= _LEAST_TERMS and size * each - (-rows // size) <= length else 0


@dataclass(frozen=True)
class RowWeights:
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

    def sum(self, x: Tensor, length: int = 0) -> Tensor:
        """Σ weight · row; in float64 if there are more rows than `length`."""
        flat = self.clean(x).flatten(1)
        flat = flat if flat.dtype == torch.float32 and len(flat) <= length else flat.double()
        return (self.column.to(flat.dtype) @ flat).reshape(x.shape[1:])


def _as_column(rows: Tensor, like: Tensor) -> Tensor:
    return rows.reshape(-1, *[1] * (like.dim() - 1))


def row_weights(factors: dict[str, Tensor]) -> dict[str, RowWeights]:
    """The factors of each parameter as weights, made once for parameters that share a factor."""
    known: dict[int, RowWeights] = {}
    for factor in factors.values():
        if id(factor) not in known:
            gone = factor == 0
            known[id(factor)] = RowWeights(factor, gone if bool(gone.any()) else None)
    return {name: known[id(factor)] for name, factor in factors.items()}


@dataclass
class Total:
    """Sums of gradients, in float64 as soon as two meet; a weight split by columns has one sum for each part."""

    sums: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    _single: dict[str, tuple[Tensor, int]] = field(default_factory=dict)

    def add(self, name: str, gradient: Tensor, offset: int = 0) -> None:
        """Add to the sum of a parameter, or of the part of it that begins at column `offset`."""
        if (name, offset) in self.sums:
            self.sums[name, offset] = self.sums[name, offset].double().add_(gradient)
        else:
            self.sums[name, offset] = gradient

    def add_rows(self, name: str, weights: RowWeights, rows: Tensor, length: int) -> None:
        """Add Σ weight · row, in float32 as long as no term is rounded more than `length` times."""
        found, before = weights.sum(rows, length), self._single.pop(name, None)
        if found.dtype != torch.float32:
            self.add(name, found)
        elif before is None:
            self._single[name] = found, 1
        elif len(rows) + before[1] < length:
            self._single[name] = before[0].add_(found), before[1] + 1
        else:
            self.add(name, before[0])
            self._single[name] = found, 1

    def add_products(self, layer: WeightedLayer, pairs: Sequence[tuple[Tensor, Tensor]], length: int) -> None:
        """Add Σ over rows and places of d·aᵀ, from (a, d); no term is rounded more than `length` times in float32."""
        assert layer.weight_name is not None
        rows = len(pairs[0][0])
        size = rows_at_once(rows, len(pairs), length) if pairs[0][0].dtype == torch.float32 else 0
        if not size:
            pairs, size = [(a.double(), d.double()) for a, d in pairs], rows
        if rows:
            self.add(layer.weight_name, outer_products(pairs, size), layer.offset)

    def gradients(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums by name, in float64."""
        for name, (single, _) in self._single.items():
            self.add(name, single)
        self._single.clear()
        return {name: total.double().contiguous() for name, total in joined(self.sums, params).items()}


def outer_products(pairs: Sequence[tuple[Tensor, Tensor]], size: int) -> Tensor:
    """Σ over rows and places of d·aᵀ, from (a, d), `size` rows at a time."""
    if pairs[0][0].shape[1] < pairs[0][1].shape[1]:  # the library is faster the other way round
        return outer_products([(d, a) for a, d in pairs], size).T
    total, room = None, None
    for start in range(0, len(pairs[0][0]), size):
        (a, d), *others = [(a[start : start + size], d[start : start + size]) for a, d in pairs]
        product = d.T @ a if room is None else torch.mm(d.T, a, out=room)
        for a, d in others:
            product.addmm_(d.T, a)
        if total is None:
            total = product
        else:
            total += product
            room = product
    assert total is not None
    return total


def joined(parts: dict[tuple[str, int], Tensor], params: dict[str, Tensor]) -> dict[str, Tensor]:
    """Sums by name, from parts by name and first column, side by side; zero where there is none."""
    result: dict[str, Tensor] = {}
    for name, offset in sorted(parts):
        part = parts[name, offset]
        result[name] = torch.cat([result[name], part], dim=1) if offset else part
    return {name: result[name] if name in result else torch.zeros_like(p) for name, p in params.items()}
