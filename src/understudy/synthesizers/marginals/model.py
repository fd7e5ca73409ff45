"""The generator of tables: a mixture of products, each component with its own chances of every outcome of every column.

To draw a record, a component of its class is drawn, then an outcome of each column by the component's chances, and
within the outcome of a number a value from the published distribution. Within a component columns are independent, so
whatever is known about some columns tells about the others through the component alone (`Mixture.given`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from understudy.errors import NoSuchRecords, PlanError, ReleaseError
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.columns import Scale, table_columns
from understudy.synthesizers.marginals.count_tables import count_tables
from understudy.synthesizers.marginals.given import pieces_within, possible_outcomes
from understudy.synthesizers.marginals.mixture import Mixture
from understudy.synthesizers.marginals.published import PublishedCounts, misfit_of_counts
from understudy.synthesizers.marginals.tensors import DTYPES, columns_from, misfit_of_columns, tensors_of
from understudy.synthesizers.model import Model
from understudy.synthesizers.protocol import Drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from understudy.records.given import Allowed
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.columns import KnownColumn, TableColumn
    from understudy.synthesizers.marginals.given import Pieces
    from understudy.synthesizers.model import CountTable
    from understudy.synthesizers.protocol import Partial, Request

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["TableModel", "table_model", "weights_of"]

_COUNTS = {name: one.dtype for name, one in PublishedCounts().named().items()}
_DTYPES = {"shares": torch.float32, "chances": torch.float32, **DTYPES, **_COUNTS}
_MOST_PER_NUMBER = 2**17
"""Numbers that describe the outcomes of one column, at most."""
_BELOW_ONE = 1 - 2**-30
"""The greatest random number: with the number of a row added it must not round to the next row."""
_NEVER = 1e-9
"""A value of a column with a smaller probability is there only because no chance is ever exactly zero."""


def weights_of(mixture: Mixture, known: Sequence[KnownColumn]) -> dict[str, Tensor]:
    """What is released, as named tensors."""
    return {"shares": mixture.shares, "chances": mixture.chances, **tensors_of(known)}


class TableModel(Model):
    """Shares of components, chances of outcomes, and records drawn from them.

    Args:
        columns: those beside the label.
        classes: how many; 1 without a label.
    """

    shares: Tensor
    chances: Tensor
    widths: Tensor

    def __init__(self, columns: tuple[TableColumn, ...], classes: int) -> None:
        super().__init__()
        self.columns, self.classes = columns, classes
        self._pieces: dict[str, Pieces] = {}
        for name, dtype in _DTYPES.items():
            self.register_buffer(name, torch.zeros(0, dtype=dtype))

    @property
    def most_bytes(self) -> int:
        """A bound for reading a file: how many outcomes there are is known only from the file."""
        return 8 * (2**28 + _MOST_PER_NUMBER * len(self.columns))

    def misfit(self, weights: Mapping[str, Tensor]) -> str | None:
        """Why these are not weights of such a table, as the end of a sentence; None if they are."""
        problem = self._misfit_by_names(weights, _DTYPES)
        problem = problem or misfit_of_columns(self.columns, weights)
        problem = problem or misfit_of_counts(self.columns, self.classes, weights)
        if problem is not None:
            return problem
        shares, chances = weights["shares"], weights["chances"]
        if shares.dim() != 2 or len(shares) != self.classes or shares.shape[1] < 1:
            return f"shares has shape {tuple(shares.shape)}, but there are {self.classes} classes"
        if chances.shape != (*shares.shape, int(weights["widths"].sum())):
            return f"chances has shape {tuple(chances.shape)}, which does not fit shares and widths"
        if bool((shares < 0).any()) or bool((chances < 0).any()):
            return "shares and chances must not be negative"
        sums = torch.stack([one.sum(-1) for one in torch.split(chances, weights["widths"].tolist(), -1)], -1)
        if bool(((sums - 1).abs() > 1e-3).any()) or bool(((shares.sum(-1) - 1).abs() > 1e-3).any()):
            return "shares of a class and chances of a column must have the sum 1"
        return None

    def take(self, weights: Mapping[str, Tensor]) -> None:
        """Become the model with these weights."""
        for name in _DTYPES:
            setattr(self, name, weights[name])

    @cached_property
    def mixture(self) -> Mixture:
        """Components: their shares within each class, and their chances of the outcomes of each column."""
        return Mixture(tuple(self.widths.tolist()), self.shares, self.chances)

    @cached_property
    def known(self) -> tuple[KnownColumn, ...]:
        """The columns with their outcomes, in the order of `mixture.widths`."""
        return columns_from(self.columns, dict(self.named_buffers()))

    def counts(self, schema: Schema) -> Iterator[CountTable]:
        """Everything that was counted, as it was published."""
        assert isinstance(schema, TableSchema)
        return count_tables(PublishedCounts.of(dict(self.named_buffers())), self.known, schema)

    def draw(self, request: Request, source: torch.Generator) -> Drawn:
        """Records of the given classes."""
        labels = None if request.labels is None else request.labels.numpy()
        classes = np.zeros(request.rows, dtype=np.int64) if labels is None else labels
        uniform = torch.rand(request.rows, generator=source, dtype=torch.float64).numpy()
        component = _drawn(self._up_to_share, classes, uniform, self.shares.shape[1])
        outcomes = self.outcomes(classes * self.shares.shape[1] + component, source)
        return Drawn(torch.from_numpy(self.encoded(outcomes, source)), request.labels)

    def outcomes(self, components: Ints, source: torch.Generator) -> Ints:
        """An outcome of every column for each of these components, numbered through all classes."""
        found = np.empty((len(components), len(self.known)), dtype=np.int64)
        uniform = torch.rand(len(self.known), len(components), generator=source, dtype=torch.float64).numpy()
        for place, (column, up_to) in enumerate(zip(self.known, self._up_to_chance, strict=True)):
            found[:, place] = _drawn(up_to, components, uniform[place], column.width)
        return found

    def encoded(self, outcomes: Ints, source: torch.Generator) -> NDArray[np.float32]:
        """Records with these outcomes, each number drawn within its outcome."""
        rows, last = len(outcomes), self.columns[-1]
        made = np.zeros((rows, last.start + last.width), dtype=np.float32)
        for known, outcome in zip(self.known, outcomes.T, strict=True):
            column = known.column
            if column.scale is Scale.CATEGORY:
                made[np.arange(rows), column.start + outcome] = 1
                continue
            gone = np.zeros(rows, dtype=bool) if known.gone is None else outcome == known.gone
            shape = (3, rows if known.outcomes is not None else 0)
            uniform = torch.rand(shape, generator=source, dtype=torch.float64).numpy()
            pieces = self._pieces.get(column.name)
            draw = known.drawn if pieces is None else pieces.drawn
            cells = draw(np.where(gone, 0, outcome), uniform)
            made[:, column.start] = np.where(gone, 0, column.encoded(cells))
            if column.missing:
                made[:, column.start + 1] = gone
        return made

    def given(self, known: Mapping[str, Allowed], classes: Tensor) -> tuple[TableModel, Tensor]:
        """The same model with what is possible only, which is exact; and the probability of each class with it."""
        possible: dict[int, Tensor] = {}
        made = TableModel(self.columns, self.classes)
        for place, one in enumerate(self.known):
            if (allowed := known.get(one.column.name)) is None:
                continue
            pieces = pieces_within(one, allowed)
            if pieces is not None:
                made._pieces[one.column.name] = pieces
            possible[place] = torch.from_numpy(possible_outcomes(one, allowed, pieces))
            alone = self.mixture.given({place: possible[place]}, classes)[1]
            if not float(alone.sum()) > _NEVER * float(classes.sum()):
                raise NoSuchRecords(f"{allowed.text}: the generator makes no such records.")
        mixture, by_class = self.mixture.given(possible, classes)
        if not float(by_class.sum()) > 0:
            asked = ", ".join(allowed.text for allowed in known.values())
            raise NoSuchRecords(f"{asked}: the generator makes no records with all of it together.")
        made.take({**dict(self.named_buffers()), "shares": mixture.shares, "chances": mixture.chances})
        return made, by_class

    def distribution(self, column: str, classes: Tensor) -> tuple[Floats, Floats]:
        """Means and probabilities of the outcomes; that values are made round within them is left out."""
        place = next(i for i, one in enumerate(self.known) if one.column.name == column)
        known, first = self.known[place], sum(one.width for one in self.known[:place])
        grid = known.column.grid
        assert grid is not None
        joint = (self.shares * classes[:, None]).double()
        by_outcome = torch.einsum(
            "cz,czo->o", joint, self.chances[:, :, first : first + known.width].double()
        )
        probabilities: Floats = by_outcome.numpy()[: known.width - known.column.missing]
        if known.outcomes is None:
            return grid.values(np.arange(grid.size)), probabilities
        stretches, which = known.outcomes.stretches, known.outcomes.which
        last = stretches.starts + stretches.lengths - 1
        middle, held = (grid.values(stretches.starts) + grid.values(last)) / 2, known.outcomes.least_masses
        means = np.bincount(which, weights=held * middle) / np.bincount(which, weights=held)
        return means, probabilities

    def completed(self, partial: Partial, classes: Tensor, source: torch.Generator) -> Drawn:
        """A component for each record by how likely it makes what is known of it; the rest is the component's."""
        start = (self.shares * classes[:, None]).double().flatten().log().numpy()
        likely = np.repeat(start[None], len(partial.x), axis=0)
        each = self.shares.shape[1]
        if partial.labels is not None:
            other = np.arange(self.classes).repeat(each) != partial.labels[:, None]
            likely[other & (partial.labels >= 0)[:, None]] = -np.inf
        chances = torch.split(self.chances.flatten(0, 1).double().log(), self.widths.tolist(), dim=-1)
        for known, chance, filled in zip(self.known, chances, partial.filled.T, strict=True):
            likely[filled] += chance.numpy().T[known.outcome(partial.x[filled])]
        most = likely.max(axis=1, keepdims=True)
        if not np.isfinite(most).all():
            row = int(np.argmin(np.isfinite(most[:, 0]))) + 1
            raise ReleaseError(f"row {row}: the generator makes no records with these values together.")
        up_to = np.cumsum(np.exp(likely - most), axis=1)
        uniform = torch.rand(len(up_to), 1, generator=source, dtype=torch.float64).numpy()
        component = np.minimum((up_to <= uniform * up_to[:, -1:]).sum(axis=1), len(start) - 1)
        made = self.encoded(self.outcomes(component, source), source)
        for column, filled in zip(self.columns, partial.filled.T, strict=True):
            place = slice(column.start, column.start + column.width)
            made[filled, place] = partial.x[filled, place]
        labels = None if partial.labels is None else torch.from_numpy(component // each)
        return Drawn(torch.from_numpy(made), labels)

    @cached_property
    def _up_to_share(self) -> Floats:
        return _cumulative(self.shares)

    @cached_property
    def _up_to_chance(self) -> list[Floats]:
        pieces = torch.split(self.chances.flatten(0, 1), self.widths.tolist(), dim=-1)
        return [_cumulative(piece) for piece in pieces]


def _cumulative(chances: Tensor) -> Floats:
    """Cumulative chances of each row plus its number, in one increasing line, so that one search finds all."""
    found: Floats = np.cumsum(chances.double().numpy(), axis=-1)
    found = np.minimum(found / found[:, -1:], 1.0) + np.arange(len(found))[:, None]
    return found.ravel()


def _drawn(line: Floats, rows: Ints, uniform: Floats, width: int) -> Ints:
    """An outcome of each of these rows of `_cumulative`."""
    below_one = np.minimum(uniform, _BELOW_ONE)
    found: Ints = np.searchsorted(line, rows + below_one, side="right") - rows * width
    return np.clip(found, 0, width - 1)


def table_model(schema: Schema) -> TableModel:
    """The model of a table, without weights yet.

    Raises:
        PlanError: the schema does not describe a table.
    """
    if not isinstance(schema, TableSchema):
        raise PlanError(f"this recipe makes tables, not {schema.kind}.")
    return TableModel(table_columns(schema), max(1, len(schema.label_classes or ())))
