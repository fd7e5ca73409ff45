from __future__ import annotations

import datetime as dt
import decimal
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data import Records, read
from understudy.errors import DataError
from understudy.records.encode import decode, encode
from understudy.records.images import Images
from understudy.schema import (
    Binary,
    Categorical,
    CodeSchema,
    Continuous,
    Datetime,
    ImageSchema,
    Integer,
    TableSchema,
)

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = TableSchema(
    (
        Integer("age", 0, 120),
        Categorical("town", ("01", "02"), missing=True),
        Continuous("w", 0.0, 10.0, missing=True),
        Datetime("seen", dt.datetime(2000, 1, 1), dt.datetime(2020, 1, 1)),
        Binary("ill", ("no", "yes")),
    ),
    label="ill",
)
TEXT = "ill,id,age,town,w,seen\nno,x1,30,01,2.5,2001-02-03\nyes,x2,40,,,2010-01-01\n"


def _write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_form_of_the_same_table_encodes_alike(tmp_path: Path) -> None:
    """CSV, gzipped CSV, TSV, Parquet, pyarrow and pandas give the same arrays, which decode to the text."""
    csv = _write(tmp_path, TEXT)
    tsv = _write(tmp_path, TEXT.replace(",", "\t"), "t.tsv")
    bom = tmp_path / "bom.csv"
    bom.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    frame = pd.read_csv(csv, dtype={"town": str})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
    sources = [csv, str(csv), tsv, bom, packed, tmp_path / "t.parquet", frame, pa.Table.from_pandas(frame)]
    arrays = [encode(read(source, SCHEMA), SCHEMA) for source in (*sources, Records(frame))]
    for encoded in arrays:
        assert encoded.x.tolist() == arrays[0].x.tolist()
        assert encoded.labels is not None
        assert encoded.labels.tolist() == [0, 1]
    decoded = decode(arrays[0].x, arrays[0].labels, SCHEMA)
    assert isinstance(decoded, pd.DataFrame)
    assert decoded["town"].tolist() == ["01", None]
    assert decoded["seen"].astype(str).tolist() == ["2001-02-03", "2010-01-01"]
    assert read(csv, SCHEMA).frame.columns.tolist() == [column.name for column in SCHEMA.columns]


def test_quoted_cells_may_hold_commas_and_line_breaks(tmp_path: Path) -> None:
    """The CSV that spreadsheets write, with quotes around commas and line breaks, is read as they mean it."""
    schema = TableSchema((Categorical("a, b", ("x,y", "u\nv")),))
    records = read(_write(tmp_path, '"a, b"\n"x,y"\n"u\nv"\n'), schema)
    assert records.frame["a, b"].tolist() == ["x,y", "u\nv"]


def test_missing_text_is_what_the_schema_says(tmp_path: Path) -> None:
    """Only the declared texts mean an empty cell, so a category such as NA can be declared."""
    schema = TableSchema(
        (Categorical("c", ("NA", "EU"), missing=True), Integer("i", 0, 9, missing=True)), missing_text=("?",)
    )
    x = encode(read(_write(tmp_path, "c,i\nNA,1\n?,?\n"), schema), schema).x
    assert x[:, :3].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert x[1, 3:].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv is empty; expected a header and rows"),
        ("ill,age,town,w,seen\n", "columns but no rows"),
        ("\n\n", "its first line is no header"),
        (TEXT.replace("ill,", "sick,"), "has no label column 'ill', which the schema names"),
        (
            TEXT.replace("town", "city"),
            "has no column 'town', which the schema names; it has 'ill', 'id', 'age', 'city'",
        ),
        (TEXT.replace("id,", "age,"), "columns 2 and 3 of .* have the same name"),
        (TEXT + "no,x3,1\n", "row 3: it has more or fewer cells than the 6 columns"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Each kind of broken CSV gives one DataError that names the file, the column or the row."""
    with pytest.raises(DataError, match=message):
        read(_write(tmp_path, text), SCHEMA)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("40", ""), "column 'age', row 2: the value is missing"),
        (TEXT.replace("yes", ""), "column 'ill', row 2: the value is missing"),
        (TEXT.replace("40", "forty"), "column 'age', row 2: the value is not a number"),
        (TEXT.replace("2.5", "2.5kg"), "column 'w', row 1: the value is not a number"),
        (TEXT.replace("yes", "perhaps"), "column 'ill', row 2: the value is not in the schema"),
        (TEXT.replace(",01,", ",1,"), "column 'town', row 1: the value is not in the schema"),
        (TEXT.replace("40", "40.5"), "column 'age', row 2: the value is not a whole number"),
        (TEXT.replace("2010-01-01", "1.1.10"), "column 'seen', row 2: the value is not a date"),
    ],
)
def test_bad_cells_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Cells that a file can hold but the schema forbids are refused when they are encoded."""
    with pytest.raises(DataError, match=message):
        encode(read(_write(tmp_path, text), SCHEMA), SCHEMA)


def test_other_broken_sources(tmp_path: Path) -> None:
    """Files that are absent, foreign or damaged, and values of the wrong type, are refused with a reason."""
    with pytest.raises(
        DataError, match=r"nowhere\.csv does not exist and is not the name of a known data set"
    ):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="of no known kind"):
        read(_write(tmp_path, "x", "t.pkl"))
    with pytest.raises(DataError, match=r"cannot read .*t\.parquet"):
        read(_write(tmp_path, "not parquet", "t.parquet"), SCHEMA)
    with pytest.raises(DataError, match="is empty"):
        read(_write(tmp_path, "", "empty.parquet"), SCHEMA)
    with pytest.raises(DataError, match="needs a schema"):
        read(_write(tmp_path, TEXT))
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"a,b\n\xff\xfe,\x00\n")
    with pytest.raises(DataError, match=r"is not utf-8 text throughout.*latin-1"):
        read(binary, TableSchema((Categorical("a", ("x", "y")),)))
    wrong: Any = 3
    with pytest.raises(DataError, match="cannot read records from a int"):
        read(wrong)
    with pytest.raises(DataError, match="the frame has no rows"):
        read(pd.DataFrame({"a": []}))
    with pytest.raises(DataError, match="describes images, but the source is a table"):
        read(pd.DataFrame({"a": [1]}), ImageSchema(8, 8))
    with pytest.raises(DataError, match="hold a DataFrame or Images"):
        Records(wrong)
    with pytest.raises(DataError, match="are a table, not images"):
        _ = Records(pd.DataFrame()).images
    with pytest.raises(DataError, match="are images, not a table"):
        _ = Records(Images(np.zeros((1, 2, 2, 1), np.uint8))).frame


def test_arrow_types() -> None:
    """Decimals become numbers, dictionaries and large strings stay text, and nested cells are refused."""
    schema = TableSchema(
        (Continuous("d", 0.0, 10.0), Categorical("s", ("a", "b")), Binary("t", ("no", "yes")))
    )
    table = pa.table(
        {
            "d": pa.array([decimal.Decimal("2.50"), decimal.Decimal("7.50")]),
            "s": pa.array(["a", "b"]).dictionary_encode(),
            "t": pa.array([True, False]),
        }
    )
    assert encode(read(table, schema), schema).x.tolist() == [[-0.5, 1, 0, 1], [0.5, 0, 1, -1]]
    nested = table.set_column(1, "s", pa.array([["a"], ["b"]]))
    with pytest.raises(DataError, match="column 's' of the table holds list"):
        read(nested, schema)
    for column in ("d", "s", "t"):
        cells: dict[str, list[Any]] = {"d": [1.0, 2.0], "s": ["a", "b"], "t": ["no", "no"]}
        cells[column][1] = ["a"]
        with pytest.raises(
            DataError, match=f"column '{column}', row 2: .* is (more than one value|not a number)"
        ):
            encode(pd.DataFrame(cells), schema)


def test_codes_as_a_wide_csv(tmp_path: Path) -> None:
    """A table with one column per code is read for a code schema, with its label checked."""
    schema = CodeSchema(("250", "401"), label=Binary("dead", ("no", "yes")))
    encoded = encode(read(_write(tmp_path, "250,401,dead\n1,0,no\n0,1,yes\n"), schema), schema)
    assert encoded.x.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(DataError, match="no label column 'dead'"):
        read(_write(tmp_path, "250,401\n1,0\n"), schema)


def test_known_names_are_sources() -> None:
    """A known set can be named where a file is expected, with its part after a colon."""
    assert len(read("iris")) == len(read("iris:train")) == 120
    assert len(read("iris:test")) == 30
    with pytest.raises(DataError, match="does not exist"):
        read("iris:middle")
