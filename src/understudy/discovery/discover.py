"""From private cells, through the door, to a complete schema."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.discovery.asking import purpose_of
from understudy.discovery.bins import EPOCH, bins_of
from understudy.discovery.bounds import found_range, with_bounds
from understudy.discovery.queries import BinCounts
from understudy.door.persons import Persons
from understudy.door.source import Rows
from understudy.records.columns import as_texts, examine
from understudy.schema import (
    LAST_YEAR,
    Categorical,
    Datetime,
    Schema,
    TableSchema,
    TimeUnit,
    open_columns,
    stand_in,
    unknown_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from understudy.door.door import Door
    from understudy.schema import Column

__all__ = ["Discovered", "discovered", "undescribed_rows"]

_MOST_CATEGORIES = 1000
"""Of a column; the rarer ones are unknown."""


@dataclass(frozen=True)
class Discovered:
    """What was found.

    Args:
        schema: the complete one.
        unseen: columns of which nothing rose above the noise; their facts are guesses.
    """

    schema: Schema
    unseen: tuple[str, ...] = ()


def undescribed_rows(frame: pd.DataFrame, schema: Schema, persons: NDArray[np.int64] | None = None) -> Rows:
    """PRIVATE: the cells about which something is to be discovered: a column of numbers for each column of the schema.

    Numbers are as they are, moments are days, texts are numbered in `words`, and NaN stands where cells are missing.

    Args:
        frame: all cells.
        schema: what is known about them.
        persons: for each row the number of its person, where the schema names persons.
    """
    assert isinstance(schema, TableSchema)
    columns = open_columns(schema)
    x, words = np.full((len(frame), len(columns)), np.nan), {}
    for place, column in enumerate(columns):
        series = frame[column.name]
        if isinstance(column, Categorical):
            x[:, place], words[place] = as_texts(series, column, schema.missing_text)
        else:
            x[:, place] = examine(series, _looked_at(column), schema.missing_text).values
    most = schema.max_rows_per_person
    if most is None:
        return Rows(x, words=words)
    assert persons is not None
    return Rows(x, None, Persons.of(persons, most, torch.from_numpy(_contents(x, words)), None), words)


def _contents(x: NDArray[np.float64], words: Mapping[int, tuple[str, ...]]) -> NDArray[np.float64]:
    """PRIVATE: the rows by what they hold, whatever other rows there are: of a text some digits of its hash."""
    held = x.copy()
    for place, texts in words.items():
        digits = [
            int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:3]) for text in texts
        ]
        table = np.array([*digits, np.nan])
        held[:, place] = table[np.where(np.isnan(x[:, place]), len(texts), x[:, place]).astype(np.int64)]
    return held


def _looked_at(column: Column) -> Column:
    """A complete column by which cells are read; moments as days since the epoch."""
    if isinstance(column, Datetime):
        return replace(column, lower=EPOCH, upper=dt.datetime(LAST_YEAR, 12, 31), unit=TimeUnit.DAY)
    return stand_in(column)


def discovered(door: Door, schema: Schema) -> Discovered:
    """The schema with all facts that were to be discovered, published by a door to `undescribed_rows`."""
    assert isinstance(schema, TableSchema)
    found: dict[str, Column] = {}
    unseen = []
    for place, column in enumerate(open_columns(schema)):
        seen = True
        if isinstance(column, Categorical):
            found[column.name] = _with_categories(column, door.select(purpose_of(column), place), schema)
            seen = len(found[column.name].categories) > 1  # type: ignore[union-attr]
        else:
            bins = bins_of(column)  # type: ignore[arg-type]
            counts = door.publish(purpose_of(column), BinCounts(place, bins))
            where = found_range([one.numpy() for one in counts.values], bins, counts.deviation)
            found[column.name], seen = with_bounds(column, where), where.seen  # type: ignore[arg-type]
        unseen += [] if seen else [column.name]
    columns = tuple(found.get(column.name, column) for column in schema.columns)
    return Discovered(replace(schema, columns=columns), tuple(unseen))


def _with_categories(column: Categorical, found: dict[str, float], schema: TableSchema) -> Categorical:
    """The column with the most frequent texts that can be written, in alphabetical order, and then the rest as one."""
    unknown, encoding = unknown_of(column), schema.file.encoding or "utf-8"
    listed = [
        text
        for text in found
        if text != unknown
        and text.encode(encoding, errors="replace").decode(encoding, errors="replace") == text
    ]
    kept = sorted(sorted(listed, key=lambda text: -found[text])[:_MOST_CATEGORIES])
    return replace(column, categories=(*kept, unknown), unknown=unknown)
