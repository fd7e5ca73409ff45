"""Drawing code sets: some number of different codes in proportion to their rates, and how often each occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.synthesizers.shared.drawing import cumulative, drawn

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Singles = NDArray[np.float32]

__all__ = ["SURE", "draw_repeats", "first_arrivals"]

SURE = 1 - 1e-6
"""The largest chance of one more occurrence; at 1 all numbers up to the largest would be equally likely."""


def first_arrivals(
    rates: Singles, lengths: Ints, single: int, source: np.random.Generator
) -> tuple[Ints, NDArray[np.bool_]]:
    """Draw the first arrivals of each row's race (see `without_replacement`).

    Args:
        rates: one row per record.
        lengths: how many arrivals each record gets.
        single: how many items are codes; the others are groups, which arrive again and again.
        source: where the randomness comes from.

    Returns:
        items in the order of their arrival, groups as often as they arrive, and which of them count; both of shape
        (rows, longest). A row has fewer if there are no more.
    """
    longest = int(lengths.max(initial=0))
    with np.errstate(divide="ignore"):  # what has no rate never arrives
        times = _waits((len(rates), single), source) / rates[:, :single]
        items = np.broadcast_to(np.arange(single), times.shape)
        groups = rates[:, single:]
        if groups.shape[1] and longest:
            again = _waits((len(rates), longest), source) / groups.sum(axis=1, keepdims=True)
            line, row = cumulative(groups), np.arange(len(rates)).repeat(longest)
            which = drawn(line, row, source.random(len(row)), groups.shape[1]).reshape(-1, longest)
            times = np.concatenate([times, np.cumsum(again, axis=1)], axis=1)
            items = np.concatenate([items, single + which], axis=1)
    longest = min(longest, times.shape[1])
    if longest == 0:
        return np.zeros((len(rates), 0), dtype=np.int64), np.zeros((len(rates), 0), dtype=bool)
    first = np.argpartition(times, longest - 1, axis=1)[:, :longest]
    order = np.argsort(np.take_along_axis(times, first, axis=1), axis=1, kind="stable")
    found = np.take_along_axis(items, np.take_along_axis(first, order, axis=1), axis=1)
    return found, np.arange(longest) < lengths[:, None]


def _waits(shape: tuple[int, int], source: np.random.Generator) -> Singles:
    """Exponential times with rate 1."""
    return -np.log(np.maximum(source.random(shape, dtype=np.float32), np.float32(1e-12)))


def draw_repeats(chance: NDArray[np.floating[Any]], most: int, source: np.random.Generator) -> Ints:
    """A number of repetitions for each chance: geometric, drawn again as long as it is not below `most`."""
    sure = np.clip(chance.astype(np.float64), 1e-12, SURE)
    made = np.log(1 - source.random(chance.shape) * (1 - sure**most)) / np.log(sure)
    return np.clip(np.floor(made), 0, most - 1).astype(np.int64)
