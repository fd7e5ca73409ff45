from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from understudy.data import read
from understudy.data.draft import LeftOut, draft_schema
from understudy.errors import DataError, SchemaError
from understudy.records.encode import encode
from understudy.schema import (
    Binary,
    Categorical,
    CellType,
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
        "1,5,1.5,Oslo,1950-01-01,false,1,x,\n"
        "2,6,,Rome,1951-01-01,true,0,y,\n"
    )
    return path


def test_a_draft_holds_nothing_of_the_rows(tmp_path: Path) -> None:
    """Two files with one header and the same types have the same draft: no value leaked into it."""
    text = draft_schema(_csv(tmp_path))
    assert text == draft_schema(_swapped(tmp_path))
    for value in ("31", "87", "61.25", "Ulm", "Bonn", "2001", "2019", "7000001", "same"):
        assert value not in text


def test_what_rows_tell_must_be_confirmed(tmp_path: Path) -> None:
    """Kinds guessed from cells are comments: one row changes nothing that is in force, and the draft is not valid."""
    path = _csv(tmp_path)
    texts = [draft_schema(path)]
    path.write_text(ROWS.replace("54,", "54.5,").replace(",0,same", ",maybe,same"))
    texts.append(draft_schema(path))
    assert texts[0] != texts[1]
    in_force = [[line for line in text.splitlines() if not line.startswith("#")] for text in texts]
    assert in_force[0] == in_force[1]
    assert '# kind = "integer"  # FROM THE ROWS: confirm' in texts[0]
    filled = re.sub(r"# (lower|upper) =.*", "", texts[0])
    with pytest.raises(SchemaError, match=r"columns\['age'\]\.kind"):
        schema_from_toml(filled)
    assert "FROM THE ROWS" not in draft_schema(path, kinds_are_public=True)


def test_keys_of_single_records_must_be_confirmed(tmp_path: Path) -> None:
    """Every line of a draft that shows a key of JSON records says so, whatever is declared about kinds."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"age": 3, "patient_id": "a"}\n{"age": 4, "seen by Dr. Rare": 1, "email": "x"}\n')
    for declared in (False, True):
        text = draft_schema(path, kinds_are_public=declared, left_out=LeftOut.EMPTY)
        told = [
            line for line in text.splitlines() if "Rare" in line or "patient_id" in line or "email" in line
        ]
        assert len(told) >= 3
        assert all(line.startswith("#") and "FROM THE ROWS" in line for line in told), told
        with pytest.raises(SchemaError):
            schema_from_toml(text)


def test_a_draft_must_be_filled_in(tmp_path: Path) -> None:
    """The draft names every column and its kind, is no schema as it stands, and is one when filled in."""
    text = draft_schema(_csv(tmp_path), kinds_are_public=True)
    kinds = re.findall(r'kind = "(\w+)"\nname = "(\w+)"', text)
    assert {name: kind for kind, name in kinds} == {
        "age": "integer", "w": "continuous", "town": "categorical", "seen": "datetime",
        "ok": "binary", "flag": "binary", "one": "categorical",
    }  # fmt: skip
    assert '# Column "id" is left out' in text
    assert '# Column "note" is left out' in text
    assert "upper = 120  # FILL IN: the greatest possible value; this is usual for ages" in text
    assert text.count("# decimals = ") == 1, "only real numbers can be rounded"
    with pytest.raises(SchemaError, match=r"columns\['age'\]\.lower: this key is missing"):
        schema_from_toml(text)
    filled = re.sub(r"# categories = .*", 'categories = ["Ulm", "Bonn", "same"]', text)
    filled = re.sub(r"# values = .*", 'values = ["false", "true"]', filled)
    filled = re.sub(r"missing = false", "missing = true", filled)
    filled = re.sub(r"# lower =.*possible moment", "lower = 1900-01-01 #", filled)
    filled = re.sub(r"# upper =.*possible moment", "upper = 2030-01-01 #", filled)
    filled = re.sub(r"# upper =.*", "upper = 8000000", re.sub(r"# lower =.*", "lower = 0", filled))
    schema = schema_from_toml(filled)
    assert encode(read(tmp_path / "people.csv", schema), schema).clipped == 0


def test_a_draft_of_a_parquet_file(tmp_path: Path) -> None:
    """Parquet tells its types itself; text, dates and numbers become the same kinds as in CSV."""
    frame = pd.DataFrame({"a": [1], "b": [0.5], "c": ["x"], "d": [pd.Timestamp("2000-01-01")], "e": [True]})
    frame.to_parquet(tmp_path / "t.parquet")
    kinds = re.findall(r'kind = "(\w+)"\nname', draft_schema(tmp_path / "t.parquet"))
    assert kinds == ["integer", "continuous", "categorical", "datetime", "binary"]


def test_public_rows_give_a_whole_schema(tmp_path: Path) -> None:
    """With the declaration that rows are public, bounds and categories are theirs and every row fits."""
    path = _csv(tmp_path)
    text = draft_schema(path, from_public=True)
    assert "declared to be public" in text
    assert "'one' is left out: it holds one value only" in text
    assert "'note' is left out: its name says that it holds names or free text" in text
    schema = schema_from_toml(text)
    assert schema == TableSchema(
        (
            Integer("age", 31, 87),
            Continuous("w", 61.25, 80.5, missing=True, decimals=2),
            Categorical("town", ("Bonn", "Ulm")),
            Datetime("seen", dt.datetime(2001, 2, 3), dt.datetime(2019, 11, 30)),
            Binary("ok", ("false", "true")),
            Binary("flag", stored_as=CellType.INT64),
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
            "word": [f"t{i}" for i in range(300)],
            "clock": pd.date_range("2000-01-01 00:00:01", periods=300, freq="s"),
            "years": pd.date_range("1900-01-01 05:00:00", periods=300, freq="100D"),
        }
    ).to_parquet(path)
    text = draft_schema(path, from_public=True)
    assert "'word' is left out: it holds 300 different texts" in text
    schema = schema_from_toml(text)
    assert isinstance(schema, TableSchema)
    wide, clock, years = schema.columns
    assert wide == Continuous("wide", 0.0, 2.0**40, decimals=0)
    assert isinstance(clock, Datetime)
    assert isinstance(years, Datetime)
    assert (clock.unit, years.unit) == (TimeUnit.SECOND, TimeUnit.HOUR)
    assert encode(read(path, schema), schema).clipped == 0
    (tmp_path / "bare.csv").write_text("a\n1\n1\n")
    with pytest.raises(DataError, match="no column can be described"):
        draft_schema(tmp_path / "bare.csv", from_public=True)


def test_drafts_for_images(tmp_path: Path) -> None:
    """The size is written, classes only when declared public; a draft of labelled images is not valid without."""
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((4, 6, 5), np.uint8), labels=np.array([0, 2, 1, 0]))
    text = draft_schema(path)
    with pytest.raises(SchemaError, match="classes"):
        schema_from_toml(text)
    named = text.replace("classes = []", 'classes = ["a", "b", "c"]')
    assert schema_from_toml(named) == ImageSchema(6, 5, 1, ("a", "b", "c"))
    assert schema_from_toml(draft_schema(path, from_public=True)) == ImageSchema(6, 5, 1, ("0", "1", "2"))
    np.savez(path, images=np.zeros((4, 6, 5), np.uint8))
    assert schema_from_toml(draft_schema(path, from_public=True)) == ImageSchema(6, 5, 1)


def test_a_file_that_cannot_be_drafted(tmp_path: Path) -> None:
    """Other files are refused with the list of what can be drafted."""
    with pytest.raises(DataError, match="cannot draft a schema"):
        draft_schema(tmp_path / "t.pkl")
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(DataError, match="is empty"):
        draft_schema(tmp_path / "t.csv")


def test_declared_marks_and_left_out_columns(tmp_path: Path) -> None:
    """Marks for empty cells that somebody declares are no guess, and a header that is kept names all columns."""
    path = tmp_path / "people.csv"
    path.write_text("id,age,note\n1,31,x\n2,unknown,y\n3,?,z\n4,35,x\n")
    text = draft_schema(path, missing_text=("?", "unknown"), left_out=LeftOut.EMPTY)
    assert 'missing_text = ["", "?", "unknown"]\n' in text
    assert 'order = ["id", "age", "note"]\n' in text
    assert '# kind = "integer"  # FROM THE ROWS: confirm\nname = "age"' in text
    assert "order" not in draft_schema(path)
    public = schema_from_toml(
        draft_schema(path, missing_text=("?", "unknown"), left_out=LeftOut.EMPTY, from_public=True)
    )
    assert isinstance(public, TableSchema)
    assert (public.order, public.missing_text) == (("id", "age", "note"), ("", "?", "unknown"))
    assert public.columns == (Integer("age", 31, 35, missing=True),)
