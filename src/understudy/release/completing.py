"""Partial rows in, whole rows out: each row keeps its filled cells, and the others are drawn given these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import pandas as pd

from understudy.errors import ReleaseError
from understudy.records.columns import Fault, examine, on_line
from understudy.records.encode import decode, encoded_shape
from understudy.records.given import MISSING
from understudy.records.images import Images
from understudy.records.rules import broken, keeping_rules
from understudy.records.written import moment_from, text_encoding
from understudy.release.release import release_of
from understudy.release.sampling import chance, class_weights
from understudy.release.weights import model_with
from understudy.schema import Binary, Categorical, Continuous, Datetime, FileFormat, Ordinal, TableSchema
from understudy.synthesizers.protocol import Partial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from understudy.records.columns import Examined
    from understudy.release.release import Release
    from understudy.schema import Column, Schema
    from understudy.synthesizers.model import Model

    Mask = NDArray[np.bool_]

__all__ = ["complete", "complete_chunks", "partial_rows"]

AT_ONCE = 1024
"""Rows that are completed at a time: each is compared with every component."""
_TRIES = 20
"""How often rows that break a rule are drawn again, the fewer the more often each, before they are mended."""


def complete(
    release: Release | str | Path, partial: pd.DataFrame, *, seed: int | None = None
) -> pd.DataFrame:
    """Whole rows for partial ones, all in memory.

    Args:
        release: the generator, or the path of its folder.
        partial: some or all columns of the table; what is empty, and columns that are not there, are drawn.
        seed: the same seed gives the same rows; None draws fresh ones.

    Raises:
        ReleaseError: the generator cannot, a cell does not fit the schema, or no row with such cells keeps the rules.
    """
    pieces = (partial.iloc[start : start + AT_ONCE] for start in range(0, len(partial), AT_ONCE))
    return pd.concat(list(complete_chunks(release, pieces, seed=seed)), ignore_index=True)


def complete_chunks(
    release: Release | str | Path, pieces: Iterable[pd.DataFrame], *, seed: int | None = None
) -> Iterator[pd.DataFrame]:
    """Whole rows for pieces of a partial table, piece by piece; arguments as for `complete`."""
    release = release_of(release)
    schema = release.schema
    if not isinstance(schema, TableSchema):
        raise ReleaseError(f"rows of a table can be completed, and this release makes {schema.kind}.")
    model = model_with(release.weights, release.card.plan.recipe, schema)
    source = chance(seed)
    before = 0
    for piece in pieces:
        made, wrong = _completed(model, class_weights(release), schema, _known(piece, schema, before), source)
        if wrong.any():
            raise ReleaseError(
                f"row {before + int(np.argmax(wrong)) + 1}: nothing was found that completes it and keeps the "
                f"rules: {'; '.join(map(str, schema.rules))}."
            )
        before += len(piece)
        yield made.reindex(columns=list(schema.order)) if schema.order else made


def partial_rows(path: Path | TextIO, schema: Schema) -> Iterator[pd.DataFrame]:
    """The rows of a text file written as the schema declares, with a header and every cell as text, in pieces."""
    file = schema.file if isinstance(schema, TableSchema) else FileFormat()
    columns = schema.columns if isinstance(schema, TableSchema) else ()
    commas = [column.name for column in columns if isinstance(column, Continuous) and file.decimal != "."]
    dates = [column.name for column in columns if isinstance(column, Datetime) and file.dates]
    try:
        with pd.read_csv(
            path,
            sep=file.separator or ",",
            quotechar=file.quote,
            comment=file.comment,
            encoding=text_encoding(schema),
            dtype=str,
            keep_default_na=False,
            chunksize=AT_ONCE,
        ) as pieces:
            for rows in pieces:
                for name in rows.columns.intersection(commas):
                    rows[name] = rows[name].str.replace(file.decimal, ".", regex=False)
                for name in rows.columns.intersection(dates):
                    rows[name] = rows[name].map(lambda text: moment_from(text, file.dates))
                yield rows
    except (OSError, ValueError) as problem:
        raise ReleaseError(f"{path} cannot be read as a table with a header: {problem}.") from problem


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of some rows.

    Args:
        partial: as models take it.
        filled: for each column, which rows it is known of.
        numbers: for each column of real numbers its values, which encoding keeps to single precision only.
    """

    partial: Partial
    filled: dict[str, Mask]
    numbers: dict[str, NDArray[np.float64]]

    def of(self, rows: NDArray[np.int64]) -> _Known:
        """The same of these rows."""
        labels = self.partial.labels
        return _Known(
            Partial(
                self.partial.x[rows], self.partial.filled[rows], None if labels is None else labels[rows]
            ),
            {name: filled[rows] for name, filled in self.filled.items()},
            {name: values[rows] for name, values in self.numbers.items()},
        )


def _completed(
    model: Model,
    weights: NDArray[np.float64],
    schema: TableSchema,
    known: _Known,
    source: np.random.Generator,
) -> tuple[pd.DataFrame, Mask]:
    """The rows, drawn again while they break a rule and mended in the end; and which of them still break one."""
    made = _drawn(model, weights, schema, known, source)
    for _ in range(_TRIES):
        wrong = _breaking(made, schema)
        if not wrong.any():
            return made, wrong
        times = max(1, AT_ONCE // int(wrong.sum()))
        each = np.flatnonzero(wrong).repeat(times)
        several = _drawn(model, weights, schema, known.of(each), source)
        best = _breaking(several, schema).reshape(-1, times).argmin(axis=1)
        made = _with_rows(made, wrong, several.iloc[np.arange(len(best)) * times + best])
    mended, _ = keeping_rules(made, schema, source)
    changed = np.zeros(len(made), dtype=bool)
    for name, filled in known.filled.items():
        same = (made[name] == mended[name]).fillna(value=False) | (made[name].isna() & mended[name].isna())
        changed |= filled & ~same.to_numpy(dtype=bool)
    made = _with_rows(made, ~changed, mended[~changed])
    return made, _breaking(made, schema)


def _known(piece: pd.DataFrame, schema: TableSchema, before: int) -> _Known:
    """Read the cells; what does not fit the schema is refused, with its row."""
    names = {*schema.order, *(column.name for column in schema.columns)}
    strange = [str(name) for name in piece.columns if name not in names]
    if strange:
        raise ReleaseError(f"there is no column {strange[0][:60]!r} in the schema of this release.")
    x = np.zeros((len(piece), *encoded_shape(schema)), dtype=np.float32)
    filled: dict[str, Mask] = {}
    numbers, labels, start = {}, None, 0
    for column in schema.columns:
        cells = piece[column.name] if column.name in piece.columns else pd.Series([None] * len(piece))
        cells = cells.reset_index(drop=True)
        found, gone = _examined(cells, column, schema, before)
        filled[column.name] = ~found.missing | gone
        if column.name == schema.label:
            labels = np.where(found.missing, -1, found.values).astype(np.int64)
            continue
        if isinstance(column, Categorical):
            slots = np.where(found.missing, len(column.categories), found.values).astype(np.int64)
            rows = np.flatnonzero(filled[column.name])
            x[rows, start + slots[rows]] = 1
            start += len(column.categories) + column.missing
            continue
        x[:, start] = np.nan_to_num(on_line(found.values, column))
        if column.missing:
            x[:, start + 1] = gone
        if isinstance(column, Continuous):
            numbers[column.name] = found.values
        start += 1 + column.missing
    features = np.stack([filled[column.name] for column in schema.features], axis=1)
    return _Known(Partial(x, features, labels), filled, numbers)


def _examined(cells: Any, column: Column, schema: TableSchema, before: int) -> tuple[Examined, Mask]:
    """What a column holds, and which cells say that the value is missing."""
    listed = column.values if isinstance(column, Binary | Ordinal | Categorical) else ()
    gone = np.zeros(len(cells), dtype=bool) if MISSING in listed else (cells == MISSING).to_numpy(dtype=bool)
    found = examine(cells.mask(gone), replace(column, missing=True), schema.missing_text)
    faults = list(found.faults)
    if found.changed.any():
        faults.append(Fault(np.flatnonzero(found.changed), "lies outside of what the schema allows."))
    if gone.any() and not column.missing:
        faults.append(Fault(np.flatnonzero(gone), "is never missing by the schema."))
    if faults:
        first = min(faults, key=lambda fault: int(fault.rows[0]))
        row = before + int(first.rows[0]) + 1
        raise ReleaseError(f"column {column.name!r}, row {row}: the value {first.why}")
    return found, gone


def _drawn(
    model: Model,
    weights: NDArray[np.float64],
    schema: TableSchema,
    known: _Known,
    source: np.random.Generator,
) -> pd.DataFrame:
    drawn = model.completed(known.partial, weights, source)
    made = decode(drawn.x, drawn.labels, schema)
    assert not isinstance(made, Images)
    for name, values in known.numbers.items():
        made[name] = made[name].where(np.isnan(values), pd.Series(values).astype(made[name].dtype))
    return made


def _breaking(made: pd.DataFrame, schema: TableSchema) -> Mask:
    """Which rows break a rule."""
    found = np.zeros(len(made), dtype=bool)
    for rule in schema.rules:
        found |= broken(made, rule)
    return found


def _with_rows(made: pd.DataFrame, where: Mask, new: pd.DataFrame) -> pd.DataFrame:
    """The same table with other rows in some places."""
    order = np.argsort(np.concatenate([np.flatnonzero(~where), np.flatnonzero(where)]))
    return pd.concat([made[~where], new], ignore_index=True).iloc[order].reset_index(drop=True)
