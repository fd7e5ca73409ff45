"""The generator of tables: a mixture of products, each component with its own chances of every outcome of every column.

To draw a record, a component of its class is drawn, then an outcome of each column by the component's chances, and
within the outcome of a number a value from the published distribution. Within a component columns are independent, so
whatever is known about some columns tells about the others through the component alone (`given`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.errors import NoSuchRecords, PlanError, ReleaseError
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.arrays import DTYPES, columns_from, misfit_of_columns
from understudy.synthesizers.marginals.columns import Scale, table_columns
from understudy.synthesizers.marginals.count_tables import count_tables
from understudy.synthesizers.marginals.given import narrowed, pieces_within, possible_outcomes
from understudy.synthesizers.marginals.published import PublishedCounts, misfit_of_counts
from understudy.synthesizers.model import Model, misfit_by_names
from understudy.synthesizers.protocol import Drawn
from understudy.synthesizers.shared.drawing import cumulative, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from understudy.records.given import Allowed
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.columns import KnownColumn, TableColumn
    from understudy.synthesizers.marginals.given import Pieces
    from understudy.synthesizers.model import CountTable
    from understudy.synthesizers.protocol import Partial, Request

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["TableModel", "table_model"]

_COUNTS = {name: one.dtype.type for name, one in PublishedCounts().named().items()}
_DTYPES: dict[str, type[np.generic]] = {"shares": np.float32, "chances": np.float32, **DTYPES, **_COUNTS}
_MOST_PER_NUMBER = 2**17
"""Numbers that describe the outcomes of one column, at most."""
_NEVER = 1e-9
"""A value of a column with a smaller probability is there only because no chance is ever exactly zero."""


class TableModel(Model):
    """Shares of components, chances of outcomes, and records drawn from them.

    Args:
        columns: those beside the label.
        classes: how many; 1 without a label.
    """

    def __init__(self, columns: tuple[TableColumn, ...], classes: int) -> None:
        self.columns, self.classes = columns, classes
        self._pieces: dict[str, Pieces] = {}
        self._weights: Mapping[str, NDArray[Any]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Shares, chances, and what describes the outcomes."""
        return tuple(_DTYPES)

    @property
    def most_numbers(self) -> int:
        """Nothing is known before the file, and nothing allocated."""
        return 0

    @property
    def most_bytes(self) -> int:
        """A bound for reading a file: how many outcomes there are is known only from the file."""
        return 8 * (2**28 + _MOST_PER_NUMBER * len(self.columns))

    def misfit(self, weights: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these are not weights of such a table, as the end of a sentence; None if they are."""
        problem = misfit_by_names(weights, _DTYPES)
        problem = problem or misfit_of_columns(self.columns, weights)
        problem = problem or misfit_of_counts(self.columns, self.classes, weights)
        if problem is not None:
            return problem
        shares, chances = weights["shares"], weights["chances"]
        if shares.ndim != 2 or len(shares) != self.classes or shares.shape[1] < 1:
            return f"shares has shape {tuple(shares.shape)}, but there are {self.classes} classes"
        if chances.shape != (*shares.shape, int(weights["widths"].sum())):
            return f"chances has shape {tuple(chances.shape)}, which does not fit shares and widths"
        if bool((shares < 0).any()) or bool((chances < 0).any()):
            return "shares and chances must not be negative"
        sums = np.stack([one.sum(-1) for one in _split(chances, weights["widths"])], -1)
        if bool((np.abs(sums - 1) > 1e-3).any()) or bool((np.abs(shares.sum(-1) - 1) > 1e-3).any()):
            return "shares of a class and chances of a column must have the sum 1"
        return None

    def take(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Become the model with these weights."""
        self._weights = dict(weights)

    @property
    def shares(self) -> NDArray[np.floating[Any]]:
        """Of each component within its class, of shape (classes, components)."""
        return self._weights["shares"]

    @property
    def chances(self) -> NDArray[np.floating[Any]]:
        """Of the outcomes of all columns side by side, of shape (classes, components, outcomes)."""
        return self._weights["chances"]

    @property
    def widths(self) -> Ints:
        """How many outcomes each column has."""
        return self._weights["widths"]

    @cached_property
    def known(self) -> tuple[KnownColumn, ...]:
        """The columns with their outcomes, in the order of `widths`."""
        return columns_from(self.columns, self._weights)

    def counts(self, schema: Schema) -> Iterator[CountTable]:
        """Everything that was counted, as it was published."""
        assert isinstance(schema, TableSchema)
        return count_tables(PublishedCounts.of(self._weights), self.known, schema)

    def draw(self, request: Request, source: np.random.Generator) -> Drawn:
        """Records of the given classes."""
        labels = request.labels
        classes = np.zeros(request.rows, dtype=np.int64) if labels is None else labels
        component = drawn(self._up_to_share, classes, source.random(request.rows), self.shares.shape[1])
        outcomes = self.outcomes(classes * self.shares.shape[1] + component, source)
        return Drawn(self.encoded(outcomes, source), labels)

    def outcomes(self, components: Ints, source: np.random.Generator) -> Ints:
        """An outcome of every column for each of these components, numbered through all classes."""
        found = np.empty((len(components), len(self.known)), dtype=np.int64)
        uniform = source.random((len(self.known), len(components)))
        for place, (column, up_to) in enumerate(zip(self.known, self._up_to_chance, strict=True)):
            found[:, place] = drawn(up_to, components, uniform[place], column.width)
        return found

    def encoded(self, outcomes: Ints, source: np.random.Generator) -> NDArray[np.float32]:
        """Records with these outcomes, each number drawn within its outcome."""
        rows, last = len(outcomes), self.columns[-1]
        made = np.zeros((rows, last.start + last.width), dtype=np.float32)
        for known, outcome in zip(self.known, outcomes.T, strict=True):
            column = known.column
            if column.scale is Scale.CATEGORY:
                made[np.arange(rows), column.start + outcome] = 1
                continue
            gone = np.zeros(rows, dtype=bool) if known.gone is None else outcome == known.gone
            uniform = source.random((3, rows if known.outcomes is not None else 0))
            pieces = self._pieces.get(column.name)
            draw = known.drawn if pieces is None else pieces.drawn
            cells = draw(np.where(gone, 0, outcome), uniform)
            made[:, column.start] = np.where(gone, 0, column.encoded(cells))
            if column.missing:
                made[:, column.start + 1] = gone
        return made

    def given(self, known: Mapping[str, Allowed], classes: Floats) -> tuple[TableModel, Floats]:
        """The same model with what is possible only, which is exact; and the probability of each class with it."""
        possible: dict[int, Floats] = {}
        made = TableModel(self.columns, self.classes)
        for place, one in enumerate(self.known):
            if (allowed := known.get(one.column.name)) is None:
                continue
            pieces = pieces_within(one, allowed)
            if pieces is not None:
                made._pieces[one.column.name] = pieces
            possible[place] = possible_outcomes(one, allowed, pieces)
            alone = self._narrowed({place: possible[place]}, classes)[2]
            if not float(alone.sum()) > _NEVER * float(classes.sum()):
                raise NoSuchRecords(f"{allowed.text}: the generator makes no such records.")
        shares, chances, by_class = self._narrowed(possible, classes)
        if not float(by_class.sum()) > 0:
            asked = ", ".join(allowed.text for allowed in known.values())
            raise NoSuchRecords(f"{asked}: the generator makes no records with all of it together.")
        made.take({**self._weights, "shares": shares, "chances": chances})
        return made, by_class

    def _narrowed(self, possible: Mapping[int, Floats], classes: Floats) -> tuple[Floats, Floats, Floats]:
        shares, chances = self.shares.astype(np.float64), self.chances.astype(np.float64)
        return narrowed(self.widths.tolist(), shares, chances, possible, classes)

    def distribution(self, column: str, classes: Floats) -> tuple[Floats, Floats]:
        """Means and probabilities of the outcomes; that values are made round within them is left out."""
        place = next(i for i, one in enumerate(self.known) if one.column.name == column)
        known, first = self.known[place], sum(one.width for one in self.known[:place])
        grid = known.column.grid
        assert grid is not None
        joint = self.shares * classes[:, None]
        chances = self.chances[:, :, first : first + known.width].astype(np.float64)
        by_outcome: Floats = np.einsum("cz,czo->o", joint, chances)
        probabilities = by_outcome[: known.width - known.column.missing]
        if known.outcomes is None:
            return grid.values(np.arange(grid.size)), probabilities
        stretches, which = known.outcomes.stretches, known.outcomes.which
        last = stretches.starts + stretches.lengths - 1
        middle, held = (grid.values(stretches.starts) + grid.values(last)) / 2, known.outcomes.least_masses
        means = np.bincount(which, weights=held * middle) / np.bincount(which, weights=held)
        return means, probabilities

    def completed(self, partial: Partial, classes: Floats, source: np.random.Generator) -> Drawn:
        """A component for each record by how likely it makes what is known of it; the rest is the component's."""
        with np.errstate(divide="ignore"):  # what is impossible has the logarithm -inf
            start = np.log(self.shares * classes[:, None]).ravel()
            logarithms = np.log(self._flat.astype(np.float64))
        likely = np.repeat(start[None], len(partial.x), axis=0)
        each = self.shares.shape[1]
        if partial.labels is not None:
            other = np.arange(self.classes).repeat(each) != partial.labels[:, None]
            likely[other & (partial.labels >= 0)[:, None]] = -np.inf
        chances = _split(logarithms, self.widths)
        for known, chance, filled in zip(self.known, chances, partial.filled.T, strict=True):
            likely[filled] += chance.T[known.outcome(partial.x[filled])]
        most = likely.max(axis=1, keepdims=True)
        if not np.isfinite(most).all():
            row = int(np.argmin(np.isfinite(most[:, 0]))) + 1
            raise ReleaseError(f"row {row}: the generator makes no records with these values together.")
        up_to = np.cumsum(np.exp(likely - most), axis=1)
        uniform = source.random((len(up_to), 1))
        component = np.minimum((up_to <= uniform * up_to[:, -1:]).sum(axis=1), len(start) - 1)
        made = self.encoded(self.outcomes(component, source), source)
        for column, filled in zip(self.columns, partial.filled.T, strict=True):
            place = slice(column.start, column.start + column.width)
            made[filled, place] = partial.x[filled, place]
        return Drawn(made, None if partial.labels is None else component // each)

    @property
    def _flat(self) -> NDArray[np.floating[Any]]:
        """The chances of the components of all classes, one below the other."""
        return self.chances.reshape(-1, self.chances.shape[-1])

    @cached_property
    def _up_to_share(self) -> Floats:
        return cumulative(self.shares)

    @cached_property
    def _up_to_chance(self) -> list[Floats]:
        return [cumulative(piece) for piece in _split(self._flat, self.widths)]


def _split(chances: NDArray[Any], widths: Ints) -> list[NDArray[Any]]:
    """The chances of each column."""
    return np.split(chances, np.cumsum(widths)[:-1], axis=-1)


def table_model(schema: Schema) -> TableModel:
    """The model of a table, without weights yet.

    Raises:
        PlanError: the schema does not describe a table.
    """
    if not isinstance(schema, TableSchema):
        raise PlanError(f"this recipe makes tables, not {schema.kind}.")
    return TableModel(table_columns(schema), max(1, len(schema.label_classes or ())))
