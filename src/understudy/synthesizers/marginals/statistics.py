"""The published numbers of a table, laid out for the training of a generator. All post-processing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.marginals.bins import KNOTS, on_simplex
from understudy.synthesizers.shared.counts import Counts, single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.synthesizers.marginals.columns import BinnedColumn, Compared

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Marginals", "assembled"]

_LENT = 0.02
"""The share of a class's chances that is lent from all rows, so that no outcome starts as impossible."""


@dataclass(frozen=True, eq=False)
class Marginals(Counts):
    """Published numbers of a table, all of them noisy or computed from noisy ones; safe to keep and to publish.

    Outcomes of all columns are numbered from left to right, with a fixed number of slots for each column.

    Args:
        possible: 1 for every outcome that exists, 0 for slots of bins that were not needed.
        knots: encoded values within the bins of each number.
        start: logarithms of the chances of outcomes in each class, to begin with.
        weights: the share of each class; one entry without a label.
        columns: the share of rows with each outcome.
        labels: the share of rows with each class and outcome; empty if not published.
        groups: one row per outcome, one column per group: which group of its column it lies in.
        pairs: for each class (or all rows) the share of rows in each two groups; empty if not published.
        compared: 1 where `pairs` was published: above the diagonal, for columns that take part.
        noise: the standard deviation of the noise in columns, labels and pairs, as shares; 0 if not published.
    """

    possible: Tensor
    knots: Tensor
    start: Tensor
    weights: Tensor
    columns: Tensor
    labels: Tensor
    groups: Tensor
    pairs: Tensor
    compared: Tensor
    noise: Tensor


def assembled(
    columns: Sequence[BinnedColumn],
    by_label: Sequence[Floats],
    chosen: Compared,
    by_pair: Sequence[Floats],
    weights: tuple[float, ...],
    count: float,
    noise: Tensor,
) -> Marginals:
    """Post-processing: everything laid out by outcomes, as shares of rows."""
    total, classes = sum(column.slots for column in columns), len(weights)
    starts = np.cumsum([0, *(column.slots for column in columns)])
    possible, shares = np.zeros(total), np.zeros(total)
    begin, labels = np.zeros((classes, total)), np.zeros((classes if by_label else 0, total))
    for i, column in enumerate(columns):
        place = starts[i] + column.places
        possible[place], shares[place] = 1, column.masses / count
        table = np.tile(column.masses, (classes, 1)) * np.array(weights)[:, None]
        if by_label:
            table = by_label[i].reshape(classes, -1)
            labels[:, place] = table / count
        begin[:, place] = _log_chances(table, column.masses, count * np.array(weights))
    groups, pairs, compared = _laid_out(columns, starts, chosen, by_pair, classes, count)
    alone = _independent(np.exp(begin) * possible @ groups, np.array(weights), chosen)
    pairs = _shrunk(pairs, alone, [int(group.max()) + 1 for group in chosen.groups], float(noise[2]))
    knots = [_padded(column) for column in columns if column.knots is not None]
    return Marginals(
        possible=single(possible),
        knots=single(np.stack(knots) if knots else np.zeros((0, 0, KNOTS))),
        start=single(begin),
        weights=single(np.array(weights)),
        columns=single(shares),
        labels=single(labels),
        groups=single(groups),
        pairs=single(pairs),
        compared=single(compared),
        noise=noise,
    )


def _log_chances(table: Floats, masses: Floats, rows: Floats) -> Floats:
    """Logarithms of the chances of outcomes in each class that noisy counts suggest."""
    inside = np.stack([on_simplex(row, total) / total for row, total in zip(table, rows, strict=True)])
    anyhow = masses / max(float(masses.sum()), 1e-9)
    return np.log((1 - _LENT) * inside + _LENT * anyhow + 1e-4)


def _padded(column: BinnedColumn) -> Floats:
    """The knots of all slots; those of bins that were not needed are never read."""
    assert column.knots is not None
    slots = column.slots - column.axis.missing
    return np.concatenate([column.knots, np.zeros((slots - len(column.knots), KNOTS))])


def _laid_out(
    columns: Sequence[BinnedColumn],
    starts: Ints,
    chosen: Compared,
    by_pair: Sequence[Floats],
    classes: int,
    count: float,
) -> tuple[Floats, Floats, Floats]:
    """Groups of outcomes, the published pairs as blocks of one matrix per class, and where blocks are."""
    sizes = [int(group.max()) + 1 for group in chosen.groups]
    places = np.cumsum([0, *sizes])
    groups = np.zeros((int(starts[-1]), places[-1]))
    pairs = np.zeros((classes if chosen.by_class else 1, places[-1], places[-1]))
    compared = np.zeros((places[-1], places[-1]))
    for k, (i, group) in enumerate(zip(chosen.columns, chosen.groups, strict=True)):
        groups[starts[i] + columns[i].places, places[k] + group] = 1
    for counts, (one, other) in zip(by_pair, itertools.combinations(range(len(sizes)), 2), strict=True):
        block = (slice(places[one], places[one + 1]), slice(places[other], places[other + 1]))
        pairs[:, *block] = counts.reshape(len(pairs), sizes[one], sizes[other]) / count
        compared[block] = 1
    return groups, pairs, compared


def _independent(grouped: Floats, weights: Floats, chosen: Compared) -> Floats:
    """The pairs that there would be if columns knew of each other through the class alone."""
    alone = grouped[:, :, None] * grouped[:, None, :] * weights[:, None, None]
    return alone if chosen.by_class else alone.sum(axis=0, keepdims=True)


def _shrunk(pairs: Floats, alone: Floats, sizes: Sequence[int], noise: float) -> Floats:
    """Every block of pairs drawn towards independence, the more the less it stands out of the noise.

    The factor is that of James and Stein: blocks that show no more than noise become independent.
    """
    places = np.cumsum([0, *sizes])
    shrunk = np.zeros_like(pairs)
    for one, other in itertools.combinations(range(len(sizes)), 2):
        block = (slice(None), slice(places[one], places[one + 1]), slice(places[other], places[other + 1]))
        surprise = pairs[block] - alone[block]
        size = np.square(surprise).sum(axis=(1, 2), keepdims=True)
        expected = sizes[one] * sizes[other] * noise**2
        kept = np.maximum(0.0, 1 - expected / np.maximum(size, 1e-300))
        shrunk[block] = alone[block] + kept * surprise
    return shrunk
