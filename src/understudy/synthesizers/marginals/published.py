"""The noisy counts themselves, as they were published: they are in the release beside the generator.

They are what the budget was spent on, so keeping them costs nothing more; whoever doubts the generator can ask them.
The sums by which questions are chosen are no counts, and are not kept. Of the single values that were looked at for
piles the heaviest cells are kept, `MOST_LOOKED` values of a column at most, so that a file stays small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.synthesizers.marginals.recipe import COLUMNS, LABEL_PAIRS, PAIRS, PILES, PURPOSES, TRIPLES
from understudy.synthesizers.shared.parts import LABELS, ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from understudy.door.query import Published
    from understudy.synthesizers.marginals.columns import TableColumn

    Array = NDArray[Any]

__all__ = ["MOST_LOOKED", "NAMES", "PublishedCounts", "group_sizes", "misfit_of_counts"]

MOST_LOOKED = 2**14
"""Single values of a column that are kept, at most."""

NAMES = {
    ROWS: "row_count",
    LABELS: "class_counts",
    COLUMNS: "column_counts",
    PILES: "pile_counts",
    LABEL_PAIRS: "label_pair_counts",
    PAIRS: "pair_counts",
    TRIPLES: "triple_counts",
}
"""The field that holds the counts of each purpose."""


def _none(*shape: int, dtype: type[np.generic] = np.int64) -> Array:
    return np.zeros(shape, dtype=dtype)


def _no_counts() -> Array:
    return _none(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class PublishedCounts:
    """Noisy counts of all tables of each kind one behind the other, and what was asked for.

    Args:
        noises: the standard deviation of the noise of each of `PURPOSES`; 0 where nothing was asked.
        row_count: the number of rows, where it is private.
        class_counts: of the label.
        column_counts: every marginal of every column.
        pile_counts: single values in the cells of `looked`.
        label_pair_counts: for each column, classes by outcomes.
        pair_counts: for each of `paired`, classes by groups by groups.
        triple_counts: for each of `tripled`, classes by groups by groups by groups.
        looked: column and cell of the finest counted level, of shape (cells, 2).
        paired: columns, of shape (pairs, 2).
        tripled: columns, of shape (triples, 3).
        pair_groups: the group of each outcome of the table in pairs, -1 for none.
        triple_groups: the same in triples.
    """

    noises: Array = field(default_factory=lambda: _none(len(PURPOSES), dtype=np.float64))
    row_count: Array = field(default_factory=_no_counts)
    class_counts: Array = field(default_factory=_no_counts)
    column_counts: Array = field(default_factory=_no_counts)
    pile_counts: Array = field(default_factory=_no_counts)
    label_pair_counts: Array = field(default_factory=_no_counts)
    pair_counts: Array = field(default_factory=_no_counts)
    triple_counts: Array = field(default_factory=_no_counts)
    looked: Array = field(default_factory=lambda: _none(0, 2))
    paired: Array = field(default_factory=lambda: _none(0, 2))
    tripled: Array = field(default_factory=lambda: _none(0, 3))
    pair_groups: Array = field(default_factory=lambda: _none(0))
    triple_groups: Array = field(default_factory=lambda: _none(0))

    def named(self) -> dict[str, Array]:
        """All of it as named arrays."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of(cls, named: Mapping[str, Array]) -> PublishedCounts:
        """The same from named arrays, among others."""
        return cls(**{one.name: named[one.name] for one in fields(cls)})

    def with_counts(self, purpose: str, seen: Published) -> PublishedCounts:
        """The same with the counts of a purpose."""
        noises = self.noises.copy()
        noises[PURPOSES.index(purpose)] = seen.deviation
        values = [one[:MOST_LOOKED] for one in seen.values] if purpose == PILES else seen.values
        kept = np.concatenate([one.flatten().numpy() for one in values]).astype(np.float32)
        return replace(self, noises=noises, **{NAMES[purpose]: kept})

    def expected(self, columns: Sequence[TableColumn], widths: Sequence[int], classes: int) -> dict[str, int]:
        """How many counts there must be of each purpose, if there are any."""
        sizes = [size for column in columns for size in column.marginal_sizes]
        return {
            ROWS: 1,
            LABELS: classes,
            COLUMNS: sum(sizes),
            PILES: sum(self.looked_sizes(columns).values()),
            LABEL_PAIRS: classes * sum(widths),
            PAIRS: _cells(self.paired, self.pair_groups, widths) * classes,
            TRIPLES: _cells(self.tripled, self.triple_groups, widths) * classes,
        }

    def looked_sizes(self, columns: Sequence[TableColumn]) -> dict[int, int]:
        """How many single values of each column were kept."""
        found: dict[int, int] = {}
        for place in self.looked[:, 0].tolist():
            grid = columns[place].number
            assert grid is not None
            found[place] = min(MOST_LOOKED, found.get(place, 0) + grid.width(grid.counted - 1))
        return found


def group_sizes(groups: Array, widths: Sequence[int]) -> list[int]:
    """How many groups each column has."""
    if not len(groups):
        return [0] * len(widths)
    return [int(one.max()) + 1 for one in np.split(groups, np.cumsum(widths)[:-1])]


def _cells(together: Array, groups: Array, widths: Sequence[int]) -> int:
    sizes = group_sizes(groups, widths)
    return sum(math.prod(sizes[i] for i in one) for one in together.tolist())


def misfit_of_counts(columns: Sequence[TableColumn], classes: int, named: Mapping[str, Array]) -> str | None:
    """Why these arrays, some from a file, cannot be the counts of such a table, as the end of a sentence."""
    found, widths = PublishedCounts.of(named), named["widths"].tolist()
    problem = _misfit_of_places(columns, found) or _misfit_of_groups(found, widths)
    if problem is not None:
        return problem
    if found.noises.shape != (len(PURPOSES),) or bool((found.noises < 0).any()):
        return "noises must be one for each kind of counts, and not negative"
    for purpose, size in found.expected(columns, widths, classes).items():
        counts = named[NAMES[purpose]]
        if counts.ndim != 1 or len(counts) not in {0, size}:
            return f"{NAMES[purpose]} has shape {tuple(counts.shape)}, not ({size},)"
    return None


def _misfit_of_places(columns: Sequence[TableColumn], found: PublishedCounts) -> str | None:
    """Why columns that were asked for together cannot be those of the table."""
    for name, size in {"looked": 2, "paired": 2, "tripled": 3}.items():
        asked = getattr(found, name)
        if asked.ndim != 2 or asked.shape[1] != size:
            return f"{name} has shape {tuple(asked.shape)}, not (…, {size})"
        places = asked[:, :1] if name == "looked" else asked
        if bool((places < 0).any()) or bool((places >= len(columns)).any()):
            return f"{name} names columns that are not there"
    if any(columns[place].number is None for place in found.looked[:, 0].tolist()):
        return "single values were looked at in a column that is no number"
    return None


def _misfit_of_groups(found: PublishedCounts, widths: Sequence[int]) -> str | None:
    """Why groups of outcomes cannot be those of columns with so many outcomes."""
    for groups in (found.pair_groups, found.triple_groups):
        if groups.shape not in {(0,), (sum(widths),)} or bool((groups < -1).any()):
            return "groups of outcomes do not belong to the columns of the schema"
        if len(groups) and int(groups.max()) >= max(widths):
            return "a column has more groups than outcomes"
    return None
