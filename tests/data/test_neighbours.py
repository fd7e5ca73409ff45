"""One record more changes nothing about how the others are read, whatever its cells hold."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data import read
from understudy.data.codes import code_texts
from understudy.data.databases import Database
from understudy.records.columns import examine
from understudy.records.encode import encode
from understudy.schema import Categorical, Continuous, Integer, TableSchema

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


def as_frames(rows: list[tuple[Any, ...]], folder: Path) -> Any:
    names = [column.name for column in SCHEMA.columns]
    return [pd.DataFrame(part, columns=names) for part in (rows[:30], rows[30:])]


@pytest.mark.parametrize(
    ("make", "odd"),
    [
        *((make, odd) for make in (as_sqlite, as_jsonl) for odd in (*ODD, *TEXT, (1.5, 7, True, 2.0))),
        *((make, odd) for make in (as_parquet, as_folder) for odd in ODD),
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
