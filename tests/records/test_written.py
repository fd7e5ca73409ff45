"""What comes out fits what went in: dtypes, header, missing mark, grid, and the dialect of the files."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from understudy.data import read
from understudy.data.checking import check
from understudy.data.draft import draft_schema
from understudy.errors import SchemaError
from understudy.records.encode import decode, encode, encoded_shape
from understudy.release.write import write_records
from understudy.schema import (
    Binary,
    Categorical,
    CellType,
    Continuous,
    Datetime,
    FileFormat,
    Integer,
    NumberScale,
    Ordinal,
    TableSchema,
    TimeUnit,
    schema_from_toml,
)

SCHEMA = TableSchema(
    (
        Continuous("dose", 0.0, 10.0, missing=True, decimals=2, stored_as=CellType.FLOAT32),
        Continuous("ratio", 1e-3, 1e3, scale=NumberScale.LOG),
        Integer("income", -1, 900_000, missing=True, step=10_000, special=(-1,)),
        Integer("ward", 1, 99, stored_as=CellType.INT8),
        Categorical("code", ("1", "2", "10"), missing=True, stored_as=CellType.INT64),
        Categorical("town", ("Köln; Süd", "Ulm"), stored_as=CellType.CATEGORY),
        Ordinal("stage", ("I", "II"), stored_as=CellType.CATEGORY),
        Binary("alive", ("no", "yes"), missing=True, stored_as=CellType.BOOL),
        Datetime("seen", dt.datetime(2019, 1, 1), dt.datetime(2022, 1, 1), missing=True),
        Datetime("clock", dt.datetime(2020, 1, 1), dt.datetime(2020, 2, 1), TimeUnit.MINUTE),
        Datetime(
            "zoned", dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), TimeUnit.HOUR, timezone="Europe/Berlin"
        ),
        Binary("ill"),
    ),
    label="ill",
)


def _synthetic(schema: TableSchema, rows: int = 60) -> pd.DataFrame:
    """What a generator that knows nothing would make."""
    source = np.random.default_rng(0)
    x = source.uniform(-1.1, 1.1, (rows, *encoded_shape(schema))).astype(np.float32)
    decoded = decode(x, source.integers(0, 2, rows), schema)
    assert isinstance(decoded, pd.DataFrame)
    return decoded


FORMATS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ("", "NA")),
    ({"separator": ";", "decimal": ",", "thousands": ".", "dates": ("%d.%m.%Y",)}, ("?",)),
    ({"separator": "\t", "encoding": "utf-16", "dates": ("%d.%m.%y %H:%M", "%d.%m.%Y")}, ("NA", "")),
    ({"header": False, "names": tuple(column.name for column in SCHEMA.columns)}, ("-9999",)),
    ({"separator": " ", "quote": "'"}, ("", ".")),
    ({"comment": "#", "encoding": "latin-1", "true_words": ("y",), "false_words": ("n",)}, ("",)),
]


@pytest.mark.parametrize(("options", "missing"), FORMATS)
def test_synthetic_files_pass_the_check_of_their_own_schema(
    options: dict[str, Any], missing: tuple[str, ...], tmp_path: Path
) -> None:
    """Whatever the dialect, a synthetic file is read back to the very rows that were drawn, and nothing is amiss."""
    schema = replace(SCHEMA, file=FileFormat(**options), missing_text=missing)
    frame = _synthetic(schema)
    path = tmp_path / "synthetic.csv"
    assert write_records(iter([frame.iloc[:40], frame.iloc[40:]]), path, schema=schema) == 60
    checked = check(path, schema)
    assert checked.fits, [str(column) for column in checked.columns if column.refused]
    assert (checked.rows, checked.clipped, checked.unknown, checked.ignored) == (60, 0, 0, ())
    assert not any(column.off_grid for column in checked.columns)
    again, before = encode(read(path, schema), schema), encode(frame, schema)
    assert np.abs(again.x - before.x).max() < 1e-6
    first = path.read_text(encoding=options.get("encoding", "utf-8")).splitlines()[0]
    assert ("dose" in first) is (options.get("header") is not False)


def test_parquet_keeps_the_types_of_the_schema(tmp_path: Path) -> None:
    """Types of cells survive a file in columns, which passes the check, too."""
    frame = _synthetic(SCHEMA)
    write_records(iter([frame]), tmp_path / "t.parquet", schema=SCHEMA)
    assert check(tmp_path / "t.parquet", SCHEMA).fits
    back = pd.read_parquet(tmp_path / "t.parquet")
    assert back["alive"].dtype == "boolean"
    assert back["ward"].dtype == "int8"
    assert back["dose"].dtype == "float32"
    assert back["town"].dtype == "category"
    assert str(back["zoned"].dtype).endswith("Europe/Berlin]")


def _original() -> pd.DataFrame:
    source = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "flag": source.random(50) < 0.5,
            "part": source.integers(0, 2, 50),
            "small": source.integers(0, 100, 50).astype("int16"),
            "single": source.integers(0, 100, 50).astype("float32") / 4,
            "kind": pd.Categorical(source.choice(["a", "b", "c"], 50)),
            "word": source.choice(["x", "y", "z"], 50),
            "when": pd.date_range("2020-01-01", periods=50, freq="h", tz="Asia/Tokyo"),
            "count": pd.array([*range(49), None], dtype="Int64"),
        }
    )


def test_synthetic_frames_have_the_dtypes_of_the_original() -> None:
    """A schema learned from a public frame gives frames with its columns in its order and types."""
    frame = _original()
    schema = schema_from_toml(draft_schema(frame, from_public=True))
    assert isinstance(schema, TableSchema)
    assert check(frame, schema).fits
    decoded = decode(encode(frame, schema).x, None, schema)
    assert isinstance(decoded, pd.DataFrame)
    for name in frame.columns:
        if name == "when":
            assert str(decoded[name].dtype).endswith("Asia/Tokyo]")
        else:
            assert decoded[name].dtype == frame[name].dtype, name
        assert decoded[name].astype(str).tolist() == frame[name].astype(str).tolist(), name


def test_a_draft_of_a_frame_holds_its_types_and_none_of_its_values() -> None:
    """Types that a frame states are facts about it; its values, categories included, are not."""
    text = draft_schema(_original())
    for fact in (
        'stored_as = "int16"',
        'stored_as = "float32"',
        'stored_as = "category"',
        'timezone = "Asia/Tokyo"',
    ):
        assert fact in text
    changed = _original()
    changed["kind"] = pd.Categorical(["p", "q"] * 25)
    changed["word"] = "other"
    assert draft_schema(changed) == text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integer("a", 0, 300, stored_as=CellType.INT8), "int8 cannot hold 0 to 300"),
        (lambda: Integer("a", -1, 3, stored_as=CellType.UINT8), "uint8 cannot hold"),
        (lambda: Integer("a", 0, 3, stored_as=CellType.BOOL), "such a column can be int8"),
        (lambda: Continuous("a", 0.0, 3.0, stored_as=CellType.INT8), "can be float32, float64"),
        (lambda: Categorical("a", ("01", "2"), stored_as=CellType.INT64), "'01' cannot be stored as int64"),
        (lambda: Categorical("a", ("x", "y"), stored_as=CellType.BOOL), "stored_as is bool"),
        (
            lambda: Datetime("a", dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1), timezone="Mars/Olympus"),
            "is no time zone",
        ),
        (
            lambda: TableSchema((Categorical("a", ("ž", "y")),), file=FileFormat(encoding="latin-1")),
            "'ž' cannot be written in latin-1",
        ),
    ],
)
def test_types_that_cannot_hold_the_values_are_refused(make: Any, message: str) -> None:
    """A schema that promises a type which its values do not fit is refused when it is made."""
    with pytest.raises(SchemaError, match=message):
        make()
