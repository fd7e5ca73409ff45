"""The same three made-up people in every dialect under `messy/`, in other formats, and in memory."""

from __future__ import annotations

import datetime as dt
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from understudy.data import read
from understudy.data.checking import check
from understudy.data.draft import draft_schema
from understudy.data.places import places_of, without_secrets
from understudy.errors import DataError, SchemaError
from understudy.records.encode import encode
from understudy.schema import (
    Binary,
    Categorical,
    Continuous,
    Datetime,
    FileFormat,
    Integer,
    TableSchema,
    schema_from_toml,
    schema_to_toml,
)

MESSY = Path(__file__).parent / "messy"
SCHEMA = TableSchema(
    (
        Integer("age", 0, 120),
        Continuous("income", 0.0, 1e5, missing=True),
        Categorical("town", ("Köln", "Ulm")),
        Datetime("seen", dt.datetime(2020, 1, 1), dt.datetime(2022, 1, 1), missing=True),
        Binary("ill", ("no", "yes")),
    ),
    label="ill",
)
NAMES = ("age", "income", "town", "seen", "ill")
EXPECTED = encode(read(MESSY / "plain.csv", SCHEMA), SCHEMA)
DIALECTS: list[tuple[str, dict[str, Any]]] = [
    ("semicolon.csv", {"decimal": ",", "thousands": ".", "dates": ("%d.%m.%Y",)}),
    ("latin1.csv", {"encoding": "latin-1", "decimal": ",", "dates": ("%d.%m.%Y",)}),
    ("utf16.csv", {}),
    ("bom.csv", {}),
    (
        "bars.txt",
        {"dates": ("%m/%d/%Y",), "true_words": ("y",), "false_words": ("n",), "missing": ("?",)},
    ),
    ("uci.data", {"header": False, "names": NAMES, "missing": ("?",)}),
    ("blanks.data", {"header": False, "names": NAMES, "separator": " ", "quote": "'", "missing": ("-9",)}),
    ("comments.tsv", {"comment": "#"}),
    ("quoted.csv", {"thousands": ","}),
    ("rows.jsonl", {}),
]


def _schema(missing: tuple[str, ...] = TableSchema.missing_text, **file: Any) -> TableSchema:
    return replace(SCHEMA, file=FileFormat(**file), missing_text=missing)


@pytest.mark.parametrize(("name", "options"), DIALECTS, ids=[name for name, _ in DIALECTS])
def test_every_dialect_gives_the_same_arrays(name: str, options: dict[str, Any]) -> None:
    """Whatever way a file writes its cells, declared or in its header, the records are the same."""
    schema = _schema(**options)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    encoded = encode(read(MESSY / name, schema), schema)
    assert encoded.x.tolist() == EXPECTED.x.tolist()
    assert encoded.labels is not None
    assert encoded.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", sorted(path.name for path in MESSY.iterdir()))
def test_what_is_drafted_from_public_rows_fits_them(name: str, tmp_path: Path) -> None:
    """`draft --from-public` followed by `check` finds nothing to complain of, whatever the dialect."""
    options = {key: value for key, value in dict(DIALECTS).get(name, {}).items() if key != "missing"}
    options = {
        key: value
        for key, value in options.items()
        if key in ("header", "names", "separator", "quote", "comment")
    }
    if name.startswith("latin1."):
        options["encoding"] = "latin-1"
    schema = schema_from_toml(draft_schema(MESSY / name, from_public=True, file=FileFormat(**options)))
    assert isinstance(schema, TableSchema)
    checked = check(MESSY / name, schema)
    assert (checked.fits, checked.rows, checked.clipped, checked.unknown) == (True, 3, 0, 0)
    kinds = {column.name: type(column) for column in schema.columns}
    wanted = {"age": Integer, "income": Continuous, "ill": Binary}
    if name != "blanks.data":  # where -9 stands for empty, which nobody can guess
        assert wanted.items() <= kinds.items()


def test_what_the_header_tells_is_said() -> None:
    """Separator and encoding that nobody declared are taken from the header line, and noted."""
    notes = read(MESSY / "semicolon.csv", _schema(decimal=",", thousands=".", dates=("%d.%m.%Y",))).notes
    assert [note.split("messy/")[1] for note in notes] == ["semicolon.csv is separated by semicolons"]
    town = replace(SCHEMA.columns[2], name="städte")
    schema = replace(SCHEMA, columns=(SCHEMA.columns[0], town), label=None)
    records = read(MESSY / "latin1_header.csv", schema)
    assert records.frame["städte"].tolist() == ["Köln", "Ulm", "Ulm"]
    assert "cp1252" in records.notes[0]
    with pytest.raises(DataError, match="not utf-8 text throughout"):
        read(MESSY / "latin1.csv", _schema(decimal=",", dates=("%d.%m.%Y",)))


def test_nothing_is_sniffed_from_rows(tmp_path: Path) -> None:
    """Without a header there is no public part: separators must be declared, and no error shows a cell."""
    path = tmp_path / "bare.csv"
    path.write_text("31;secret;x\n87;other;y\n")
    schema = _schema(header=False, names=NAMES)
    with pytest.raises(DataError, match="row 1: it has more or fewer cells than the 5 columns") as problem:
        read(path, schema)
    assert "secret" not in str(problem.value)
    hand_written = replace(SCHEMA, file=FileFormat(separator=";"))
    with pytest.raises(DataError, match="it has 3 columns whose names look like data") as problem:
        read(path, hand_written)
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize(
    ("cell", "fits"),
    [("1.234,5", True), ("1234,5", True), ("12.34,5", False), ("1,234.5", False), ("1.5", False)],
)
def test_numbers_that_mix_conventions_are_refused(cell: str, fits: bool, tmp_path: Path) -> None:
    """A number that the declared marks do not explain is refused rather than read as another one."""
    schema = TableSchema(
        (Continuous("a", 0.0, 1e4),), file=FileFormat(separator=";", decimal=",", thousands=".")
    )
    path = tmp_path / "t.csv"
    path.write_text(f"a;b\n7;x\n{cell};y\n")
    if fits:
        assert read(path, schema).frame["a"].tolist() == ["7", "1234.5"]
        return
    with pytest.raises(DataError, match="column 'a', row 2: the value is not a number"):
        encode(read(path, schema), schema)


def _frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [31, 87, 54],
            "income": [1234.5, 20000, np.nan],
            "town": ["Köln", "Ulm", "Ulm"],
            "seen": pd.to_datetime(["2020-02-01", "2021-12-31", None]),
            "ill": ["no", "yes", "no"],
        }
    )


def _frames() -> dict[str, Any]:
    frame = _frame()
    nullable = frame.convert_dtypes()
    zoned = frame.assign(seen=frame["seen"].dt.tz_localize("UTC").dt.tz_convert("America/New_York"))
    exact = frame.assign(
        town=frame["town"].astype("category"), age=frame["age"].astype("int8"), ill=[False, True, False]
    )
    arrow = pa.Table.from_pandas(frame)
    return {
        "nullable": nullable,
        "zoned": zoned,
        "exact": exact,
        "arrow": arrow,
        "polars": pl.from_pandas(frame),
        "polars category": pl.from_pandas(exact),
        "pyarrow types": frame.convert_dtypes(dtype_backend="pyarrow"),
        "two frames": [frame.iloc[:1], frame.iloc[1:]],
        "frame and table": (frame.iloc[:2], arrow.slice(2)),
    }


@pytest.mark.parametrize("name", list(_frames()))
def test_everything_in_memory_gives_the_same_arrays(name: str) -> None:
    """pandas with any dtype, polars, pyarrow and lists of them are the same records."""
    encoded = encode(read(_frames()[name], SCHEMA), SCHEMA)
    assert encoded.x.tolist() == EXPECTED.x.tolist()
    assert encoded.labels is not None
    assert encoded.labels.tolist() == [0, 1, 0]


def _excel(path: Path, frame: pd.DataFrame) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["nothing here"])  # type: ignore[union-attr]
    sheet = book.create_sheet("people")
    sheet.append(list(frame.columns))
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False):
        sheet.append([value.to_pydatetime() if isinstance(value, pd.Timestamp) else value for value in row])
    book.save(path)


def test_every_kind_of_file_gives_the_same_arrays(tmp_path: Path) -> None:
    """Parquet, Arrow files and streams, Excel and packed text hold the same records."""
    frame, table = _frame(), pa.Table.from_pandas(_frame())
    pq.write_table(table, tmp_path / "t.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "t.feather")
    with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    _excel(tmp_path / "t.xlsx", frame)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((MESSY / "plain.csv").read_bytes()))
    for path in tmp_path.iterdir():
        schema = _schema(sheet="people") if path.suffix == ".xlsx" else SCHEMA
        assert encode(read(path, schema), schema).x.tolist() == EXPECTED.x.tolist(), path
        assert "lower" in draft_schema(path, file=schema.file)
    with pytest.raises(DataError, match="with a sheet 'nowhere'"):
        read(tmp_path / "t.xlsx", _schema(sheet="nowhere"))


def test_folders_patterns_and_addresses(tmp_path: Path) -> None:
    """Many files are one table: by folder, by pattern, by list, by address, with partitions in their paths."""
    frame = _frame()
    for i in range(3):
        frame.iloc[i : i + 1].to_csv(tmp_path / f"part{i}.csv", index=False)
    (tmp_path / "README.txt").write_text("about these files")
    for source in (
        tmp_path,
        f"{tmp_path}/part*.csv",
        [tmp_path / f"part{i}.csv" for i in range(3)],
        f"file://{tmp_path}",
    ):
        assert encode(read(source, SCHEMA), SCHEMA).x.tolist() == EXPECTED.x.tolist()
    hive = tmp_path / "hive"
    for i, row in frame.iterrows():
        folder = hive / f"town={row['town']}" / f"ill={row['ill']}"
        folder.mkdir(parents=True, exist_ok=True)
        frame.loc[[i]].drop(columns=["town", "ill"]).to_parquet(folder / f"{i}.parquet")  # type: ignore[list-item]
    rows = read(hive, SCHEMA).frame.sort_values("age")
    assert rows[["age", "town", "ill"]].to_numpy().tolist() == [
        [31, "Köln", "no"],
        [54, "Ulm", "no"],
        [87, "Ulm", "yes"],
    ]
    (tmp_path / "odd.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"several kinds \(\.csv, \.parquet\)"):
        places_of(tmp_path)
    with pytest.raises(DataError, match="no file matches"):
        read(f"{tmp_path}/none*.csv", SCHEMA)
    with pytest.raises(DataError, match="source 2 has other columns"):
        read([frame, frame.drop(columns="age")])


def test_buckets_are_read_and_their_secrets_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address goes to pyarrow's file system; a failure names the bucket without user, password or parameters."""
    (tmp_path / "rows").mkdir()
    _frame().to_parquet(tmp_path / "rows" / "a.parquet")
    inside = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    monkeypatch.setattr(pyarrow.fs, "FileSystem", type("F", (), {"from_uri": lambda uri: (inside, "rows")}))
    assert len(read("s3://key:secret@bucket/rows?region=x", SCHEMA)) == 3

    def fails(uri: str) -> Any:
        raise OSError(f"no such bucket: {uri}")

    monkeypatch.setattr(pyarrow.fs, "FileSystem", type("F", (), {"from_uri": fails}))
    with pytest.raises(DataError, match=r"cannot reach s3://bucket/rows\. Check") as problem:
        read("s3://key:secret@bucket/rows?token=y", SCHEMA)
    assert "secret" not in str(problem.value)
    assert without_secrets("postgresql://u:p@host:5432/db?password=q") == "postgresql://host:5432/db"


def test_json_and_excel_errors_name_the_line(tmp_path: Path) -> None:
    """A broken line is named by its number and not shown; a sheet without header is refused."""
    path = tmp_path / "t.jsonl"
    path.write_text('{"age": 1}\n{"age": secret}\n')
    with pytest.raises(DataError, match="line 2 is not a JSON object") as problem:
        read(path, SCHEMA)
    assert "secret" not in str(problem.value)
    _excel(tmp_path / "t.xlsx", _frame().set_axis([39, "a", "b", "c", "d"], axis=1))
    with pytest.raises(DataError, match="looks like data"):
        read(tmp_path / "t.xlsx", _schema(sheet="people"))
    (tmp_path / "broken.xlsx").write_bytes(b"PK no workbook")
    with pytest.raises(DataError, match=r"cannot read .* as an Excel file"):
        read(tmp_path / "broken.xlsx", SCHEMA)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ";;"}, "separator must be one character"),
        ({"decimal": ";"}, "decimal must be"),
        ({"thousands": "."}, "another character than decimal"),
        ({"separator": ",", "decimal": ","}, "both ','"),
        ({"encoding": "klingon"}, "'klingon' is not known"),
        ({"encoding": "base64"}, "'base64' is not known"),
        ({"header": False}, "need names"),
        ({"names": ("a", "b")}, "header = false"),
        ({"header": False, "names": ("a", "a")}, "must be different"),
        ({"dates": ("day.month",)}, "no form such as"),
        ({"true_words": ("Y",), "false_words": ("y",)}, "among true_words and false_words"),
    ],
)
def test_contradictions_about_files_are_refused(options: dict[str, Any], message: str) -> None:
    """What a file cannot be is said when the schema is made."""
    with pytest.raises(SchemaError, match=message):
        FileFormat(**options)
