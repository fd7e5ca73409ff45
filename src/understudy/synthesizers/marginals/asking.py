"""What the fitter of a table asks the door, in its order, and what it makes of the answers.

Columns first, then piles; from these follow the outcomes of numbers. Then columns by class and pairs, in groups of
outcomes as coarse as their noise demands: how fine anything is follows from the noise per row by a public rule. Of many
columns, pairs are scored first, and those that are furthest from independence are counted. When the mixture is nearly
fitted, three columns at a time are scored by how far the mixture is from them, and the furthest are counted. Rows are
seen in `queries` alone; all else here is post-processing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.synthesizers.marginals.columns import KnownColumn
from understudy.synthesizers.marginals.groups import (
    fewer_pairs,
    groups_in_pairs,
    groups_of,
    laid_out,
    members_of,
    of_outcomes,
)
from understudy.synthesizers.marginals.mixture import Targets, Triple, blurred
from understudy.synthesizers.marginals.outcomes import affordable, number_outcomes
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
    PairProducts,
    PileCounts,
    TripleProducts,
)
from understudy.synthesizers.marginals.questions import (
    chosen_pairs,
    chosen_triples,
    expected_pairs,
    expected_sums,
    leans,
)
from understudy.synthesizers.marginals.recipe import (
    COLUMNS,
    LABEL_PAIRS,
    PAIR_SCORES,
    PAIRS,
    PILES,
    SCORES,
    TRIPLES,
)
from understudy.synthesizers.shared.counts import single
from understudy.synthesizers.shared.simplex import on_simplex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from understudy.door.query import Published
    from understudy.synthesizers.marginals.answers import Answers
    from understudy.synthesizers.marginals.columns import TableColumn
    from understudy.synthesizers.marginals.mixture import Mixture
    from understudy.synthesizers.marginals.piles import Stretches
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["First", "Questions"]

_LOOKED_UP, _LOOKED_UP_IN_ALL = 2**18, 2**22
"""How many single values of one column, and of all columns, are looked at."""
_LEAST_SHARE = 0.001
"""The share of rows that a value needs to be an outcome of its own, however small the noise is."""
_TRIPLE_GROUPS = 12
"""Groups of a column in triples, at most."""


@dataclass(frozen=True, eq=False)
class First:
    """What is known before the first step.

    Args:
        known: all columns with their outcomes.
        targets: what was published of them.
        active: those that are compared with others, by place; all that is known of the rest is their counts by class.
    """

    known: tuple[KnownColumn, ...]
    targets: Targets
    active: tuple[int, ...]


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

    def first(self, answers: Answers) -> First:
        """Columns, piles, columns by class and pairs: the outcomes, and what a mixture is fitted to at first."""
        known, masses, column_noise = self._columns(answers)
        by_label, label_noise = [np.zeros((0, one.width)) for one in known], 0.0
        if self._classes > 1 and self.recipe.label_share > 0:
            seen = answers.publish(LABEL_PAIRS, LabelPairCounts(known, self._classes))
            by_label = [one.reshape(self._classes, -1) for one in _arrays(seen)]
            label_noise = seen.deviation
        tables, groups, pair_noise = self._pairs(answers, known, masses, by_label)
        variances = [noise**2 / self.count for noise in (column_noise, label_noise, pair_noise)]
        first, second, third = variances
        laid = laid_out(known, groups, tables, self._classes, self.count)
        targets = Targets(
            widths=tuple(one.width for one in known),
            classes=single(np.array(self.weights)),
            columns=single(np.concatenate(masses) / self.count),
            labels=single(np.concatenate(by_label, axis=1) / self.count),
            groups=laid[0],
            pairs=laid[1],
            compared=laid[2],
            variances=(first, second, third),
        )
        telling = _most_telling(masses, by_label, self.recipe.columns)
        return First(known, targets, tuple(sorted({*telling, *groups})))

    def _columns(self, answers: Answers) -> tuple[tuple[KnownColumn, ...], list[Floats], float]:
        """The outcomes of all columns, the mass of each, and the noise in the counts of columns."""
        seen = answers.publish(COLUMNS, ColumnCounts(self.columns))
        counts, noise = iter(_arrays(seen)), seen.deviation
        told = [[next(counts) for _ in column.marginal_sizes] for column in self.columns]
        spread = {
            place: stretches_of(grid, levels[: grid.counted], noise, self.count, missing=column.missing)
            for place, (column, levels) in enumerate(zip(self.columns, told, strict=True))
            if (grid := column.number) is not None
        }
        rounds = self._look_for_piles(answers, spread, told, noise)
        cell_noise = noise
        if self._classes > 1 and self.recipe.label_share > 0:
            cell_noise = answers.sigma(LABEL_PAIRS) * math.sqrt(len(self.columns))
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
        self, answers: Answers, spread: dict[int, Stretches], told: Sequence[Sequence[Floats]], noise: float
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
        looked = [(place, int(cell)) for place in deep for cell in cells[place]]
        answers.describe(looked=torch.tensor(looked))
        seen = answers.publish(PILES, PileCounts([(self.columns[place], cells[place]) for place in deep]))
        for (place, grid), counts in zip(deep.items(), _arrays(seen), strict=True):
            found = with_piles(
                grid, spread[place], cells[place], counts.reshape(len(cells[place]), -1), seen.deviation
            )
            by_trait = np.split(told[place][-1], [len(grid.strides) + 1])
            spread[place] = with_special(grid, found, by_trait[1])
            rounds[place] = round_shares(grid, spread[place], by_trait[0], noise)
        return rounds

    def _pairs(
        self,
        answers: Answers,
        known: Sequence[KnownColumn],
        masses: Sequence[Floats],
        by_label: Sequence[Floats],
    ) -> tuple[dict[tuple[int, int], Floats], dict[int, Ints], float]:
        """The published tables of pairs, the groups of each column that takes part, and the noise in a count."""
        if len(known) < 2 or self.recipe.pair_share == 0:
            return {}, {}, 0.0
        pairs = self._asked_pairs(answers, known, masses, by_label)
        noise = answers.sigma(PAIRS) * math.sqrt(len(pairs))
        most = affordable(self.count / self._classes, noise, self.recipe.pair_support, self.recipe.groups, 2)
        groups = groups_in_pairs(
            known, masses, {i for one in pairs for i in one}, most, self.recipe.support * noise
        )
        if len(known) > self.recipe.columns:
            pairs = fewer_pairs(pairs, groups)
            groups = {i: groups[i] for i in sorted({i for one in pairs for i in one})}
        answers.describe(paired=torch.tensor(pairs), pair_groups=of_outcomes(known, groups))
        seen = answers.publish(PAIRS, GroupCounts(known, groups, pairs, self._classes))
        sizes = {i: int(group.max()) + 1 for i, group in groups.items()}
        tables = {
            (i, j): counts.reshape(self._classes, sizes[i], sizes[j])
            for (i, j), counts in zip(pairs, _arrays(seen), strict=True)
        }
        return tables, groups, seen.deviation

    def _asked_pairs(
        self,
        answers: Answers,
        known: Sequence[KnownColumn],
        masses: Sequence[Floats],
        by_label: Sequence[Floats],
    ) -> list[tuple[int, int]]:
        """Every two columns; of many columns as many pairs as `columns` of them have, chosen by their noisy scores."""
        most = self.recipe.columns
        if len(known) <= most:
            return list(itertools.combinations(range(len(known)), 2))
        leaning = [
            leans(held, _rates(table), ordered=one.ordered)
            for one, held, table in zip(known, masses, by_label, strict=True)
        ]
        seen = answers.publish(PAIR_SCORES, PairProducts(known, dict(enumerate(leaning))))
        tables = [table if len(table) else held[None] for table, held in zip(by_label, masses, strict=True)]
        shares = np.array(self.weights) if len(by_label[0]) else np.ones(1)
        expected = expected_pairs(tables, leaning, shares)
        return chosen_pairs(seen.value, expected, seen.deviation, self.count, math.comb(most, 2))

    def more(
        self,
        answers: Answers,
        first: First,
        mixture: Mixture,
        source: torch.Generator,
    ) -> tuple[Targets, Mixture]:
        """Three columns together where the mixture is furthest from the rows: new targets, and where to go on from.

        Args:
            answers: of the door.
            first: with the targets of the active columns alone.
            mixture: of the active columns.
            source: of chance.
        """
        known, targets = [first.known[i] for i in first.active], first.targets
        widths = [one.width for one in known]
        masses = [one.double().numpy() * self.count for one in torch.split(targets.columns, widths)]
        by_label = [one.double().numpy() for one in torch.split(targets.labels, widths, dim=1)]
        compared = _most_telling(masses, by_label, self.recipe.columns)
        leaning = {i: leans(masses[i], _rates(by_label[i]), ordered=known[i].ordered) for i in compared}
        of_class = leans(np.array(self.weights), None, ordered=True) if self._classes > 1 else None
        seen = answers.publish(SCORES, TripleProducts(known, leaning, of_class))
        expected = expected_sums(mixture, leaning, targets.classes, of_class)
        chosen = chosen_triples(
            compared, seen.value, expected, seen.deviation, self.count, self.recipe.triples
        )
        asked = self._triples(answers, first, masses, chosen.triples)
        return asked, blurred(mixture, source) if chosen.surprising else mixture

    def _triples(
        self,
        answers: Answers,
        first: First,
        masses: Sequence[Floats],
        triples: Sequence[tuple[int, int, int]],
    ) -> Targets:
        """The targets with published triples; their groups are their own, and stand after those of pairs."""
        known, targets = [first.known[i] for i in first.active], first.targets
        noise = answers.sigma(TRIPLES) * math.sqrt(len(triples))
        most = affordable(self.count / self._classes, noise, self.recipe.support, _TRIPLE_GROUPS, 3)
        taking_part = sorted({i for one in triples for i in one})
        least = self.count / (2 * most)
        groups = {i: groups_of(known[i], masses[i], most, least) for i in taking_part}
        answers.describe(
            tripled=torch.tensor([[first.active[i] for i in one] for one in triples]),
            triple_groups=of_outcomes(first.known, {first.active[i]: group for i, group in groups.items()}),
        )
        seen = answers.publish(TRIPLES, GroupCounts(known, groups, triples, self._classes))
        members, places = members_of(known, groups)
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
