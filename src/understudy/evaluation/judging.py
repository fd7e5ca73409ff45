"""Criteria judged: answers of synthetic rows beside those of real rows, from sums that can be published.

Every answer is computed from a sum over rows, to which one row adds a vector of bounded length: a cell of a table, a
count and a value of a group, a product of a row's entries with each other, a right or wrong answer. The sums of real
rows are exact in an internal evaluation, and pass the door with noise in a published one (`queries.CriteriaSums`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.errors import EvaluationError
from understudy.evaluation.criteria import Classifier, CrossTab, Means, Regression, Score
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import train
from understudy.evaluation.result import Better, Judged
from understudy.evaluation.scores import auroc_from_histograms
from understudy.evaluation.sources import labelled
from understudy.records.encode import Encoded, decode, encode
from understudy.schema import TableSchema

if TYPE_CHECKING:
    from understudy.evaluation.criteria import Criteria, Criterion
    from understudy.evaluation.learners import Predictor
    from understudy.evaluation.sources import Evaluated
    from understudy.schema import Schema

__all__ = ["Asked", "Questions", "judge_criteria"]

Floats = npt.NDArray[np.floating[Any]]
SYNTHETIC_ROWS = 20_000
"""Synthetic rows behind the synthetic answers: a constant, because any other number could tell real rows."""
MOST_CELLS = 1_000_000
LEAST_SHARE = 0.01
SIMULATIONS = 200
_BINS = 20


@dataclass(frozen=True, eq=False)
class Seen:
    """PRIVATE, if the rows are: some rows as arrays, and a table's also as codes and numbers of its columns."""

    rows: Encoded
    codes: npt.NDArray[np.int64]
    numbers: Floats


class Asked(ABC):
    """A criterion as a bounded sum, and how far the answers of two sums lie apart.

    Args:
        criterion: what is asked.
    """

    size: int
    bound: float
    """The greatest L2 norm of what one row adds."""
    better = Better.LOWER

    def __init__(self, criterion: Criterion) -> None:
        self.criterion = criterion

    @abstractmethod
    def sum(self, seen: Seen) -> Floats:
        """PRIVATE: the sum over some rows."""

    @abstractmethod
    def value(self, real: Floats, synthetic: Floats) -> float:
        """The distance of the answers of two sums, or the score that the real sum gives."""

    @property
    def limit(self) -> float:
        """What the value is held against."""
        one = self.criterion
        return one.at_least if isinstance(one, Classifier) else one.tolerance


class _Cells(Asked):
    def __init__(self, criterion: CrossTab, layout: Layout) -> None:
        super().__init__(criterion)
        self._columns = [_place(layout, name, criterion) for name in criterion.columns]
        self._shape = [layout.sizes[place] for place in self._columns]
        self.size, self.bound = math.prod(self._shape), 1.0
        if self.size > MOST_CELLS:
            raise EvaluationError(
                f"criterion {criterion.name!r}: the cross-tab has {self.size:,} cells, more than {MOST_CELLS:,}. "
                "Leave out a column."
            )

    def sum(self, seen: Seen) -> Floats:
        codes = seen.codes[:, self._columns]
        return _counts(np.ravel_multi_index(tuple(codes.T), self._shape), self.size)

    def value(self, real: Floats, synthetic: Floats) -> float:
        first, second = (_shares(side) for side in (real, synthetic))
        return float(0.5 * np.abs(first - second).sum())


class _GroupMeans(Asked):
    def __init__(self, criterion: Means, layout: Layout) -> None:
        super().__init__(criterion)
        self._of, self._by = _number(layout, criterion.of, criterion), _place(layout, criterion.by, criterion)
        low, high = layout.numeric[criterion.of]
        self._groups, self._unit = layout.sizes[self._by], high - low
        self.size, self.bound = 2 * self._groups, math.sqrt(2)

    def sum(self, seen: Seen) -> Floats:
        number = seen.numbers[:, self._of]
        kept = ~np.isnan(number)
        group, number = seen.codes[kept, self._by], np.clip(number[kept], 0, 1)
        parts = [np.bincount(group, weights, self._groups) for weights in (np.ones_like(number), number)]
        return np.concatenate(parts)

    def value(self, real: Floats, synthetic: Floats) -> float:
        (count, total), (of_drawn, drawn) = (side.reshape(2, self._groups) for side in (real, synthetic))
        compared = of_drawn >= LEAST_SHARE * of_drawn.sum()
        means = np.clip(total / np.maximum(count, 1), 0, 1)
        apart = np.abs(means - drawn / np.maximum(of_drawn, 1))
        return float(self._unit * apart[compared].max(initial=0.0))


class _Products(Asked):
    """Sums of the products of a row's entries with each other, from which any regression among them follows."""

    def __init__(self, criterion: Regression, layout: Layout) -> None:
        super().__init__(criterion)
        places = [_place(layout, name, criterion) for name in (*criterion.on, criterion.of)]
        if len(layout.categorical.get(criterion.of, ("", ""))) != 2:
            raise EvaluationError(
                f"criterion {criterion.name!r}: a regression explains a number or one of two categories, and "
                f"{criterion.of!r} has more. Use a classifier."
            )
        # For each column its place, and how many categories it has (None for a number).
        counts = [len(layout.categorical.get(name, ())) or None for name in (*criterion.on, criterion.of)]
        self._columns = list(zip(places, counts, strict=True))
        self._width = 1 + sum(1 if count is None else count - 1 for count in counts)
        self.size = self._width * (self._width + 1) // 2
        self.bound = float(len(criterion.on) + 2)

    def _entries(self, seen: Seen) -> Floats:
        """(rows, entries): one, the explaining columns, the explained one; each column's part has norm 1 at most.

        Rows in which one of the columns is missing or unknown are zero throughout.
        """
        rows = len(seen.codes)
        parts, whole = [np.ones((rows, 1))], np.ones(rows, dtype=bool)
        for place, categories in self._columns:
            if categories is None:
                parts.append(np.clip(2 * seen.numbers[:, [place]] - 1, -1, 1))
                whole &= ~np.isnan(seen.numbers[:, place])
            else:
                parts.append(np.eye(categories + 2)[seen.codes[:, place]][:, 1:categories])
                whole &= seen.codes[:, place] < categories
        return np.where(whole[:, None], np.nan_to_num(np.concatenate(parts, axis=1)), 0.0)

    def sum(self, seen: Seen) -> Floats:
        entries = self._entries(seen)
        upper = np.triu_indices(self._width)
        # Off the diagonal every product stands for two: with √2 the norm is that of the whole matrix.
        found: Floats = (entries.T @ entries)[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
        return found

    def value(self, real: Floats, synthetic: Floats) -> float:
        first, second = (self._coefficients(side) for side in (real, synthetic))
        return float(np.abs(first - second).max())

    def _coefficients(self, packed: Floats) -> Floats:
        """Standardised coefficients; noise that leaves no valid covariance is lifted to the nearest one."""
        upper = np.triu_indices(self._width)
        products = np.zeros((self._width, self._width))
        products[upper] = packed / np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
        products += np.triu(products, 1).T
        rows = max(1.0, products[0, 0])
        mean = products[0, 1:] / rows
        values, vectors = np.linalg.eigh(products[1:, 1:] / rows - np.outer(mean, mean))
        covariance = (vectors * np.maximum(values, 1e-9)) @ vectors.T
        spread = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(spread, spread)
        found: Floats = np.linalg.solve(
            correlation[:-1, :-1] + 1e-6 * np.eye(self._width - 2), correlation[:-1, -1]
        )
        return found


class _Answers(Asked):
    better = Better.HIGHER

    def __init__(self, criterion: Classifier, schema: Schema, predictor: Predictor, classes: int) -> None:
        super().__init__(criterion)
        self._schema, self._predictor, self._classes = schema, predictor, classes
        self._ranked = criterion.score is Score.AUROC
        self.size = classes * 2 * (_BINS if self._ranked else 1)
        self.bound = math.sqrt(classes) if self._ranked else 1.0

    def sum(self, seen: Seen) -> Floats:
        real = labelled(seen.rows, self._schema)
        chances = self._predictor(real.features)
        if not self._ranked:
            right = (chances.argmax(axis=1) == real.labels).astype(int)
            return _counts(2 * real.labels + right, self.size)
        bins = np.clip((chances * _BINS).astype(int), 0, _BINS - 1)
        member = (real.labels[:, None] == np.arange(self._classes)).astype(int)
        places = (2 * np.arange(self._classes) + member) * _BINS + bins
        return _counts(places.ravel(), self.size)

    def value(self, real: Floats, synthetic: Floats) -> float:
        del synthetic
        counts = np.maximum(real, 0)
        if self._ranked:
            pairs = counts.reshape(self._classes, 2, _BINS)
            there = [(others, members) for others, members in pairs if members.sum() > 0]
            scores = [auroc_from_histograms(members, others) for others, members in there]
            return float(np.mean(scores)) if scores else 0.5
        wrong, right = counts.reshape(self._classes, 2).T
        if self.criterion.score is Score.ACCURACY:  # type: ignore[union-attr]
            return float(right.sum() / max(1.0, float(counts.sum())))
        seen = wrong + right > 0
        return float((right[seen] / (wrong + right)[seen]).mean()) if seen.any() else 0.0


class Questions:
    """All criteria as one vector of sums; made from the release alone, so that nothing private shapes it.

    Args:
        criteria: what is asked.
        release: what synthetic rows are drawn from.
        seed: of the draw and of the classifiers.
    """

    def __init__(self, criteria: Criteria, release: Evaluated, *, seed: int = 0) -> None:
        self.schema = release.schema
        drawn = release.sample(SYNTHETIC_ROWS, seed=seed)
        rows = encode(drawn, self.schema)
        self._layout = None
        if isinstance(self.schema, TableSchema):
            assert isinstance(drawn, pd.DataFrame)
            self._layout = Layout.of(self.schema).by_mass(drawn)
        self.asked = tuple(_asked(one, self.schema, self._layout, rows, seed) for one in criteria.criteria)
        self.size = sum(one.size for one in self.asked)
        self.sensitivity = math.sqrt(len(self.asked))
        self.synthetic = self.sum(rows)

    def sum(self, rows: Encoded) -> Floats:
        """PRIVATE, if the rows are: one vector, in which each criterion's part has norm 1 at most for a row."""
        seen = Seen(rows, np.zeros((len(rows), 0), dtype=np.int64), np.zeros((len(rows), 0)))
        if self._layout is not None:
            frame = decode(rows.x, rows.labels, self.schema)
            assert isinstance(frame, pd.DataFrame)
            seen = Seen(rows, self._layout.codes(frame), self._layout.numbers(frame))
        return np.concatenate([one.sum(seen) / one.bound for one in self.asked])

    def judged(
        self, real: Floats, *, deviation: float | None = None, other: Floats | None = None
    ) -> tuple[Judged, ...]:
        """The verdict on every criterion.

        Args:
            real: the sums of real rows, exact or noisy.
            deviation: of the noise in every entry; None if there is none and the verdict is internal.
            other: the sums of other real rows, for what they reach in the place of synthetic ones.
        """
        chance, found, start = np.random.default_rng(0), [], 0
        for one in self.asked:
            part = slice(start, start + one.size)
            start += one.size
            sides = [one.bound * side[part] for side in (real, self.synthetic)]
            spread = None
            if deviation is not None:
                noise = chance.normal(0, one.bound * deviation, (SIMULATIONS, one.size))
                spread = float(np.std([one.value(sides[0] + again, sides[1]) for again in noise]))
            best = None
            if other is not None and one.better is Better.LOWER:
                best = one.value(sides[0], one.bound * other[part])
            found.append(_judged(one, one.value(*sides), spread, best))
        return tuple(found)


def judge_criteria(
    criteria: Criteria,
    release: Evaluated,
    test: Encoded,
    reference: Encoded | None = None,
    *,
    seed: int = 0,
) -> tuple[Judged, ...]:
    """Judge by the exact answers of real rows; internal."""
    asked = Questions(criteria, release, seed=seed)
    other = None if reference is None else asked.sum(reference)
    return asked.judged(asked.sum(test), other=other)


def _judged(one: Asked, value: float, spread: float | None, ceiling: float | None) -> Judged:
    """With noise, a criterion passes only if the whole 95 % interval of the value does."""
    low, high = (None, None) if spread is None else (max(0.0, value - 1.96 * spread), value + 1.96 * spread)
    if one.better is Better.LOWER:
        passed = (value if high is None else high) <= one.limit
    else:
        passed = (value if low is None else low) >= one.limit
    return Judged(
        one.criterion.name,
        one.criterion.kind,
        value,
        one.limit,
        one.better,
        passed,
        low,
        high,
        ceiling,
        internal=spread is None,
    )


def _asked(one: Criterion, schema: Schema, layout: Layout | None, drawn: Encoded, seed: int) -> Asked:
    match one:
        case Classifier():
            rows = labelled(drawn, schema)
            predictor = train(one.learner, rows.features, rows.labels, rows.classes, seed)
            return _Answers(one, schema, predictor, rows.classes)
        case _ if layout is None:
            raise EvaluationError(
                f"criterion {one.name!r}: a {one.kind} needs a table, and this release makes {schema.kind}."
            )
        case CrossTab():
            return _Cells(one, layout)
        case Means():
            return _GroupMeans(one, layout)
        case Regression():
            return _Products(one, layout)


def _place(layout: Layout, name: str, one: Criterion) -> int:
    if name not in layout.columns:
        known = ", ".join(layout.columns)
        raise EvaluationError(f"criterion {one.name!r}: there is no column {name!r}; there are {known}.")
    return layout.columns.index(name)


def _number(layout: Layout, name: str, one: Criterion) -> int:
    place = _place(layout, name, one)
    if name not in layout.numeric:
        raise EvaluationError(f"criterion {one.name!r}: {name!r} is not a number, so it has no mean.")
    return place


def _counts(places: npt.NDArray[np.integer[Any]], size: int) -> Floats:
    return np.bincount(places, minlength=size).astype(np.float64)


def _shares(counts: Floats) -> Floats:
    kept = np.maximum(counts, 0)
    return kept / max(1e-12, float(kept.sum()))
