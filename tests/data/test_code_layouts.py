"""Code sets come in three layouts and leave in two, and all of them say the same."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from understudy.data import read
from understudy.data.draft import draft_schema
from understudy.errors import DataError, ReleaseError, SchemaError
from understudy.release.long_layout import long_chunks
from understudy.schema import Binary, CodeSchema, LongFile, TableSchema, UnknownCodes

CODES = ("250", "401", "V10")
WIDE = pd.DataFrame({"250": [1, 0, 0], "401": [1, 0, 0], "V10": [0, 1, 0]})


def test_codes_in_several_columns_are_sets(tmp_path: Path) -> None:
    """A file with DX1, DX2, … is read as the same sets as one with a column per code; order and gaps do not matter."""
    path = tmp_path / "visits.csv"
    path.write_text("DX1,DX2,DX3,ward\n250,401,,a\n,V10,V10,b\n,,,c\n")
    schema = CodeSchema(CODES, code_columns=("DX1", "DX2", "DX3"))
    found = read(path, schema).frame
    assert found[list(CODES)].to_numpy().tolist() == WIDE.to_numpy().tolist()
    counted = CodeSchema(CODES, max_count=3, code_columns=("DX1", "DX2", "DX3"))
    assert read(path, counted).frame["V10"].tolist() == [0, 2, 0]


def test_a_foreign_code_in_several_columns_is_refused_where_it_stands(tmp_path: Path) -> None:
    """The refusal names column and row, the code is told to the curator only, and `drop` leaves it out."""
    path = tmp_path / "visits.csv"
    path.write_text("DX1,DX2\n250,401\n250,XYZ\n")
    with pytest.raises(DataError, match="column 'DX2', row 2") as caught:
        read(path, CodeSchema(CODES, code_columns=("DX1", "DX2")))
    assert "XYZ" not in str(caught.value)
    dropping = CodeSchema(CODES, code_columns=("DX1", "DX2"), unknown=UnknownCodes.DROP)
    assert read(path, dropping).frame["250"].tolist() == [1, 1]


def test_long_output_reads_back() -> None:
    """What is written with a row for each code is read back as the same records, empty ones and labels included."""
    schema = CodeSchema(
        CODES, max_count=2, label=Binary("dead", ("no", "yes")), long=LongFile("visit", "icd")
    )
    wide = WIDE.assign(dead=["no", "yes", "no"])
    wide.loc[1, "V10"] = 2
    (long,) = long_chunks([wide], schema)
    assert long.to_numpy().tolist() == [
        [1, "250", "no"],
        [1, "401", "no"],
        [2, "V10", "yes"],
        [2, "V10", "yes"],
        [3, "", "no"],
    ]
    back = read(long.replace("", None), schema).frame
    assert back[list(wide.columns)].to_numpy().tolist() == wide.to_numpy().tolist()


def test_records_of_several_chunks_are_numbered_through() -> None:
    """The second chunk goes on counting, so that no two records become one."""
    first, second = long_chunks([WIDE, WIDE], CodeSchema(CODES))
    assert list(first.columns) == ["record", "code"]
    assert int(second["record"].min()) == int(first["record"].max()) + 1


def test_a_table_has_no_long_layout() -> None:
    """Asking a release of a table for it is an error that says so."""
    table = TableSchema((Binary("a", ("x", "y")),))
    with pytest.raises(ReleaseError, match="only code sets"):
        list(long_chunks([WIDE], table))


def test_the_draft_of_numbered_columns_is_one_of_codes(tmp_path: Path) -> None:
    """DX1 to DX3 give a draft of codes in columns; a table that has some among many others stays a table."""
    path = tmp_path / "visits.csv"
    path.write_text("id,DX1,DX2,DX3\n1,250,401,\n2,V10,,\n")
    assert 'code_columns = ["DX1", "DX2", "DX3"]' in draft_schema(path)
    path.write_text("age,sex,ward,days,cost,diag_1,diag_2\n50,f,a,3,10,250,401\n")
    assert "code_columns" not in draft_schema(path)


def test_two_layouts_at_once_are_refused() -> None:
    """A schema says once where the codes of a file are."""
    with pytest.raises(SchemaError, match="not in both"):
        CodeSchema(CODES, long=LongFile("p", "c"), code_columns=("DX1",))
