"""A first schema for a file: from its header and types only, or from its values if they are declared public.

Without that declaration no bound, category or class name is taken from the rows. What the curator must supply
stands in the draft as a comment marked `FILL IN`, and a table's draft is not valid until it is supplied.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from understudy.data.pictures import folder_classes, is_idx
from understudy.data.read import read
from understudy.data.tables import CSV_SUFFIXES, header
from understudy.errors import DataError
from understudy.schema import (
    GRID_LIMIT,
    Binary,
    Categorical,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    TableSchema,
    TimeUnit,
    schema_to_toml,
)

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.schema import Column

__all__ = ["draft"]

_MOST_CATEGORIES = 200

_PREFACE = """\
# Draft of a schema for {name}, from its header and types only.
# Everything here will be published with the release. Supply what is marked FILL IN from public knowledge (a
# code book, physics, the law), never by looking at the private rows. Columns that you remove are ignored.
"""

_PUBLIC_PREFACE = """\
# Schema learned from the values of {name}, which the person who ran this declared to be public.
# Do not use it for private rows unless they may be described by the bounds and categories below.
"""


def draft(path: Path, *, from_public: bool = False) -> str:
    """Return the text of a first schema.

    Args:
        path: a table (.csv, .tsv, .parquet), a folder of images, or an image file (.npz, IDX).
        from_public: declare that the rows are public, so that bounds and categories may be taken from them.
    """
    name = path.name.lower()
    if name.endswith((*CSV_SUFFIXES, ".parquet")):
        return _public_table(path) if from_public else _private_table(path)
    if path.is_dir() or name.endswith(".npz") or is_idx(path):
        return _pictures(path, from_public)
    raise DataError(
        f"cannot draft a schema for {path}: give .csv, .tsv, .parquet, .npz, IDX or a folder of images"
    )


# -------------------------------------------------------------------------------------- header and types


def _private_table(path: Path) -> str:
    lines = [_PREFACE.format(name=path.name), 'kind = "table"']
    lines.append('# label = "..."  # FILL IN: the discrete column to condition on, or remove this line')
    for name, kind in header(path):
        lines += ["", "[[columns]]", *_column_lines(name, kind)]
    return "\n".join(lines) + "\n"


def _column_lines(name: str, kind: Any) -> list[str]:
    quoted = json.dumps(name, ensure_ascii=False)
    missing = "missing = false  # FILL IN: true if cells may be empty"
    if pa.types.is_boolean(kind):
        values = '# values = ["...", "..."]  # FILL IN: false and true as the file writes them'
        return ['kind = "binary"', f"name = {quoted}", values, missing]
    if pa.types.is_integer(kind):
        return ['kind = "integer"', f"name = {quoted}", *_bounds("value"), missing]
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        places = "# decimals = 1  # if you like: synthetic values are rounded to this many places"
        return ['kind = "continuous"', f"name = {quoted}", *_bounds("value"), places, missing]
    if pa.types.is_temporal(kind):
        unit = 'unit = "day"  # FILL IN: "day", "hour", "minute" or "second"'
        return ['kind = "datetime"', f"name = {quoted}", *_bounds("moment"), unit, missing]
    categories = (
        '# categories = ["...", "..."]  # FILL IN: every value that can occur (or choose another kind)'
    )
    return ['kind = "categorical"', f"name = {quoted}", categories, missing]


def _bounds(what: str) -> list[str]:
    return [f"# {side} =   # FILL IN: the {most} possible {what}" for side, most in _SIDES]


_SIDES = (("lower", "least"), ("upper", "greatest"))


# ------------------------------------------------------------------------------------------ public rows


def _public_table(path: Path) -> str:
    frame = read(path).frame
    columns: list[Column] = []
    left_out: list[str] = []
    for name in frame.columns:
        found = _learned(name, frame[name])
        if isinstance(found, str):
            left_out.append(f"# Column {name!r} is left out: {found}.\n")
        else:
            columns.append(found)
    if not columns:
        raise DataError(f"no column of {path} can be described; write the schema by hand")
    return (
        _PUBLIC_PREFACE.format(name=path.name)
        + "".join(left_out)
        + "\n"
        + schema_to_toml(TableSchema(tuple(columns)))
    )


def _learned(name: str, series: Any) -> Column | str:
    """Return the column that holds these values, or the reason why there is none."""
    missing = bool(series.isna().any())
    present = series.dropna()
    distinct = present.nunique()
    if distinct < 2:
        return f"it holds {'one value' if distinct else 'no value'} only"
    if present.dtype.kind == "b":
        return Binary(name, ("False", "True"), missing)
    if present.dtype.kind == "M" or isinstance(present.iloc[0], dt.date):
        return _learned_datetime(name, pd.to_datetime(present), missing)
    if pd.api.types.is_numeric_dtype(present):
        return _learned_number(name, present.to_numpy(dtype=np.float64), missing)
    return _learned_text(name, present, missing)


def _learned_text(name: str, present: Any, missing: bool) -> Column | str:
    values = tuple(sorted(present.astype(str).unique()))
    if len(values) > _MOST_CATEGORIES:
        return f"it holds {len(values)} different texts, more than {_MOST_CATEGORIES}"
    if [value.lower() for value in values] == ["false", "true"]:
        return Binary(name, (values[0], values[1]), missing)
    return Categorical(name, values, missing)


def _learned_number(name: str, values: Any, missing: bool) -> Column | str:
    values = values[np.isfinite(values)]
    lower, upper = float(values.min()), float(values.max())
    if set(np.unique(values)) == {0.0, 1.0}:
        return Binary(name, missing=missing)
    if (values == np.floor(values)).all() and upper - lower <= GRID_LIMIT:
        return Integer(name, int(lower), int(upper), missing)
    return Continuous(name, lower, upper, missing)


def _learned_datetime(name: str, values: Any, missing: bool) -> Column | str:
    lower, upper = values.min().to_pydatetime(), values.max().to_pydatetime()
    midnight = bool((values == values.dt.normalize()).all())
    units = (TimeUnit.DAY,) if midnight else (TimeUnit.SECOND, TimeUnit.MINUTE, TimeUnit.HOUR)
    span = (upper - lower).total_seconds()
    unit = next((unit for unit in units if span / unit.seconds <= GRID_LIMIT), TimeUnit.DAY)
    if span < unit.seconds:
        return "its moments lie too close together"
    return Datetime(name, lower, upper, unit, missing)


def _pictures(path: Path, from_public: bool) -> str:
    images = read(path).images
    height, width, channels = images.pixels.shape[1:]
    if from_public:
        classes = _public_classes(path, images.labels)
        schema = ImageSchema(height, width, channels, classes)
        return _PUBLIC_PREFACE.format(name=path.name) + "\n" + schema_to_toml(schema)
    lines = [_PREFACE.format(name=path.name), 'kind = "images"']
    lines += [f"height = {height}", f"width = {width}", f"channels = {channels}"]
    lines.append(
        '# classes = ["...", "..."]  # FILL IN: the names of the classes in the order of their labels'
    )
    return "\n".join(lines) + "\n"


def _public_classes(path: Path, labels: Any) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if path.is_dir():
        return folder_classes(path)
    return tuple(str(i) for i in range(int(labels.max()) + 1))
