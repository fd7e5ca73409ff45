"""`check`: everything about a source that does not fit its schema, at once. PRIVATE: for the curator's eyes only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.data.contents import names_of
from understudy.data.read import read
from understudy.records.columns import examine
from understudy.records.encode import encode, encoded_shape
from understudy.records.line import from_line, to_line
from understudy.records.rules import broken
from understudy.schema import Categorical, Continuous, Datetime, Integer, TableSchema, open_columns, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from understudy.data.public.fetch import Progress
    from understudy.records.columns import Examined
    from understudy.schema import Column, Schema

__all__ = ["BrokenRule", "Checked", "CheckedColumn", "check"]


@dataclass(frozen=True)
class CheckedColumn:
    """PRIVATE: what one column holds that the schema does not foresee.

    Args:
        name: of the column.
        missing: how many cells are empty.
        outside: how many values would be clipped to the bounds.
        unknown: how many values would be mapped to the category for unknown ones.
        off_grid: how many values would be moved to the grid of `step` or `decimals`.
        refused: what `fit` refuses, with the cells.
    """

    name: str
    missing: int = 0
    outside: int = 0
    unknown: int = 0
    off_grid: int = 0
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        counted = (
            (self.missing, "missing"),
            (self.outside, "outside the bounds, would be clipped"),
            (self.unknown, "unknown, would be mapped"),
            (self.off_grid, "off the grid, would be rounded"),
        )
        parts = [f"{count} {what}" for count, what in counted if count]
        return f"{self.name}: " + "; ".join([*parts, *(f"REFUSED: {why}" for why in self.refused)])


@dataclass(frozen=True)
class BrokenRule:
    """PRIVATE: how many rows break a declared rule."""

    rule: str
    rows: int

    def __str__(self) -> str:
        return f"rule {self.rule}: broken by {self.rows} rows; no synthetic row will break it"


@dataclass(frozen=True)
class Checked:
    """PRIVATE: what a whole source holds that its schema does not foresee.

    Args:
        rows: how many records there are.
        shape: of one encoded record.
        columns: one entry per column of a table, in the order of the schema.
        ignored: columns of the source that the schema does not name.
        notes: what was taken from the header because nobody declared it.
        rules: how many rows break each declared rule, for those that some row breaks.
    """

    rows: int
    shape: tuple[int, ...]
    columns: tuple[CheckedColumn, ...]
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rules: tuple[BrokenRule, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether `fit` would accept it."""
        return not any(column.refused for column in self.columns)

    @property
    def clipped(self) -> int:
        """How many values lie outside their bounds."""
        return sum(column.outside for column in self.columns)

    @property
    def unknown(self) -> int:
        """How many values would be mapped to the category for unknown ones."""
        return sum(column.unknown for column in self.columns)


def check(source: Any, schema: Schema, *, on_progress: Progress | None = None) -> Checked:
    """Look at every cell.

    Args:
        source: whatever `read` takes.
        schema: what it should fit; facts that are to be discovered fit anything.
        on_progress: told how the download of a known set advances.

    Raises:
        DataError: the source cannot be read at all, or holds codes or images that do not fit.
    """
    if not isinstance(schema, TableSchema):
        records = read(source, schema, on_progress=on_progress)
        encoded = encode(records, schema)
        whole = CheckedColumn("all records", outside=encoded.clipped, unknown=encoded.unknown)
        return Checked(len(encoded), encoded_shape(schema), (whole,), notes=records.notes)
    names = names_of(source, schema.file)
    sought = {one.name for one in open_columns(schema) if isinstance(one, Categorical | Datetime)}
    schema = replace(schema, columns=tuple(stand_in(column) for column in schema.columns))
    present = tuple(column for column in schema.columns if names is None or column.name in names)
    part = replace(schema, columns=present, label=None, label_weights=None, rules=()) if present else schema
    absent = [name for name in schema.person_columns if names is not None and name not in names]
    records = read(source, part, on_progress=on_progress)
    found, held = [], {}
    for column in schema.columns:
        if column in present:
            examined = examine(records.frame[column.name], column, schema.missing_text)
            summary = _summary(column, examined)
            held[column.name] = _plain(column, examined)
            found.append(replace(summary, outside=0, unknown=0) if column.name in sought else summary)
        else:
            found.append(CheckedColumn(column.name, refused=("the source has no such column",)))
    known = {*schema.person_columns, *(column.name for column in schema.columns)}
    ignored = tuple(name for name in names or () if name not in known)
    missed = [
        f"there is no column {name!r} to tell persons apart: right for synthetic rows, and refused by fit"
        for name in absent
    ]
    notes = (*records.notes, *missed)
    rules = tuple(_broken_rules(schema, held))
    return Checked(len(records), encoded_shape(schema), tuple(found), ignored, notes, rules)


def _broken_rules(schema: TableSchema, held: Mapping[str, pd.Series[Any]]) -> Iterator[BrokenRule]:
    """The rules that some row breaks, of those whose columns are there."""
    for rule in schema.rules:
        if all(name in held for name in rule.columns):
            count = int(broken(pd.DataFrame({name: held[name] for name in rule.columns}), rule).sum())
            if count:
                yield BrokenRule(str(rule), count)


def _plain(column: Column, examined: Examined) -> pd.Series[Any]:
    """The values of a column as rules compare them: texts, numbers in their own unit, moments."""
    if isinstance(column, Continuous | Integer):
        return pd.Series(examined.values)
    gone = np.isnan(examined.values)
    kept = np.where(gone, 0, examined.values)
    if isinstance(column, Datetime):
        since = (kept * column.unit.seconds).astype("timedelta64[s]")
        return pd.Series(np.where(gone, np.datetime64("NaT", "s"), np.datetime64(column.lower, "s") + since))
    texts = np.array([*column.values, None], dtype=object)
    return pd.Series(texts[np.where(gone, len(column.values), kept).astype(np.int64)], dtype=object)


def _summary(column: Column, examined: Examined) -> CheckedColumn:
    changed = int(examined.changed.sum())
    numeric = isinstance(column, Continuous | Integer)
    refused = []
    for fault in examined.faults:
        cells = f" ({', '.join(map(repr, fault.cells))})" if fault.cells else ""
        rows = ", ".join(str(row + 1) for row in fault.rows[:5]) + (", ..." if len(fault.rows) > 5 else "")
        refused.append(f"in {len(fault.rows)} rows (row {rows}) the value{cells} {fault.why}")
    bounded = numeric or column.kind == "datetime"
    return CheckedColumn(
        column.name,
        int(examined.missing.sum()),
        changed if bounded else 0,
        0 if bounded or any(fault.cells for fault in examined.faults) else changed,
        _off_grid(column, examined) if isinstance(column, Continuous | Integer) else 0,
        tuple(refused),
    )


def _off_grid(column: Continuous | Integer, examined: Examined) -> int:
    if column.step is None and getattr(column, "decimals", None) is None:
        return 0
    values = examined.values[~np.isnan(examined.values) & ~examined.changed]
    tolerance = 1e-6 * max(abs(column.lower), abs(column.upper))
    return int((np.abs(from_line(to_line(values, column), column) - values) > tolerance).sum())
