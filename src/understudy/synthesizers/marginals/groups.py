"""Groups of outcomes, in which columns are counted together; and published tables laid out in them. Nothing is private.

A mixture is compared with all pairs at once, as blocks of one matrix of groups. So their number is bounded, and columns
have fewer groups where there are many columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.synthesizers.marginals.outcomes import grouped
from understudy.synthesizers.shared.counts import single

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.synthesizers.marginals.columns import KnownColumn

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["fewer_pairs", "groups_in_pairs", "groups_of", "laid_out", "members_of", "of_outcomes"]

_MOST_CATEGORIES = 128
"""Groups of a column without order in pairs, at most."""
_MOST_GROUPS = 1024
"""Groups of all columns in pairs, at most."""


def groups_of(
    known: KnownColumn, masses: Floats, most: int, least: float, categories: int = _MOST_CATEGORIES
) -> Ints:
    """Numbers in groups of about equal mass, categories in their own if they are frequent; missing apart."""
    if len(masses) > categories:
        least = max(least, float(np.sort(masses)[::-1][max(0, categories - 2)]))
    missing = known.ordered and known.column.missing
    return grouped(masses, most, ordered=known.ordered, missing=missing, least=least)


def groups_in_pairs(
    known: Sequence[KnownColumn], masses: Sequence[Floats], places: Iterable[int], most: int, least: float
) -> dict[int, Ints]:
    """The groups of these columns, as fine as the noise (`most`, `least`) and their number allow."""
    places, finest = sorted(places), _MOST_CATEGORIES
    while True:
        found = {i: groups_of(known[i], masses[i], min(most, finest), least, finest) for i in places}
        if finest == 2 or sum(map(_size, found.values())) <= _MOST_GROUPS:
            return found
        finest //= 2


def fewer_pairs(pairs: Sequence[tuple[int, int]], groups: Mapping[int, Ints]) -> list[tuple[int, int]]:
    """The first of these pairs whose columns have no more groups than a mixture is compared in; at least one."""
    kept: list[tuple[int, int]] = []
    columns: set[int] = set()
    for pair in pairs:
        wider = columns | set(pair)
        if kept and sum(_size(groups[i]) for i in wider) > _MOST_GROUPS:
            continue
        columns = wider
        kept.append(pair)
    return kept


def of_outcomes(known: Sequence[KnownColumn], groups: Mapping[int, Ints]) -> Tensor:
    """The group of each outcome of the table, -1 for none."""
    found = [groups.get(i, np.full(one.width, -1)) for i, one in enumerate(known)]
    return torch.from_numpy(np.concatenate(found).astype(np.int64))


def _size(group: Ints) -> int:
    return int(group.max()) + 1


def members_of(known: Sequence[KnownColumn], groups: Mapping[int, Ints]) -> tuple[Tensor, dict[int, slice]]:
    """Which group each outcome of the table lies in, as a matrix of 0 and 1; and the groups of each column."""
    starts = np.cumsum([0, *(one.width for one in known)])
    sizes = [_size(group) for group in groups.values()]
    ends = np.cumsum([0, *sizes])
    members = np.zeros((starts[-1], ends[-1]))
    places = {}
    for (i, group), start, stop in zip(groups.items(), ends[:-1], ends[1:], strict=True):
        members[starts[i] + np.arange(known[i].width), start + group] = 1
        places[i] = slice(int(start), int(stop))
    return single(members), places


def laid_out(
    known: Sequence[KnownColumn],
    groups: Mapping[int, Ints],
    tables: Mapping[tuple[int, int], Floats],
    classes: int,
    count: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Groups of outcomes, the published pairs as blocks of one symmetric matrix per class, and where blocks are."""
    members, places = members_of(known, groups)
    size = members.shape[1]
    pairs, compared = np.zeros((classes, size, size)), np.zeros((size, size))
    for (i, j), table in tables.items():
        pairs[:, places[i], places[j]] = table / count
        pairs[:, places[j], places[i]] = table.transpose(0, 2, 1) / count
        compared[places[i], places[j]] = compared[places[j], places[i]] = 1
    return members, single(pairs), single(compared)
