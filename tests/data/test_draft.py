from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from understudy.data import read
from understudy.data.draft import draft
from understudy.errors import DataError, SchemaError
from understudy.records.encode import encode
from understudy.schema import (
    Binary,
    Categorical,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    TableSchema,
    TimeUnit,
    schema_from_toml,
)

if TYPE_CHECKING:
    from pathlib import Path

ROWS = (
    "id,age,w,town,seen,ok,flag,one,note\n"
    "7000001,31,61.25,Ulm,2001-02-03,true,0,same,\n"
    "7000002,87,80.5,Bonn,2019-11-30,false,1,same,\n"
    "7000003,54,,Ulm,2007-07-07,true,1,same,\n"
)


def _csv(folder: Path) -> Path:
    path = folder / "people.csv"
    path.write_text(ROWS)
    return path


def _swapped(folder: Path) -> Path:
    """The same header and types with other people in it."""
    path = folder / "others" / "people.csv"
    path.parent.mkdir()
    path.write_text(
        "id,age,w,town,seen,ok,flag,one,note\n"
        "1,5,1.5,Oslo,1950-01-01,false,7,x,\n"
        "2,6,,Rome,1951-01-01,true,8,y,\n"
    )
    return path


def test_a_draft_holds_nothing_of_the_rows(tmp_path: Path) -> None:
    """Two files with one header and the same types have the same draft: no value leaked into it."""
    text = draft(_csv(tmp_path))
    assert text == draft(_swapped(tmp_path))
    for value in ("31", "87", "61.25", "Ulm", "Bonn", "2001", "2019", "7000001", "same"):
        assert value not in text


def test_a_draft_must_be_filled_in(tmp_path: Path) -> None:
    """The draft names every column and its kind, is no schema as it stands, and is one when filled in."""
    text = draft(_csv(tmp_path))
    kinds = re.findall(r'kind = "(\w+)"\nname = "(\w+)"', text)
    assert {name: kind for kind, name in kinds} == {
        "id": "integer", "age": "integer", "w": "continuous", "town": "categorical", "seen": "datetime",
        "ok": "binary", "flag": "integer", "one": "categorical", "note": "categorical",
    }  # fmt: skip
    assert text.count("# decimals = ") == 1, "only real numbers can be rounded"
    with pytest.raises(SchemaError, match=r"columns\[0\]\.lower: this key is missing"):
        schema_from_toml(text)
    filled = re.sub(r"# categories = .*", 'categories = ["Ulm", "Bonn", "same"]', text)
    filled = re.sub(r"# values = .*", 'values = ["false", "true"]', filled)
    filled = re.sub(r"missing = false", "missing = true", filled)
    parts = filled.split('kind = "datetime"')
    numbers = [
        re.sub(r"# upper =.*", "upper = 8000000", re.sub(r"# lower =.*", "lower = 0", p)) for p in parts
    ]
    seen = parts[1].split("[[columns]]", 1)[0]
    dates = re.sub(r"# upper =.*", "upper = 2030-01-01", re.sub(r"# lower =.*", "lower = 1900-01-01", seen))
    filled = 'kind = "datetime"'.join(
        [numbers[0], dates + "[[columns]]" + numbers[1].split("[[columns]]", 1)[1]]
    )
    schema = schema_from_toml(filled)
    assert encode(read(tmp_path / "people.csv", schema), schema).clipped == 0


def test_a_draft_of_a_parquet_file(tmp_path: Path) -> None:
    """Parquet tells its types itself; text, dates and numbers become the same kinds as in CSV."""
    frame = pd.DataFrame({"a": [1], "b": [0.5], "c": ["x"], "d": [pd.Timestamp("2000-01-01")], "e": [True]})
    frame.to_parquet(tmp_path / "t.parquet")
    kinds = re.findall(r'kind = "(\w+)"\nname', draft(tmp_path / "t.parquet"))
    assert kinds == ["integer", "continuous", "categorical", "datetime", "binary"]


def test_public_rows_give_a_whole_schema(tmp_path: Path) -> None:
    """With the declaration that rows are public, bounds and categories are theirs and every row fits."""
    path = _csv(tmp_path)
    text = draft(path, from_public=True)
    assert "declared to be public" in text
    assert "'one' is left out: it holds one value only" in text
    assert "'note' is left out: it holds no value only" in text
    schema = schema_from_toml(text)
    assert schema == TableSchema(
        (
            Integer("id", 7_000_001, 7_000_003),
            Integer("age", 31, 87),
            Continuous("w", 61.25, 80.5, missing=True),
            Categorical("town", ("Bonn", "Ulm")),
            Datetime("seen", dt.datetime(2001, 2, 3), dt.datetime(2019, 11, 30)),
            Binary("ok", ("false", "true")),
            Binary("flag"),
        )
    )
    encoded = encode(read(path, schema), schema)
    assert (encoded.clipped, encoded.unknown) == (0, 0)


def test_public_columns_that_are_hard(tmp_path: Path) -> None:
    """Wide integers become continuous, many texts are left out, moments get a unit that tells them apart."""
    path = tmp_path / "t.parquet"
    pd.DataFrame(
        {
            "wide": [0, 2**40] * 150,
            "text": [f"t{i}" for i in range(300)],
            "clock": pd.date_range("2000-01-01 00:00:01", periods=300, freq="s"),
            "years": pd.date_range("1900-01-01 05:00:00", periods=300, freq="100D"),
        }
    ).to_parquet(path)
    text = draft(path, from_public=True)
    assert "'text' is left out: it holds 300 different texts" in text
    schema = schema_from_toml(text)
    assert isinstance(schema, TableSchema)
    wide, clock, years = schema.columns
    assert wide == Continuous("wide", 0.0, 2.0**40)
    assert isinstance(clock, Datetime)
    assert isinstance(years, Datetime)
    assert (clock.unit, years.unit) == (TimeUnit.SECOND, TimeUnit.HOUR)
    assert encode(read(path, schema), schema).clipped == 0
    (tmp_path / "bare.csv").write_text("a\n1\n1\n")
    with pytest.raises(DataError, match=r"no column of .* can be described"):
        draft(tmp_path / "bare.csv", from_public=True)


def test_drafts_for_images(tmp_path: Path) -> None:
    """The size is written; the classes only when declared public."""
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((4, 6, 5), np.uint8), labels=np.array([0, 2, 1, 0]))
    text = draft(path)
    assert schema_from_toml(text) == ImageSchema(6, 5, 1)
    assert "# classes" in text
    assert schema_from_toml(draft(path, from_public=True)) == ImageSchema(6, 5, 1, ("0", "1", "2"))
    np.savez(path, images=np.zeros((4, 6, 5), np.uint8))
    assert schema_from_toml(draft(path, from_public=True)) == ImageSchema(6, 5, 1)


def test_a_file_that_cannot_be_drafted(tmp_path: Path) -> None:
    """Other files are refused with the list of what can be drafted."""
    with pytest.raises(DataError, match="cannot draft a schema"):
        draft(tmp_path / "t.xlsx")
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        draft(tmp_path / "t.csv")
