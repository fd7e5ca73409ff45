"""The records' clipped gradients added up: float32 products of a few records each, float64 between them.

The noise hides one record's share C of the sum, so the sum as it is computed must not move by more than C, its
rounding included. One record more can make a matrix product round differently in every entry.

A float32 product of K terms errs by at most K·u·Σ|terms| in each entry, u = 2⁻²⁴, in whatever order a library adds.
Let a record's *gross* norm be the sum over its places of ‖a‖·‖d‖; it is the norm of its gradient unless places cancel.
Then a sum of pieces with at most K terms each errs, in norm, by at most K·u·Σ f·gross over the records, f being the
factors of the clipping. `longest` gives the K for which this is half of SUM_SLACK, in units of the bound C' to which
gradients are clipped. So every computed sum lies within C'·SUM_SLACK/2 of an exact one, exact ones of neighbouring
batches are C'·(1 + NORM_SLACK) apart, and computed ones C'·(1 + NORM_SLACK + SUM_SLACK) = C.

K may follow from the batch at hand: the error is bounded for each batch by itself, so no largest batch need be known.
Where it comes out too small to be worth while (large batches, places that cancel), the product is made in float64.
Fakes have no part in any of this: their gradients know no bound, and their rounding would drown a small C.

What a record's own factors a and d are is taken as given; beside one record more they can differ in their last digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.clipping import SUM_SLACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from understudy.dpsgd.gradients.layers import WeightedLayer

__all__ = ["RowWeights", "Total", "longest", "row_weights"]

_UNIT = 2.0**-24
_SAFETY = 1.01
"""Covers 1 / (1 − K·u), as K is at most 2¹⁷, and what NORM_SLACK leaves open in the gross norms."""

_LEAST_ROWS = 24
"""Below this many rows a float32 product and its addition in float64 cost more than a float64 product."""


def longest(gross: float) -> int:
    """How many terms a float32 product may have, when Σ f·gross over the batch is `gross` times the bound."""
    if torch.get_float32_matmul_precision() != "highest":
        return 0  # products may be made in fewer digits than float32 has
    terms = SUM_SLACK / (2.0 * _SAFETY * _UNIT * max(gross, 1e-9))
    return max(
        0, min(int(terms) - 3, 2**17)
    )  # three more roundings: the factor, its product with d, the place


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
    """Sums of gradients in float64; a weight that is split by columns has one sum for each part."""

    sums: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    _short: dict[str, tuple[Tensor, int]] = field(default_factory=dict)

    def add(self, name: str, gradient: Tensor, offset: int = 0) -> None:
        """Add to the sum of a parameter, or of the part of it that begins at column `offset`."""
        if (name, offset) in self.sums:
            self.sums[name, offset] += gradient
        else:
            self.sums[name, offset] = gradient.double().contiguous()

    def add_rows(self, name: str, weights: RowWeights, rows: Tensor, length: int) -> None:
        """Add Σ weight · row, in float32 as long as no more than `length` rows are together."""
        found, terms = weights.sum(rows, length), len(rows)
        if found.dtype != torch.float32:
            self.add(name, found)
            return
        if name in self._short:
            before, already = self._short[name]
            if already + terms <= length:
                found, terms = before.add_(found), already + terms
            else:
                self.add(name, before)
        self._short[name] = found, terms

    def add_products(self, layer: WeightedLayer, pairs: Sequence[tuple[Tensor, Tensor]], length: int) -> None:
        """Add Σ over rows and places of the outer products d·aᵀ, at most `length` of them at once in float32."""
        assert layer.weight_name is not None
        rows, single = len(pairs[0][0]), pairs[0][0].dtype == torch.float32
        size = length // len(pairs) if single else 0
        if size < min(rows, _LEAST_ROWS):
            pairs, size = [(a.double(), d.double()) for a, d in pairs], rows
        pieces = -(-rows // size)
        for start in range(0, rows, -(-rows // pieces)):
            stop = start + -(-rows // pieces)
            (a, d), *others = [(a[start:stop], d[start:stop]) for a, d in pairs]
            product = d.T @ a
            for a, d in others:
                product.addmm_(d.T, a)
            self.add(layer.weight_name, product, layer.offset)

    def gradients(self, params: dict[str, Tensor]) -> dict[str, Tensor]:
        """The sums by name, with the parts of a split weight side by side, and zero where nothing was added."""
        for name, (short, _) in self._short.items():
            self.add(name, short)
        self._short.clear()
        result: dict[str, Tensor] = {}
        for name, offset in sorted(self.sums):
            part = self.sums[name, offset]
            result[name] = torch.cat([result[name], part], dim=1) if offset else part
        return {
            name: result[name] if name in result else torch.zeros_like(p, dtype=torch.float64)
            for name, p in params.items()
        }
