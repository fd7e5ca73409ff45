"""What is known of a number, as pieces of its outcomes: so that values are drawn within it, with the right chances.

A value of a number is drawn in two parts: a place in a stretch, and how round it is made. Making round keeps the order
of places, so the places that end in a range are an interval for every roundness, and its mass is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.marginals.columns import Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from understudy.records.given import Allowed
    from understudy.synthesizers.marginals.columns import KnownColumn
    from understudy.synthesizers.marginals.grid import Grid

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Pieces", "narrowed", "pieces_within", "possible_outcomes"]

_NEAR = 1e-6
"""The part of a grid's unit by which a value may miss a bound and still be within."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The allowed part of a number's distribution.

    Args:
        grid: of the column.
        which: the outcome of each piece, in increasing order.
        starts: its first place.
        lengths: how many places it has.
        strides: what its places are rounded to; 1 for nothing.
        masses: of each piece.
        total: the mass of each outcome with what is not allowed.
    """

    grid: Grid
    which: Ints
    starts: Ints
    lengths: Ints
    strides: Ints
    masses: Floats
    total: Floats

    @property
    def possible(self) -> Floats:
        """The allowed share of each outcome."""
        held = np.bincount(self.which, weights=self.masses, minlength=len(self.total))
        return held / np.maximum(self.total, 1e-300)

    @cached_property
    def _below(self) -> tuple[Ints, Floats]:
        """The first piece of each outcome, and the mass up to each piece."""
        first = np.searchsorted(self.which, np.arange(len(self.total) + 1))
        return first, np.concatenate([[0.0], np.cumsum(self.masses)])

    def drawn(self, outcome: Ints, uniform: Floats) -> Ints:
        """An allowed value of the grid within each of these outcomes, each of which holds one."""
        if not len(self.starts):
            return np.zeros(len(outcome), dtype=np.int64)
        first, below = self._below
        low, high = first[outcome], first[outcome + 1]
        mass = below[low] + uniform[0] * (below[high] - below[low])
        piece = np.clip(np.searchsorted(below, mass, side="right") - 1, low, np.maximum(high - 1, low))
        piece = np.minimum(piece, len(self.starts) - 1)
        index: Ints = self.starts[piece] + (uniform[1] * self.lengths[piece]).astype(np.int64)
        for stride in np.unique(self.strides[piece]):
            if stride > 1:
                at = self.strides[piece] == stride
                index[at] = self.grid.made_round(index[at], int(stride))
        return index


def possible_outcomes(known: KnownColumn, allowed: Allowed, pieces: Pieces | None) -> Floats:
    """The share of each outcome of a column that is allowed, that of missing values last."""
    column, grid = known.column, known.column.grid
    if pieces is not None:
        values = pieces.possible
    elif grid is None:
        values = allowed.among(np.arange(column.size, dtype=np.float64)).astype(np.float64)
    else:
        values = np.zeros(column.size)
        for low, high in _indices(grid, allowed):
            values[low:high] = 1.0
    return np.append(values, float(allowed.missing)) if column.missing else values


def pieces_within(known: KnownColumn, allowed: Allowed) -> Pieces | None:
    """The allowed part of a number's distribution; None for a column whose cells are outcomes."""
    grid = known.column.grid
    if known.column.scale is not Scale.NUMBER or grid is None:
        return None
    assert known.outcomes is not None
    assert known.round_shares is not None
    stretches, masses = known.outcomes.stretches, known.outcomes.least_masses
    ends, single = stretches.starts + stretches.lengths, stretches.lengths == 1
    round_shares = known.round_shares / known.round_shares.sum()
    parts = []
    for low, high in _indices(grid, allowed):
        for stride, share in zip((1, *grid.strides), round_shares, strict=True):
            first, last = _places(grid, stride, low), _places(grid, stride, high)
            starts = np.maximum(stretches.starts, first)
            lengths = np.minimum(ends, last) - starts
            part = masses * share * lengths / stretches.lengths
            parts.append((np.where(single, -1, lengths), starts, np.full(len(starts), stride), part))
        inside = single & (stretches.starts >= low) & (stretches.starts < high)
        parts.append((np.where(inside, 1, -1), stretches.starts, np.ones_like(ends), masses))
    which = np.tile(known.outcomes.which, len(parts))
    lengths, starts, strides = (
        np.concatenate([np.zeros(0, dtype=np.int64), *(one[place] for one in parts)]) for place in range(3)
    )
    held = np.concatenate([np.zeros(0), *(one[3] for one in parts)])
    kept = np.flatnonzero((lengths > 0) & (held > 0))
    kept = kept[np.argsort(which[kept], kind="stable")]
    total = np.bincount(known.outcomes.which, weights=masses).astype(np.float64)
    return Pieces(grid, which[kept], starts[kept], lengths[kept], strides[kept], held[kept], total)


def _indices(grid: Grid, allowed: Allowed) -> Iterator[tuple[int, int]]:
    """The numbers of the allowed values of a grid, each time the first and one past the last; none empty."""
    near = _NEAR * grid.unit
    for low, high in allowed.ranges:
        first = _first(grid.size, lambda index, low=low: grid.values(index) >= low - near)  # type: ignore[misc]
        past = _first(grid.size, lambda index, high=high: grid.values(index) > high + near)  # type: ignore[misc]
        if past > first:
            yield first, past


def _places(grid: Grid, stride: int, low: int) -> int:
    """The first place that is `low` or more once it is made round."""
    if stride == 1:
        return low
    return _first(grid.size, lambda index: grid.made_round(index, stride) >= low)


def _first(size: int, true_from: Callable[[Ints], NDArray[np.bool_]]) -> int:
    """The first number below `size` at which a condition holds that holds ever after; `size` if it never does."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if true_from(np.array([middle], dtype=np.int64))[0]:
            high = middle
        else:
            low = middle + 1
    return low


def narrowed(
    widths: Sequence[int], shares: Floats, chances: Floats, possible: Mapping[int, Floats], classes: Floats
) -> tuple[Floats, Floats, Floats]:
    """Shares and chances of the mixture of records that are possible, and the probability of each class with one.

    Columns are independent within a component, so what is left is a mixture again: components are weighed by how
    possible their records are, and their chances kept where they are possible.

    Args:
        widths: how many outcomes each column has.
        shares: of each component within its class, of shape (classes, components).
        chances: of all outcomes side by side, of shape (classes, components, outcomes).
        possible: for some columns, by place, the share of each outcome that is possible, in [0, 1].
        classes: the share of each class.
    """
    likely = shares * classes[:, None]
    pieces = np.split(chances, np.cumsum(widths)[:-1], axis=-1)
    for column, share in possible.items():
        kept = pieces[column] * share
        held = kept.sum(axis=-1, keepdims=True)
        pieces[column] = np.where(held > 0, kept / np.maximum(held, 1e-300), share / max(share.sum(), 1e-300))
        likely = likely * held[:, :, 0]
    by_class: Floats = likely.sum(axis=1)
    left = likely / np.maximum(by_class[:, None], 1e-300)
    left[by_class == 0] = 1 / left.shape[1]
    return left, np.concatenate(pieces, axis=-1), by_class
