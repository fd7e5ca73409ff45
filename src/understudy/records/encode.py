"""Records to arrays and back: a pure function of the schema that learns nothing from the rows.

| column | width | values | activation of a generator's output |
|---|---|---|---|
| continuous, integer, ordinal, datetime | 1 | public bounds scaled to [-1, 1] | tanh |
| binary | 1 | -1 or 1 | tanh |
| categorical | number of categories | one-hot; one more slot when missing is allowed | softmax |
| any other column that allows missing | + 1 | 1 where missing (then the value is 0), else 0 | sigmoid |
| code | 1 | count / max_count, in [0, 1] | sigmoid |
| pixel | 1 | 0..255 scaled to [-1, 1], channels first | tanh |

The label is never part of `x`; it is the array `labels` of class indices.

Decoding inverts encoding: exactly for whole numbers, categories, levels, datetimes (at the unit of the
schema), codes and pixels; for a continuous column up to 2^-25 of the distance between its bounds, which is
what float32 holds, and exactly on the grid that `decimals` declares when that grid has at most 2^24 steps.
Whatever a generator writes, even NaN, decodes to a record that is valid in the schema.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from understudy.errors import DataError
from understudy.records.columns import as_number, as_position, from_number, from_position
from understudy.records.images import Images
from understudy.records.names import shown
from understudy.records.persons import person_numbers
from understudy.schema import (
    Categorical,
    CodeSchema,
    ImageSchema,
    Schema,
    TableSchema,
    UnknownCodes,
    refuse_open,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["Activation", "Encoded", "Span", "decode", "encode", "encoded_shape", "spans"]


class Activation(enum.Enum):
    """The range of a stretch of the encoded record, and so the last layer of a generator for it."""

    TANH = "tanh"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


@dataclass(frozen=True)
class Span:
    """A stretch of the flattened encoded record that one column fills."""

    start: int
    width: int
    activation: Activation
    name: str = ""

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.start + self.width

    @property
    def slice(self) -> slice:
        """The positions, for indexing the last axis."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, eq=False)
class Encoded:
    """PRIVATE arrays ready for training.

    Args:
        x: float32, (n, width) for tables and codes, (n, channels, height, width) for images.
        labels: int64 class indices, or None without a label.
        clipped: how many values lay outside their bounds. For the curator's eyes only.
        unknown: how many values were not in the schema and were mapped. For the curator's eyes only.
        persons: for each record the number of its person, or None where nothing tells persons apart.
    """

    x: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    clipped: int = 0
    unknown: int = 0
    persons: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Encoded(<private>, shape={self.x.shape[1:]})"


@runtime_checkable
class _HasContent(Protocol):
    @property
    def content(self) -> pd.DataFrame | Images: ...


def spans(schema: Schema) -> tuple[Span, ...]:
    """Return the stretches of the flattened encoded record, in order and without gaps."""
    if isinstance(schema, ImageSchema):
        return (Span(0, schema.channels * schema.height * schema.width, Activation.TANH, "pixels"),)
    if isinstance(schema, CodeSchema):
        return (Span(0, len(schema.codes), Activation.SIGMOID, "codes"),)
    found: list[Span] = []
    for column in schema.features:
        start = found[-1].stop if found else 0
        if isinstance(column, Categorical):
            width = len(column.categories) + column.missing
            found.append(Span(start, width, Activation.SOFTMAX, column.name))
            continue
        found.append(Span(start, 1, Activation.TANH, column.name))
        if column.missing:
            found.append(Span(start + 1, 1, Activation.SIGMOID, column.name))
    return tuple(found)


def encoded_shape(schema: Schema) -> tuple[int, ...]:
    """Return the shape of one encoded record."""
    if isinstance(schema, ImageSchema):
        return (schema.channels, schema.height, schema.width)
    return (spans(schema)[-1].stop,)


def encode(records: pd.DataFrame | Images | _HasContent, schema: Schema) -> Encoded:
    """Turn records into arrays.

    Args:
        records: a table (for codes with one column per code), images, or `Records` that hold either.
        schema: the public description, the only thing that decides how.

    Raises:
        DataError: if a record does not fit the schema; says the column and the row.
    """
    refuse_open(schema, "Take the schema of its release, or declare the facts.")
    content = records.content if isinstance(records, _HasContent) else records
    if isinstance(schema, ImageSchema):
        if not isinstance(content, Images):
            raise DataError(f"the schema describes images, but the records are a {type(content).__name__}")
        return _encode_images(content, schema)
    if not isinstance(content, pd.DataFrame):
        raise DataError(f"the schema describes a {schema.kind} but the records are {type(content).__name__}")
    if len(content) == 0:
        raise DataError("the table has no rows; there is nothing to encode")
    if not content.columns.is_unique:
        repeated = int(np.flatnonzero(content.columns.duplicated())[0])
        raise DataError(f"the name of column {repeated + 1} occurs more than once; rename or drop the others")
    return (
        _encode_codes(content, schema) if isinstance(schema, CodeSchema) else _encode_table(content, schema)
    )


def decode(x: NDArray[np.float32], labels: NDArray[np.int64] | None, schema: Schema) -> pd.DataFrame | Images:
    """Turn arrays, real or generated, into valid records: a DataFrame for tables and codes, else `Images`.

    Generated values are rounded to the nearest valid one; of a softmax stretch the greatest entry counts; a
    value is missing when its indicator exceeds one half.
    """
    x = np.asarray(x)
    if x.ndim < 2 or x.shape[1:] != encoded_shape(schema):
        raise DataError(
            f"arrays of shape {x.shape} do not fit the schema, which needs (n, *{encoded_shape(schema)})"
        )
    labels = _checked_labels(labels, len(x), schema.label_classes)
    if isinstance(schema, ImageSchema):
        pixels = np.empty(x.shape, dtype=np.uint8)
        _round_into(pixels, x, scale=127.5, shift=127.5, most=255)
        return Images(np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels)
    if isinstance(schema, CodeSchema):
        return _decode_codes(x, labels, schema)
    return _decode_table(np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=-1.0), labels, schema)


def _round_into(out: NDArray[Any], x: NDArray[np.float32], *, scale: float, shift: float, most: int) -> None:
    """Write `x * scale + shift`, rounded to 0..most and NaN as 0, in parts that fit in the cache."""
    for start in range(0, len(x), 256):
        part = np.multiply(x[start : start + 256], scale, dtype=np.float32)
        part += np.float32(shift + 0.5)
        np.fmax(part, 0, out=part)
        out[start : start + 256] = np.fmin(part, most, out=part)


# ---------------------------------------------------------------------------------------------- tables


def _encode_table(frame: pd.DataFrame, schema: TableSchema) -> Encoded:
    absent = [column.name for column in schema.columns if column.name not in frame.columns]
    if absent:
        raise DataError(
            f"column {absent[0]!r} of the schema is not in the data, which has "
            f"{shown([str(name) for name in frame.columns])}. Correct the header or the schema."
        )
    x = np.zeros((len(frame), *encoded_shape(schema)), dtype=np.float32)
    clipped = unknown = start = 0
    for column in schema.features:
        series = frame[column.name]
        if isinstance(column, Categorical):
            positions, mapped = as_position(series, column, schema.missing_text)
            slots = np.where(positions < 0, len(column.categories), positions)
            x[np.arange(len(frame)), start + slots] = 1
            unknown += mapped
            start += len(column.categories) + column.missing
            continue
        values, outside = as_number(series, column, schema.missing_text)
        gone = np.isnan(values)
        x[:, start] = np.where(gone, 0, values)
        clipped += outside
        if column.missing:
            x[:, start + 1] = gone
        start += 1 + column.missing
    labels = None
    if schema.label_column is not None:
        labels, mapped = as_position(
            frame[schema.label_column.name], schema.label_column, schema.missing_text
        )
        unknown += mapped
    persons = person_numbers(frame, schema.person_columns, ("", *schema.missing_text))
    return Encoded(x, labels, clipped, unknown, persons)


def _decode_table(
    x: NDArray[np.float32], labels: NDArray[np.int64] | None, schema: TableSchema
) -> pd.DataFrame:
    decoded: dict[str, pd.Series[Any]] = {}
    start = 0
    for column in schema.features:
        if isinstance(column, Categorical):
            width = len(column.categories) + column.missing
            positions = x[:, start : start + width].argmax(axis=1)
            decoded[column.name] = from_position(
                np.where(positions == len(column.categories), -1, positions), column
            )
            start += width
            continue
        gone = x[:, start + 1] > 0.5 if column.missing else np.zeros(len(x), dtype=bool)
        decoded[column.name] = from_number(x[:, start].astype(np.float64), gone, column)
        start += 1 + column.missing
    if schema.label_column is not None and labels is not None:
        decoded[schema.label_column.name] = from_position(labels, schema.label_column)
    return pd.DataFrame({column.name: decoded[column.name] for column in schema.columns})


# ----------------------------------------------------------------------------------------------- codes


def _encode_codes(frame: pd.DataFrame, schema: CodeSchema) -> Encoded:
    label = schema.label.name if schema.label else None
    if label is not None and label not in frame.columns:
        raise DataError(f"the label column {label!r} is not in the data; add it or drop it from the schema")
    known = set(schema.codes)
    if not known.intersection(frame.columns):
        raise DataError(
            "none of the schema's codes is a column of the data. If it has one row per person and code, name the two "
            "columns in the schema: a table [long] with the keys person and code.",
            f"the data has {shown(list(frame.columns), 6)}.",
        )
    modelled = known | {label, *schema.person_columns}
    foreign = [name for name in frame.columns if name not in modelled]
    if foreign and schema.unknown is UnknownCodes.REFUSE:
        raise DataError(
            f"column {list(frame.columns).index(foreign[0]) + 1} of the data is no code of the schema. "
            'Add it, or set unknown = "drop" in the schema.',
            f"{len(foreign)} columns are no codes of the schema, the first is {foreign[0]!r}.",
        )
    counted = frame.reindex(columns=list(schema.codes), fill_value=0)
    numeric = all(kind.kind in "iuf" for kind in counted.dtypes)
    nullable = numeric and any(isinstance(kind, pd.api.extensions.ExtensionDtype) for kind in counted.dtypes)
    counts = _counts(counted.to_numpy(np.float64, na_value=np.nan) if nullable else counted.to_numpy())
    clipped = int((counts > schema.max_count).sum()) if schema.max_count > 1 else 0
    levels = np.linspace(0, 1, schema.max_count + 1, dtype=np.float32)
    x = levels[np.minimum(counts, schema.max_count)]
    labels = None
    unknown = int((frame[foreign].to_numpy() != 0).sum()) if foreign else 0
    if schema.label is not None:
        labels, mapped = as_position(frame[schema.label.name], schema.label, ())
        unknown += mapped
    return Encoded(x, labels, clipped, unknown, person_numbers(frame, schema.person_columns))


def _counts(counts: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers that are not negative, or refuse."""
    if counts.dtype.kind in "bu":
        return counts.astype(np.uint8) if counts.dtype.kind == "b" else counts
    if counts.dtype.kind in "if" and np.isfinite(counts).all():
        whole = counts.astype(np.int64)
        if (whole == counts).all() and (whole >= 0).all():
            return whole
    raise DataError(
        "codes must be counted with whole numbers that are not negative; put 0 where one is absent"
    )


def _decode_codes(
    x: NDArray[np.float32], labels: NDArray[np.int64] | None, schema: CodeSchema
) -> pd.DataFrame:
    counts = np.empty(x.shape, dtype=np.uint8 if schema.max_count < 256 else np.uint16)
    _round_into(counts, x, scale=schema.max_count, shift=0, most=schema.max_count)
    frame = pd.DataFrame(counts, columns=list(schema.codes))
    if schema.label is not None and labels is not None:
        frame[schema.label.name] = from_position(labels, schema.label)
    return frame


# ---------------------------------------------------------------------------------------------- images


def _encode_images(images: Images, schema: ImageSchema) -> Encoded:
    if len(images) == 0:
        raise DataError("there are no images; there is nothing to encode")
    shape = (schema.height, schema.width, schema.channels)
    if images.pixels.shape[1:] != shape:
        raise DataError(
            f"images are {images.pixels.shape[1:]} (height, width, channels), but the schema says {shape}"
        )
    labels = _checked_labels(images.labels, len(images), schema.classes)
    levels = (np.arange(256) / 127.5 - 1).astype(np.float32)
    x = levels[np.ascontiguousarray(images.pixels.transpose(0, 3, 1, 2))]
    return Encoded(x, labels, persons=images.persons if schema.person_columns else None)


def _checked_labels(
    labels: NDArray[np.int64] | None, rows: int, classes: tuple[str, ...] | None
) -> NDArray[np.int64] | None:
    if classes is None:
        return None
    if labels is None:
        raise DataError(f"the schema has {len(classes)} classes, but the records come without labels")
    labels = np.asarray(labels)
    if labels.shape != (rows,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"labels must be as many whole numbers as there are records, got {labels.dtype}",
            f"{rows} records came with labels of shape {labels.shape}.",
        )
    outside = np.flatnonzero((labels < 0) | (labels >= len(classes)))
    if len(outside):
        raise DataError(
            f"row {outside[0] + 1}: the label is not an index of the {len(classes)} classes",
            f"row {outside[0] + 1}: the label is {labels[outside[0]]}.",
        )
    return labels.astype(np.int64)
