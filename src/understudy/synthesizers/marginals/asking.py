"""What the fitter of a table asks the door, in its order, and what it makes of the answers.

Columns first, then piles; from these follow the outcomes of numbers. Then columns by class and pairs, in groups of
outcomes as coarse as their noise demands: how fine anything is follows from the noise per row by a public rule. When
the mixture is nearly fitted, three columns at a time are scored by how far the mixture is from them, and the furthest
are counted. Rows are seen in `queries` alone; all else here is post-processing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.synthesizers.marginals.columns import KnownColumn
from understudy.synthesizers.marginals.mixture import Targets, Triple, blurred
from understudy.synthesizers.marginals.outcomes import affordable, grouped, number_outcomes
from understudy.synthesizers.marginals.piles import (
    cells_to_look_into,
    round_shares,
    stretches_of,
    with_piles,
    with_special,
)
from understudy.synthesizers.marginals.queries import (
    ColumnCounts,
    GroupCounts,
    LabelPairCounts,
    PileCounts,
    ProductSums,
)
from understudy.synthesizers.marginals.questions import chosen_triples, expected_sums, leans
from understudy.synthesizers.marginals.recipe import COLUMNS, LABEL_PAIRS, PAIRS, PILES, SCORES, TRIPLES
from understudy.synthesizers.shared.counts import single
from understudy.synthesizers.shared.simplex import on_simplex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.query import Published
    from understudy.synthesizers.marginals.columns import TableColumn
    from understudy.synthesizers.marginals.mixture import Mixture
    from understudy.synthesizers.marginals.piles import Stretches
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Questions"]

_LOOKED_UP, _LOOKED_UP_IN_ALL = 2**18, 2**22
"""How many single values of one column, and of all columns, are looked at."""
_LEAST_SHARE = 0.001
"""The share of rows that a value needs to be an outcome of its own, however small the noise is."""
_MOST_CATEGORIES = 64
"""Groups of a column without order in pairs, at most."""
_TRIPLE_GROUPS = 12
"""Groups of a column in triples, at most."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Asks the door of a table.

    Args:
        recipe: how fine, and how many.
        columns: those beside the label.
        weights: the share of each class; one entry without a label.
        count: the public or noisy number of rows.
    """

    recipe: MarginalsRecipe
    columns: tuple[TableColumn, ...]
    weights: tuple[float, ...]
    count: float

    @property
    def _classes(self) -> int:
        return len(self.weights)

    def first(self, door: Door) -> tuple[tuple[KnownColumn, ...], Targets]:
        """Columns, piles, columns by class and pairs: the outcomes, and what a mixture is fitted to at first."""
        known, masses, column_noise = self._columns(door)
        by_label, label_noise = [np.zeros((0, one.width)) for one in known], 0.0
        if self._classes > 1 and self.recipe.label_share > 0:
            seen = door.publish(LABEL_PAIRS, LabelPairCounts(known, self._classes))
            by_label = [one.reshape(self._classes, -1) for one in _arrays(seen)]
            label_noise = seen.deviation
        tables, groups, pair_noise = self._pairs(door, known, masses, by_label)
        variances = [noise**2 / self.count for noise in (column_noise, label_noise, pair_noise)]
        first, second, third = variances
        laid = _laid_out(known, groups, tables, self._classes, self.count)
        return known, Targets(
            widths=tuple(one.width for one in known),
            classes=single(np.array(self.weights)),
            columns=single(np.concatenate(masses) / self.count),
            labels=single(np.concatenate(by_label, axis=1) / self.count),
            groups=laid[0],
            pairs=laid[1],
            compared=laid[2],
            variances=(first, second, third),
        )

    def _columns(self, door: Door) -> tuple[tuple[KnownColumn, ...], list[Floats], float]:
        """The outcomes of all columns, the mass of each, and the noise in the counts of columns."""
        seen = door.publish(COLUMNS, ColumnCounts(self.columns))
        counts, noise = iter(_arrays(seen)), seen.deviation
        told = [[next(counts) for _ in column.marginal_sizes] for column in self.columns]
        spread = {
            place: stretches_of(grid, levels[: grid.counted], noise, self.count, missing=column.missing)
            for place, (column, levels) in enumerate(zip(self.columns, told, strict=True))
            if (grid := column.number) is not None
        }
        rounds = self._look_for_piles(door, spread, told, noise)
        cell_noise = noise
        if self._classes > 1 and self.recipe.label_share > 0:
            cell_noise = door.sigma(LABEL_PAIRS) * math.sqrt(len(self.columns))
        known, masses = [], []
        for place, column in enumerate(self.columns):
            if place not in spread:
                known.append(KnownColumn(column, column.size + column.missing))
                masses.append(on_simplex(told[place][0], self.count))
                continue
            outcomes = number_outcomes(
                spread[place],
                affordable(self.count / self._classes, cell_noise, self.recipe.support, self.recipe.bins, 1),
                self.recipe.tails,
                self.recipe.own,
                max(self.recipe.support * self._classes * cell_noise, self.count * _LEAST_SHARE),
            )
            held = np.append(outcomes.masses, [spread[place].missing] * column.missing)
            known.append(KnownColumn(column, len(held), outcomes, rounds[place]))
            masses.append(held)
        return tuple(known), masses, noise

    def _look_for_piles(
        self, door: Door, spread: dict[int, Stretches], told: Sequence[Sequence[Floats]], noise: float
    ) -> dict[int, Floats]:
        """Put piles into the distributions; returns how round the values of each number are."""
        grids = {
            place: grid for place, column in enumerate(self.columns) if (grid := column.number) is not None
        }
        rounds = {place: np.eye(len(grid.strides) + 1)[0] for place, grid in grids.items()}
        deep = {place: grid for place, grid in grids.items() if grid.deep}
        if not deep:
            return rounds
        most = min(_LOOKED_UP, _LOOKED_UP_IN_ALL // len(deep))
        cells = {place: cells_to_look_into(grid, spread[place], noise, most) for place, grid in deep.items()}
        seen = door.publish(PILES, PileCounts([(self.columns[place], cells[place]) for place in deep]))
        for (place, grid), counts in zip(deep.items(), _arrays(seen), strict=True):
            found = with_piles(
                grid, spread[place], cells[place], counts.reshape(len(cells[place]), -1), seen.deviation
            )
            by_trait = np.split(told[place][-1], [len(grid.strides) + 1])
            spread[place] = with_special(grid, found, by_trait[1])
            rounds[place] = round_shares(grid, spread[place], by_trait[0], noise)
        return rounds

    def _pairs(
        self, door: Door, known: Sequence[KnownColumn], masses: Sequence[Floats], by_label: Sequence[Floats]
    ) -> tuple[dict[tuple[int, int], Floats], dict[int, Ints], float]:
        """The published tables of pairs, the groups of each column that takes part, and the noise in a count."""
        if len(known) < 2 or self.recipe.pair_share == 0:
            return {}, {}, 0.0
        compared = _most_telling(masses, by_label, self.recipe.columns)
        pairs = list(itertools.combinations(compared, 2))
        noise = door.sigma(PAIRS) * math.sqrt(len(pairs))
        most = affordable(self.count / self._classes, noise, self.recipe.pair_support, self.recipe.groups, 2)
        least = self.recipe.support * noise
        groups = {i: _groups(known[i], masses[i], most, least) for i in compared}
        seen = door.publish(PAIRS, GroupCounts(known, groups, pairs, self._classes))
        sizes = {i: int(group.max()) + 1 for i, group in groups.items()}
        tables = {
            (i, j): counts.reshape(self._classes, sizes[i], sizes[j])
            for (i, j), counts in zip(pairs, _arrays(seen), strict=True)
        }
        return tables, groups, seen.deviation

    def more(
        self,
        door: Door,
        known: Sequence[KnownColumn],
        targets: Targets,
        mixture: Mixture,
        source: torch.Generator,
    ) -> tuple[Targets, Mixture]:
        """Three columns together where the mixture is furthest from the rows: new targets, and where to go on from."""
        widths = [one.width for one in known]
        masses = [one.double().numpy() * self.count for one in torch.split(targets.columns, widths)]
        by_label = [one.double().numpy() for one in torch.split(targets.labels, widths, dim=1)]
        compared = _most_telling(masses, by_label, self.recipe.columns)
        leaning = {i: leans(masses[i], _rates(by_label[i]), ordered=known[i].ordered) for i in compared}
        of_class = leans(np.array(self.weights), None, ordered=True) if self._classes > 1 else None
        seen = door.publish(SCORES, ProductSums(known, leaning, of_class))
        expected = expected_sums(mixture, leaning, targets.classes, of_class)
        chosen = chosen_triples(
            compared, seen.value, expected, seen.deviation, self.count, self.recipe.triples
        )
        asked = self._triples(door, known, masses, chosen.triples, targets)
        return asked, blurred(mixture, source) if chosen.surprising else mixture

    def _triples(
        self,
        door: Door,
        known: Sequence[KnownColumn],
        masses: Sequence[Floats],
        triples: Sequence[tuple[int, int, int]],
        targets: Targets,
    ) -> Targets:
        """The targets with published triples; their groups are their own, and stand after those of pairs."""
        noise = door.sigma(TRIPLES) * math.sqrt(len(triples))
        most = affordable(self.count / self._classes, noise, self.recipe.support, _TRIPLE_GROUPS, 3)
        taking_part = sorted({i for one in triples for i in one})
        least = self.count / (2 * most)
        groups = {i: _groups(known[i], masses[i], most, least) for i in taking_part}
        seen = door.publish(TRIPLES, GroupCounts(known, groups, triples, self._classes))
        members, places = _members(known, groups)
        before = targets.groups.shape[1]
        found = []
        for one, counts in zip(triples, seen.values, strict=True):
            a, b, c = (slice(places[i].start + before, places[i].stop + before) for i in one)
            sizes = [places[i].stop - places[i].start for i in one]
            shares = single(counts.numpy() / self.count).reshape(self._classes, *sizes)
            found.append(Triple((a, b, c), shares, seen.deviation**2 / self.count))
        more = members.shape[1]
        return replace(
            targets,
            groups=torch.cat([targets.groups, members], dim=1),
            pairs=torch.nn.functional.pad(targets.pairs, (0, more, 0, more)),
            compared=torch.nn.functional.pad(targets.compared, (0, more, 0, more)),
            triples=tuple(found),
        )


def _groups(known: KnownColumn, masses: Floats, most: int, least: float) -> Ints:
    """Numbers in groups of about equal mass, categories in their own if they are frequent; missing apart."""
    falling = np.sort(masses)[::-1]
    if len(masses) > _MOST_CATEGORIES:
        least = max(least, float(falling[_MOST_CATEGORIES - 2]))
    missing = known.ordered and known.column.missing
    return grouped(masses, most, ordered=known.ordered, missing=missing, least=least)


def _members(known: Sequence[KnownColumn], groups: Mapping[int, Ints]) -> tuple[Tensor, dict[int, slice]]:
    """Which group each outcome of the table lies in, as a matrix of 0 and 1; and the groups of each column."""
    starts = np.cumsum([0, *(one.width for one in known)])
    sizes = [int(group.max()) + 1 for group in groups.values()]
    ends = np.cumsum([0, *sizes])
    members = np.zeros((starts[-1], ends[-1]))
    places = {}
    for (i, group), start, stop in zip(groups.items(), ends[:-1], ends[1:], strict=True):
        members[starts[i] + np.arange(known[i].width), start + group] = 1
        places[i] = slice(int(start), int(stop))
    return single(members), places


def _laid_out(
    known: Sequence[KnownColumn],
    groups: Mapping[int, Ints],
    tables: Mapping[tuple[int, int], Floats],
    classes: int,
    count: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Groups of outcomes, the published pairs as blocks of one symmetric matrix per class, and where blocks are."""
    members, places = _members(known, groups)
    size = members.shape[1]
    pairs, compared = np.zeros((classes, size, size)), np.zeros((size, size))
    for (i, j), table in tables.items():
        pairs[:, places[i], places[j]] = table / count
        pairs[:, places[j], places[i]] = table.transpose(0, 2, 1) / count
        compared[places[i], places[j]] = compared[places[j], places[i]] = 1
    return members, single(pairs), single(compared)


def _most_telling(masses: Sequence[Floats], by_label: Sequence[Floats], most: int) -> list[int]:
    """The columns that tell most about the label (or vary most), in their order."""
    scores = [
        _information(table) if len(table) else _entropy(held)
        for held, table in zip(masses, by_label, strict=True)
    ]
    return sorted(int(i) for i in np.argsort(-np.array(scores), kind="stable")[:most])


def _entropy(masses: Floats) -> float:
    shares = masses[masses > 0] / max(float(masses[masses > 0].sum()), 1e-9)
    return float(-(shares * np.log(shares)).sum())


def _information(table: Floats) -> float:
    """The mutual information of label and column that noisy counts suggest."""
    joint = np.maximum(table, 0)
    return _entropy(joint.sum(axis=0)) + _entropy(joint.sum(axis=1)) - _entropy(joint.ravel())


def _rates(table: Floats) -> Floats | None:
    """The mean class of each outcome, by which outcomes without an order are put in one."""
    if not len(table):
        return None
    rates: Floats = (table * np.arange(len(table))[:, None]).sum(axis=0) / np.maximum(table.sum(axis=0), 1e-9)
    return rates


def _arrays(seen: Published) -> list[Floats]:
    return [one.numpy() for one in seen.values]
