from __future__ import annotations

import datetime as dt
import traceback
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import DataError
from understudy.records.encode import Activation, Encoded, Span, decode, encode, encoded_shape, spans
from understudy.records.images import Images
from understudy.schema import (
    GRID_LIMIT,
    Binary,
    Categorical,
    CodeSchema,
    Column,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    Ordinal,
    Schema,
    TableSchema,
    TimeUnit,
    UnknownCodes,
)

# ------------------------------------------------------------------------------------------ strategies

_WORDS = st.text("abcdefg -7é", min_size=1, max_size=5).filter(lambda t: t not in ("nan", "NaN"))
_BOUNDS = st.floats(-1e9, 1e9).map(lambda v: round(v, 3))


@st.composite
def _columns(draw: st.DrawFn, name: str) -> Column:
    missing = draw(st.booleans())
    words = tuple(draw(st.lists(_WORDS, min_size=2, max_size=6, unique=True)))
    kind = draw(st.sampled_from(["continuous", "integer", "categorical", "binary", "ordinal", "datetime"]))
    if kind == "continuous":
        lower = draw(_BOUNDS)
        return Continuous(name, lower, lower + draw(st.floats(0.01, 1e9)), missing)
    if kind == "integer":
        lower = draw(st.integers(-(2**40), 2**40))
        return Integer(name, lower, lower + draw(st.integers(1, GRID_LIMIT)), missing)
    if kind == "categorical":
        return Categorical(name, words, missing)
    if kind == "binary":
        return Binary(name, (words[0], words[1]), missing)
    if kind == "ordinal":
        return Ordinal(name, words, missing)
    unit = draw(st.sampled_from(TimeUnit))
    lower_date = draw(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(5000, 1, 1))).replace(microsecond=0)
    steps = draw(st.integers(1, min(GRID_LIMIT, 10**11 // unit.seconds)))
    return Datetime(name, lower_date, lower_date + dt.timedelta(seconds=steps * unit.seconds), unit, missing)


def _values(column: Column) -> st.SearchStrategy[Any]:
    present: st.SearchStrategy[Any]
    if isinstance(column, Continuous):
        present = st.floats(column.lower, column.upper)
    elif isinstance(column, Integer):
        present = st.integers(column.lower, column.upper)
    elif isinstance(column, Datetime):
        start, seconds = column.lower, column.unit.seconds
        present = st.integers(0, column.steps).map(lambda i: start + dt.timedelta(seconds=i * seconds))
    else:
        present = st.sampled_from(column.values)
    return st.none() | present if column.missing else present


@st.composite
def _tables(draw: st.DrawFn) -> tuple[TableSchema, dict[str, list[Any]]]:
    columns = [draw(_columns(f"c{i}")) for i in range(draw(st.integers(1, 5)))]
    label = None
    if draw(st.booleans()):
        label = "label"
        columns.insert(draw(st.integers(0, len(columns))), Categorical(label, ("x", "y", "z")))
    rows = draw(st.integers(1, 8))
    values = {c.name: draw(st.lists(_values(c), min_size=rows, max_size=rows)) for c in columns}
    return TableSchema(tuple(columns), label), values


def _check_valid(frame: pd.DataFrame, schema: TableSchema) -> None:
    """An oracle for validity that is written without the encoder."""
    assert list(frame.columns) == [column.name for column in schema.columns]
    for column in schema.columns:
        values = frame[column.name].tolist()
        present = [value for value in values if not pd.isna(value)]
        assert column.missing or len(present) == len(values)
        if isinstance(column, Continuous | Integer | Datetime):
            assert all(column.lower <= value <= column.upper for value in present)
        else:
            assert set(present) <= set(column.values)
        if isinstance(column, Integer):
            assert all(isinstance(value, int) for value in present)


# ------------------------------------------------------------------------------------------ round trips


@settings(max_examples=150, deadline=None)
@given(_tables())
def test_tables_round_trip(drawn: tuple[TableSchema, dict[str, list[Any]]]) -> None:
    """decode(encode(v)) is v: exactly for all but continuous values, which keep float32 precision."""
    schema, values = drawn
    encoded = encode(pd.DataFrame(values, dtype=object), schema)
    assert (encoded.clipped, encoded.unknown) == (0, 0)
    assert encoded.x.dtype == np.float32
    assert encoded.x.shape == (len(encoded), *encoded_shape(schema))
    assert np.abs(encoded.x).max() <= 1
    decoded = decode(encoded.x, encoded.labels, schema)
    assert isinstance(decoded, pd.DataFrame)
    _check_valid(decoded, schema)
    for column in schema.columns:
        for before, after in zip(values[column.name], decoded[column.name].tolist(), strict=True):
            if before is None:
                assert pd.isna(after)
            elif isinstance(column, Continuous):
                assert abs(before - after) <= (column.upper - column.lower) * 2**-25 + abs(before) * 2**-50
            else:
                assert before == after


@settings(max_examples=100, deadline=None)
@given(_tables(), st.integers(0, 2**32 - 1))
def test_any_output_of_a_generator_decodes_to_valid_records(
    drawn: tuple[TableSchema, dict[str, list[Any]]], seed: int
) -> None:
    """Whatever the array holds, also NaN and infinities, the decoded record is valid and a fixed point."""
    schema, _ = drawn
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, (16, *encoded_shape(schema))).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.05] = np.inf
    labels = rng.integers(0, 3, 16) if schema.label else None
    decoded = decode(x, labels, schema)
    assert isinstance(decoded, pd.DataFrame)
    _check_valid(decoded, schema)
    again = encode(decoded, schema)
    assert again.clipped == 0
    twice = decode(again.x, again.labels, schema)
    assert isinstance(twice, pd.DataFrame)
    for column in schema.columns:
        if not isinstance(column, Continuous):
            pd.testing.assert_series_equal(twice[column.name], decoded[column.name])


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 7), st.integers(-1000, 1000), st.data())
def test_declared_decimals_come_back_exactly(decimals: int, lower: int, data: st.DataObject) -> None:
    """A continuous column with a grid of at most 2^24 steps gives back the very decimal number."""
    steps = data.draw(st.integers(1, GRID_LIMIT))
    column = Continuous("a", float(lower), round(lower + steps / 10**decimals, decimals), decimals=decimals)
    value = round(lower + data.draw(st.integers(0, steps)) / 10**decimals, decimals)
    schema = TableSchema((column,))
    decoded = decode(encode(pd.DataFrame({"a": [value]}), schema).x, None, schema)
    assert isinstance(decoded, pd.DataFrame)
    assert decoded["a"].tolist() == [value]


def test_every_integer_of_the_widest_column_is_told_apart() -> None:
    """At the limit of 2^24 neighbours survive; float32 would merge them beyond 2^25."""
    schema = TableSchema((Integer("a", -5, GRID_LIMIT - 5),))
    rng = np.random.default_rng(0)
    values = np.unique(
        np.concatenate(
            [np.arange(-5, 2000), GRID_LIMIT - 5 - np.arange(2000), rng.integers(0, GRID_LIMIT - 5, 10**5)]
        )
    )
    decoded = decode(encode(pd.DataFrame({"a": values}), schema).x, None, schema)
    assert isinstance(decoded, pd.DataFrame)
    assert (decoded["a"].to_numpy() == values).all()
    too_fine = np.float32(2 * np.arange(2**26 - 2000, 2**26) / 2**26 - 1)
    assert len(np.unique(too_fine)) < 2000


def test_all_pixels_round_trip_in_both_channel_counts() -> None:
    """All 256 values of a pixel survive, in the right place, for grey and for colour."""
    rng = np.random.default_rng(0)
    for channels in (1, 3):
        schema = ImageSchema(16, 8, channels, ("a", "b"))
        pixels = np.resize(np.arange(256, dtype=np.uint8), (6, 16, 8, channels))
        pixels = rng.permutation(pixels)
        labels = np.array([0, 1, 1, 0, 1, 0])
        encoded = encode(Images(pixels, labels), schema)
        assert encoded.x.shape == (6, channels, 16, 8)
        assert encoded.x.dtype == np.float32
        assert (encoded.x.min(), encoded.x.max()) == (-1, 1)
        assert encoded.x[2, channels - 1, 5, 3] == np.float32(pixels[2, 5, 3, channels - 1] / 127.5 - 1)
        decoded = decode(encoded.x, encoded.labels, schema)
        assert isinstance(decoded, Images)
        assert (decoded.pixels == pixels).all()
        assert decoded.labels is not None
        assert (decoded.labels == labels).all()
    wild = decode(np.full((1, 3, 16, 8), np.nan, np.float32), np.array([0]), schema)
    assert isinstance(wild, Images)
    assert wild.pixels.shape == (1, 16, 8, 3)


@pytest.mark.parametrize("max_count", [1, 7, 65_535])
def test_codes_round_trip(max_count: int) -> None:
    """Counts of codes and their label survive; more than the most that is counted is clipped and counted."""
    schema = CodeSchema(("250", "401", "V10"), max_count=max_count, label=Binary("dead", ("no", "yes")))
    counts = np.random.default_rng(0).integers(0, max_count + 1, (50, 3))
    frame = pd.DataFrame(counts, columns=["250", "401", "V10"]).assign(dead=["no", "yes"] * 25)
    encoded = encode(frame, schema)
    decoded = decode(encoded.x, encoded.labels, schema)
    assert isinstance(decoded, pd.DataFrame)
    pd.testing.assert_frame_equal(decoded, frame, check_dtype=False)
    frame.loc[0, "401"] = max_count + 3
    assert encode(frame, schema).x[0, 1] == 1
    assert encode(frame, schema).clipped == (0 if max_count == 1 else 1)


# ------------------------------------------------------------------------------------------- the layout

TABLE = TableSchema(
    (
        Continuous("w", 0.0, 10.0, missing=True),
        Categorical("t", ("a", "b", "o"), unknown="o"),
        Categorical("m", ("a", "b"), missing=True),
        Binary("s", ("no", "yes")),
        Ordinal("g", ("low", "mid", "high")),
        Datetime("d", dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 11)),
        Integer("y", 0, 1),
    ),
)
ROW: dict[str, list[Any]] = {
    "w": [2.5], "t": ["b"], "m": ["a"], "s": ["yes"], "g": ["mid"], "d": ["2000-01-06"], "y": [1],
}  # fmt: skip


def test_spans_describe_the_encoded_record() -> None:
    """Spans follow the columns without gaps and say which activation produces their range."""
    tanh, sigmoid, softmax = Activation.TANH, Activation.SIGMOID, Activation.SOFTMAX
    assert spans(TABLE) == (
        Span(0, 1, tanh, "w"),
        Span(1, 1, sigmoid, "w"),
        Span(2, 3, softmax, "t"),
        Span(5, 3, softmax, "m"),
        Span(8, 1, tanh, "s"),
        Span(9, 1, tanh, "g"),
        Span(10, 1, tanh, "d"),
        Span(11, 1, tanh, "y"),
    )
    assert encoded_shape(TABLE) == (12,)
    assert spans(ImageSchema(4, 5, 3)) == (Span(0, 60, tanh, "pixels"),)
    assert encoded_shape(ImageSchema(4, 5, 3)) == (3, 4, 5)
    assert spans(CodeSchema(("a", "b"))) == (Span(0, 2, sigmoid, "codes"),)


def test_the_layout_by_hand() -> None:
    """One record, encoded by hand, with a missing number and a missing category in the second row."""
    frame = pd.DataFrame({key: value * 2 for key, value in ROW.items()}, dtype=object)
    frame.loc[1, ["w", "m"]] = None
    x = encode(frame, TABLE).x
    assert x[0].tolist() == [-0.5, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1]
    assert x[1].tolist() == [0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1]


def test_the_label_is_not_in_x() -> None:
    """The label goes to `labels` as an index, not into the record, and returns to its place in the table."""
    schema = TableSchema((Categorical("l", ("u", "v")), Integer("a", 0, 2)), label="l")
    encoded = encode(pd.DataFrame({"a": [0, 1, 2], "l": ["v", "u", "v"]}), schema)
    assert encoded.x.tolist() == [[-1], [0], [1]]
    assert encoded.labels is not None
    assert encoded.labels.tolist() == [1, 0, 1]
    assert encoded.labels.dtype == np.int64
    decoded = decode(encoded.x, encoded.labels, schema)
    assert isinstance(decoded, pd.DataFrame)
    assert decoded.to_dict("list") == {"l": ["v", "u", "v"], "a": [0, 1, 2]}


def test_encoding_one_record_does_not_depend_on_the_others() -> None:
    """Each row encodes alone to what it encodes to among others: nothing is learned from the data."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({
        "w": rng.uniform(-5, 15, 40), "t": rng.choice(["a", "b", "zz"], 40),
        "m": np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, 40)],
        "s": rng.choice(["no", "yes"], 40), "g": rng.choice(["low", "high"], 40), "d": ["2000-01-03"] * 40,
        "y": rng.integers(0, 2, 40),
    })  # fmt: skip
    together = encode(frame, TABLE)
    alone = [encode(frame.iloc[[i]], TABLE) for i in range(40)]
    assert (np.concatenate([one.x for one in alone]) == together.x).all()
    assert sum(one.clipped for one in alone) == together.clipped > 0
    assert sum(one.unknown for one in alone) == together.unknown > 0


def test_out_of_bounds_is_clipped_and_unknown_is_mapped_and_both_are_counted() -> None:
    """The curator learns how many values the schema changed; infinities are clipped as well."""
    schema = TableSchema(
        (
            Continuous("w", 0.0, 10.0),
            Integer("i", 0, 5),
            Datetime("d", dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 11)),
            Categorical("t", ("a", "o"), unknown="o"),
        )
    )
    frame = pd.DataFrame(
        {
            "w": [-1, 5, np.inf],
            "i": [9, 0, -1],
            "d": ["1999-12-31", "9999-12-31", "2000-01-01"],
            "t": ["x", "a", "y"],
        }
    )
    encoded = encode(frame, schema)
    assert (encoded.clipped, encoded.unknown) == (6, 2)
    assert encoded.x.tolist() == [[-1, 1, -1, 0, 1], [0, -1, 1, 1, 0], [1, -1, -1, 0, 1]]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([0, 1, 1]),
        pd.Series([0.0, 1.0, 1.0]),
        pd.Series([False, True, True]),
        pd.Series(["0", "1", "1"]),
        pd.Series(["0", "1", "1"], dtype="category"),
        pd.Series([0, 1, 1], dtype="Int64"),
        pd.Series(["0", "1", "1"], dtype="string"),
        pd.Series([0, 1, 1], dtype="int8[pyarrow]"),
    ],
    ids=lambda series: str(series.dtype),
)
def test_the_type_of_a_pandas_column_does_not_matter(series: pd.Series[Any]) -> None:
    """The same values in any type that pandas offers encode to the same array, as category and as number."""
    schema = TableSchema(
        (Binary("b"), Categorical("c", ("1", "0")), Integer("i", 0, 1), Continuous("f", 0.0, 1.0))
    )
    text = series.astype("int8").astype(str) if series.dtype.kind == "b" else series
    x = encode(pd.DataFrame({"b": series, "c": text, "i": series, "f": series}), schema).x
    assert x.tolist() == [[-1, 0, 1, -1, -1], [1, 1, 0, 1, 1], [1, 1, 0, 1, 1]]


def test_datetimes_of_all_kinds() -> None:
    """Text, dates, datetimes and pandas times with and without zone mean the same moment, cut to the unit."""
    schema = TableSchema((Datetime("d", dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 3), TimeUnit.HOUR),))
    wanted = encode(pd.DataFrame({"d": ["2000-01-02T05:00:00"]}), schema).x
    for value in (
        dt.datetime(2000, 1, 2, 5, 59, 59, 999),
        pd.Timestamp("2000-01-02 05:10"),
        pd.Timestamp("2000-01-02 07:10", tz="Europe/Berlin") - pd.Timedelta(hours=1),
        "2000-01-02 07:00:00+02:00",
        np.datetime64("2000-01-02T05"),
    ):
        assert (encode(pd.DataFrame({"d": [value]}), schema).x == wanted).all(), value
    assert encode(pd.DataFrame({"d": [dt.date(2000, 1, 2)]}), schema).x.tolist() == [[0]]


# -------------------------------------------------------------------------------------------- bad input


def _row(**changes: object) -> pd.DataFrame:
    return pd.DataFrame({**ROW, **{key: [value] for key, value in changes.items()}}, dtype=object)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (_row().drop(columns="g"), "column 'g' of the schema is not in the data"),
        (_row().iloc[:0], "no rows"),
        (pd.concat([_row(), _row()[["w"]]], axis=1), "the name of column 8 occurs more than once"),
        (_row(s=None), r"column 's', row 1: the value is missing, but.*missing = true"),
        (_row(d=None), "column 'd', row 1: the value is missing"),
        (_row(y=float("nan")), "column 'y', row 1: the value is missing"),
        (_row(s=""), "column 's', row 1: the value is missing"),
        (_row(s="maybe"), "column 's', row 1: the value is not in the schema, which has 'no', 'yes'"),
        (_row(m="c"), r"column 'm', row 1: the value is not in the schema.*unknown = \.\.\."),
        (_row(w="heavy"), "column 'w', row 1: the value is not a number"),
        (_row(w="1,5"), "column 'w', row 1: the value is not a number"),
        (_row(y=0.5), "column 'y', row 1: the value is not a whole number"),
        (_row(d="06.01.2000"), "column 'd', row 1: the value is not a date"),
        (_row(d=3), "column 'd', row 1: the value is not a date"),
        (Images(np.zeros((1, 2, 2, 1), np.uint8)), "records are Images"),
    ],
)
def test_bad_tables_are_refused(frame: pd.DataFrame | Images, message: str) -> None:
    """Each wrong cell gives a DataError with the column, the row and what to do."""
    with pytest.raises(DataError, match=message):
        encode(frame, TABLE)


def test_messages_hold_no_cell_and_no_count() -> None:
    """Tables that differ only in the wrong cell and in how many there are get one message; the detail shows them."""
    frames = [pd.concat([_row(s=text)] * count) for text, count in (("maybe", 1), ("sometimes", 3))]
    frames = [pd.concat([_row(), frame], ignore_index=True) for frame in frames]
    caught = []
    for frame in frames:
        with pytest.raises(DataError) as problem:
            encode(frame, TABLE)
        caught.append(problem.value)
    assert str(caught[0]) == str(caught[1])
    assert "maybe" not in "".join(traceback.format_exception(caught[0]))
    assert caught[1].private_detail is not None
    assert "There are 3 such rows: 'sometimes'" in caught[1].private_detail


def test_bad_images_and_arrays_are_refused() -> None:
    """Wrong shapes, missing labels and labels out of range are refused on the way in and on the way out."""
    schema = ImageSchema(2, 2, 1, ("a", "b"))
    pixels = np.zeros((3, 2, 2, 1), np.uint8)
    for images, message in (
        (
            Images(np.zeros((3, 2, 3, 1), np.uint8), np.zeros(3, np.int64)),
            r"\(2, 3, 1\).*schema says \(2, 2, 1\)",
        ),
        (Images(pixels), "without labels"),
        (Images(pixels, np.array([0, 2, 1])), "row 2: the label is not an index"),
        (Images(pixels[:0], np.zeros(0, np.int64)), "no images"),
    ):
        with pytest.raises(DataError, match=message):
            encode(images, schema)
    with pytest.raises(DataError, match="the schema describes images"):
        encode(_row(), schema)
    for x, labels, message in (
        (np.zeros((3, 2, 2), np.float32), np.zeros(3, np.int64), "do not fit the schema"),
        (np.zeros((3, 1, 2, 2), np.float32), np.array([0, 1]), "as many whole numbers as there are records"),
        (np.zeros((3, 1, 2, 2), np.float32), np.array([0, 1, -1]), "row 3: the label is not"),
        (np.zeros((3, 1, 2, 2), np.float32), None, "without labels"),
    ):
        with pytest.raises(DataError, match=message):
            decode(x, labels, schema)
    with pytest.raises(DataError, match="pixels must be uint8"):
        Images(np.zeros((3, 2, 2), np.uint8))
    with pytest.raises(DataError, match="3 images need as many labels"):
        Images(pixels, np.zeros(2, np.int64))


def test_bad_codes_are_refused_or_dropped() -> None:
    """Codes not listed are refused, or dropped and counted; counts must be whole and not negative."""
    frame = pd.DataFrame({"250": [1, 0], "999": [2, 0]})
    with pytest.raises(DataError, match="column 2 of the data is no code"):
        encode(frame, CodeSchema(("250", "401")))
    dropped = encode(frame, CodeSchema(("250", "401"), unknown=UnknownCodes.DROP))
    assert dropped.x.tolist() == [[1, 0], [0, 0]]
    assert dropped.unknown == 1
    for wrong in (-1, 0.5, float("nan"), "x"):
        with pytest.raises(DataError, match="codes must be counted"):
            encode(pd.DataFrame({"250": [wrong]}), CodeSchema(("250",)))
    with pytest.raises(DataError, match="label column 'dead'"):
        encode(pd.DataFrame({"250": [1]}), CodeSchema(("250",), label=Binary("dead")))


def test_encoded_knows_its_length() -> None:
    """The number of encoded records is the number of rows, and printing them shows none."""
    encoded: Encoded = encode(_row(), TABLE)
    assert len(encoded) == 1
    assert repr(encoded) == "Encoded(<private>, shape=(12,))"


def test_schema_union_is_closed() -> None:
    """Every member of the union has spans and a shape that agree."""
    members: tuple[Schema, ...] = (TABLE, ImageSchema(3, 4), CodeSchema(("a",)))
    for schema in members:
        assert spans(schema)[-1].stop == np.prod(encoded_shape(schema))


@pytest.mark.parametrize(("first", "others"), [(True, 1), (Decimal("1.50"), Decimal("1.5")), (1, True)])
def test_no_row_decides_how_another_is_read(first: object, others: object) -> None:
    """Cells that are equal but written differently stay apart: with or without a row, the others are encoded alike."""
    schema = TableSchema(
        (Categorical("ward", ("1", "1.5", "unknown"), unknown="unknown"), Integer("age", 0, 9))
    )
    without = pd.DataFrame({"ward": pd.Series([others] * 3, dtype=object), "age": 1})
    neighbour = pd.DataFrame({"ward": pd.Series([first, *[others] * 3], dtype=object), "age": 1})
    np.testing.assert_array_equal(encode(neighbour, schema).x[1:], encode(without, schema).x)
