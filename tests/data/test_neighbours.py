"""One record more changes nothing about how the others are read, whatever its cells hold."""

from __future__ import annotations

import csv
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data import read
from understudy.data.codes import code_texts
from understudy.data.databases import Database
from understudy.records.columns import examine
from understudy.records.encode import encode
from understudy.schema import Categorical, Continuous, FileFormat, Integer, TableSchema

LARGE = 900_000_000_000_207_008
"""A number that a float does not hold exactly, as many identifiers are."""

SCHEMA = TableSchema(
    (
        Categorical("concept", (str(LARGE), str(LARGE + 1), "other"), unknown="other", missing=True),
        Continuous("dose", 0.0, 2_000_000.0, missing=True),
        Categorical("grade", ("1.5", "2.5", "other"), unknown="other", missing=True),
        Integer("visits", 0, 100, missing=True),
    ),
)
ROWS: list[tuple[Any, ...]] = [(LARGE + k % 2, 1_234_567.25 + k, 1.5 + k % 2, k % 7) for k in range(60)]
ODD: list[tuple[Any, ...]] = [
    (None, None, None, None),
    (LARGE, 1.0, 1.5, 3),
]
TEXT: list[tuple[Any, ...]] = [("", "", "", ""), ("NA", "NA", "NA", "NA"), (None, "", None, "NA")]

WRITTEN = ("1.5", "1e400", "nan(1)", "\u20035")
"""Cells that only some readers of text take for numbers."""


def as_sqlite(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    path = folder / f"rows-{len(rows)}-{abs(hash(repr(rows[-1])))}.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (concept integer, dose real, grade real, visits integer)")
        connection.executemany("insert into t values (?, ?, ?, ?)", rows)
    connection.close()
    return Database(str(path), "select * from t")


def as_table(rows: list[tuple[Any, ...]]) -> Any:
    types = (pa.int64(), pa.float64(), pa.float64(), pa.int64())
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(cells), kind) for cells, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=[column.name for column in SCHEMA.columns])


def as_parquet(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    pq.write_table(as_table(rows), folder / "rows.parquet")
    return folder / "rows.parquet"


def as_folder(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    place = folder / "parts"
    place.mkdir(exist_ok=True)
    for number, part in enumerate((rows[:30], rows[30:])):
        pq.write_table(as_table(part), place / f"{number}.parquet")
    return place


def as_jsonl(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    names = [column.name for column in SCHEMA.columns]
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "rows.jsonl"


def as_csv(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[column.name for column in SCHEMA.columns], *rows])
    return folder / "rows.csv"


def as_excel(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append([column.name for column in SCHEMA.columns])
    for concept, *others in rows:  # a spreadsheet keeps fifteen digits, so identifiers are written as text
        sheet.append([concept if concept is None else str(concept), *others])
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


def as_duckdb(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    path = folder / f"rows-{len(rows)}.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "create table t (concept bigint, dose double, grade decimal(4, 1), visits integer)"
        )
        connection.executemany("insert into t values (?, ?, ?, ?)", rows)
    return Database(str(path), "select * from t")


def as_frames(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    names = [column.name for column in SCHEMA.columns]
    return [pd.DataFrame(part, columns=names) for part in (rows[:30], rows[30:])]


@pytest.mark.parametrize(
    ("make", "odd"),
    [
        *((make, odd) for make in (as_sqlite, as_jsonl) for odd in (*ODD, *TEXT, (1.5, 7, True, 2.0))),
        *((make, odd) for make in (as_parquet, as_folder, as_duckdb) for odd in ODD),
        *((as_csv, odd) for odd in (*ODD, *TEXT, WRITTEN)),
        *((as_excel, odd) for odd in (ODD[1], TEXT[1], WRITTEN, (None, "", None, 1))),
        (as_frames, ODD[1]),
    ],
)
def test_one_more_record_leaves_the_others_as_they_are(
    make: Callable[[list[tuple[Any, ...]], Path], Any], odd: tuple[Any, ...], tmp_path: Path
) -> None:
    """Types, digits and categories of all others are the same, bit by bit."""
    without = encode(read(make(ROWS, tmp_path), SCHEMA), SCHEMA).x
    beside = encode(read(make([*ROWS, odd], tmp_path), SCHEMA), SCHEMA).x
    assert len(beside) == len(without) + 1
    np.testing.assert_array_equal(beside[: len(without)], without)
    assert len(np.unique(without, axis=0)) > 20, "the rows are read, not swallowed"


def test_one_more_record_of_a_server_leaves_the_others_as_they_are(postgresql_server: str) -> None:
    """The same for tables of PostgreSQL, whose types a row cannot change."""
    from adbc_driver_postgresql import dbapi

    def stored(rows: list[tuple[Any, ...]]) -> Any:
        with dbapi.connect(postgresql_server, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists t")
            cursor.execute(
                "create table t (concept bigint, dose float8, grade numeric(4, 1), visits integer)"
            )
            written = (", ".join("null" if cell is None else str(cell) for cell in row) for row in rows)
            cursor.execute(f"insert into t values {', '.join(f'({row})' for row in written)}")
        return encode(read(Database(postgresql_server, "select * from t"), SCHEMA), SCHEMA).x

    without = stored(ROWS)
    assert len(np.unique(without, axis=0)) > 20
    for odd in ODD:
        np.testing.assert_array_equal(stored([*ROWS, odd])[: len(without)], without)


CELLS = (
    *(
        "1e400",
        "-1e400",
        "1.7976931348623159e308",
        "5e-324",
        "2e-324",
        "1e-400",
        "9" * 400,
        "0e99999999999999999999",
    ),
    *("nan", "NaN", "-nan", "+nan", "nan()", "nan(1)", "nan(_a)", "inf", "-inf", "+INF", "Infinity"),
    *(
        "+1.5",
        "1.",
        ".5",
        "-.5",
        "1E5",
        "1e0005",
        "-0",
        "00012",
        "18446744073709551616",
        "9007199254740993",
        "8.41e21",
    ),
)


@pytest.mark.parametrize("decimal", [".", ","])
def test_both_readers_of_text_read_every_cell_alike(decimal: str, tmp_path: Path) -> None:
    """A cell that pyarrow reads is the same number, or the same nothing, in a file that is read as text."""
    column = Continuous("dose", -1e6, 1e6, missing=True)
    schema = TableSchema((column,), file=FileFormat(separator=";", decimal=decimal))
    cells = [cell.replace(".", decimal) for cell in CELLS]
    found = []
    for rows in (cells, [*cells, "\u20035"]):
        (tmp_path / "rows.csv").write_text(
            "dose;other\n" + "".join(f"{row};1\n" for row in rows), encoding="utf-8"
        )
        frame = read(tmp_path / "rows.csv", schema).frame
        found.append((frame["dose"].dtype.kind, examine(frame["dose"], column, ())))
    (quick, one), (slow, two) = found
    assert (quick, slow) == ("f", "O"), "both readers are tried"
    assert not one.faults
    assert not two.faults
    np.testing.assert_array_equal(one.values, two.values[: len(cells)])
    np.testing.assert_array_equal(one.missing, two.missing[: len(cells)])


def test_no_other_cell_is_a_number_for_one_reader_only() -> None:
    """Random texts of the characters that numbers are written in: whatever pyarrow reads, the encoder reads too."""
    source, column, read_by_pyarrow = random.Random(0), Continuous("dose", -1.0, 1.0, missing=True), 0
    for _ in range(4000):
        text = "".join(source.choices("0123456789+-.eEnaif()_ x", k=source.randint(1, 6))).strip()
        try:
            wanted = pa.array([text]).cast(pa.float64())[0].as_py()
        except pa.ArrowInvalid:
            continue
        seen = examine(pd.Series([text], dtype=object), column, ())
        assert not seen.faults, text
        assert bool(seen.missing[0]) == (wanted != wanted), text
        assert seen.missing[0] or seen.values[0] == wanted, text
        read_by_pyarrow += 1
    assert read_by_pyarrow > 200


def test_a_cell_that_needs_another_reader_rounds_nothing_otherwise(tmp_path: Path) -> None:
    """A number that only the slower reader of text knows leaves all digits of the others as they are."""
    source = np.random.default_rng(0)
    texts = [
        f"{a}.{b:015d}"
        for a, b in zip(source.integers(0, 1000, 500), source.integers(0, 10**15, 500), strict=True)
    ]
    column = Continuous("dose", 0.0, 1000.0)
    found = []
    for rows in (texts, [*texts, "\u20035"]):
        (tmp_path / "rows.csv").write_text("dose\n" + "\n".join(rows) + "\n", encoding="utf-8")
        frame = read(tmp_path / "rows.csv", TableSchema((column,))).frame
        found.append(examine(frame["dose"], column, ()).values[: len(texts)])
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], [float(text) for text in texts])


def test_a_code_is_written_by_itself() -> None:
    """Codes as numbers keep their digits and fractions beside empty cells."""
    codes = code_texts(pd.Series([250.83, 8.0, None]))
    assert codes.tolist()[:2] == ["250.83", "8"]
    assert pd.isna(codes.iloc[2])
    whole = code_texts(pd.Series([LARGE, None], dtype="Int64"))
    assert whole.iloc[0] == str(LARGE)
    assert code_texts(pd.Series([LARGE, "V27", 1.5, None], dtype=object)).tolist()[:3] == [
        str(LARGE),
        "V27",
        "1.5",
    ]
