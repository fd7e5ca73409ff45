"""Small files that claim to be large, things that are no files, and very many columns."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from openpyxl.cell import WriteOnlyCell
from PIL import Image

from fuzzing import limited
from tiny import TINY_IMAGES, TINY_TABLE
from understudy.data import read
from understudy.data.bounds import CELL_WEIGHT, OPTION
from understudy.data.tables import check_columns
from understudy.errors import DataError, PlanError, RecipeError, SchemaError
from understudy.schema import Categorical, Continuous, ImageSchema, TableSchema, load_schema, schema_to_toml

ONE = TableSchema((Continuous("a", 0, 1), Continuous("b", 0, 1)))
TEXTS = TableSchema(
    (
        Categorical("town", ("x", "other"), unknown="other"),
        Categorical("ward", ("x", "other"), unknown="other"),
    )
)

SOURCE = Path(__file__).parent.parent.parent / "src"
PEAKS = """
import resource, sys
from understudy.data import read
from understudy.records.encode import encode
from understudy.schema import load_schema
from pathlib import Path
schema = load_schema(Path(sys.argv[1]))
for path in sys.argv[2:]:
    encode(read(Path(path), schema), schema)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
"""Prints the most memory that was in use, in KiB, after each file."""


def dense_csv(folder: Path, rows: int, odd: str = "0,0\n") -> Path:
    """Two bytes for each cell, and a last row that may need the other reader of text."""
    (folder / "rows.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * (rows - 1) + odd.encode(), 1))
    return folder / "rows.csv.gz"


def dense_odd_csv(folder: Path, rows: int) -> Path:
    """The same with a cell that only the slower reader knows."""
    return dense_csv(folder, rows, "\u20030,0\n")


def dense_texts(folder: Path, rows: int) -> Path:
    """Texts of one letter."""
    pa_parquet.write_table(pa.table({"town": ["x"] * rows, "ward": ["y"] * rows}), folder / "rows.parquet")
    return folder / "rows.parquet"


def dense_arrow(folder: Path, rows: int) -> Path:
    """Packed zeros."""
    table = pa.table({"a": np.zeros(rows), "b": np.zeros(rows)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(folder / "rows.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    return folder / "rows.arrow"


@pytest.mark.parametrize(
    ("make", "schema"),
    [(dense_csv, ONE), (dense_odd_csv, ONE), (dense_texts, TEXTS), (dense_arrow, ONE)],
)
def test_what_is_accepted_takes_what_it_was_weighed_for(
    make: Any, schema: TableSchema, tmp_path: Path
) -> None:
    """The densest files take no more memory for each cell than the weight that decides whether they are read."""
    rows = 10**6
    (tmp_path / "schema.toml").write_text(schema_to_toml(schema))
    files = []
    for count in (1000, rows):
        (tmp_path / str(count)).mkdir()
        files.append(str(make(tmp_path / str(count), count)))
    done = subprocess.run(
        [sys.executable, "-c", PEAKS, str(tmp_path / "schema.toml"), *files],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    small, large = map(int, done.stdout.split())
    assert (large - small) * 1024 < 1.2 * (2 * rows) * CELL_WEIGHT


def swelling_csv(folder: Path) -> Path:
    """2 GiB of text in two megabytes."""
    path = folder / "rows.csv.gz"
    block = gzip.compress(b"0,0\n" * 2**22)
    path.write_bytes(gzip.compress(b"a,b\n") + block * 128)
    return path


def swelling_parquet(folder: Path) -> Path:
    """Eighty million cells of one value."""
    path = folder / "rows.parquet"
    group = pa.table({"a": np.zeros(10**6), "b": np.zeros(10**6)})
    with pa_parquet.ParquetWriter(path, group.schema, compression="zstd") as writer:
        for _ in range(40):
            writer.write_table(group)
    return path


def long_texts(folder: Path) -> Path:
    """A text of 20,000 letters that is stored once, in a hundred thousand rows: 2 GB in some kilobytes."""
    path = folder / "rows.parquet"
    group = pa.table({"town": ["x" * 20_000] * 2000, "ward": ["x"] * 2000})
    with pa_parquet.ParquetWriter(path, group.schema, compression="zstd") as writer:
        for _ in range(50):
            writer.write_table(group)
    return path


def swelling_arrow(folder: Path) -> Path:
    """Sixty million packed zeros."""
    path = folder / "rows.arrow"
    batch = pa.record_batch({"a": np.zeros(10**6), "b": np.zeros(10**6)})
    with pa.ipc.new_file(path, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(30):
            writer.write_batch(batch)
    return path


def many_keys(folder: Path) -> Path:
    """Every line of JSON has a key of its own: a table of 1.6 billion cells."""
    path = folder / "rows.jsonl"
    path.write_text("".join(f'{{"a{i}": 0}}\n' for i in range(40_000)))
    return path


def far_cells(folder: Path) -> Path:
    """Every row of a sheet has its one cell in the last column that there is."""
    path, book = folder / "rows.xlsx", openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    cell = WriteOnlyCell(sheet, value=1)
    for _ in range(2000):
        sheet.append([*[None] * 16_383, cell])
    book.save(path)
    return path


def swelling_npz(folder: Path) -> Path:
    """320 MiB of black images, which would be 1.6 GiB of numbers, in some hundred kilobytes."""
    path, rows = folder / "images.npz", 5 * 2**20
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("images.npy", "w") as entry,
    ):
        header = {"descr": "|u1", "fortran_order": False, "shape": (rows, 8, 8, 1)}
        np.lib.format.write_array_header_1_0(entry, header)
        for _ in range(32):
            entry.write(bytes(rows * 2))
    return path


def swelling_folder(folder: Path) -> Path:
    """A hundred black images of 16 million pixels, a few kilobytes each."""
    root = folder / "images"
    root.mkdir(parents=True)
    Image.fromarray(np.zeros((4096, 4096), np.uint8)).save(root / "0.png")
    for number in range(1, 100):
        os.link(root / "0.png", root / f"{number}.png")
    return root


@pytest.mark.parametrize(
    ("make", "schema"),
    [
        (swelling_csv, ONE),
        (swelling_parquet, ONE),
        (long_texts, TEXTS),
        (swelling_arrow, ONE),
        (many_keys, ONE),
        (far_cells, ONE),
        (swelling_npz, TINY_IMAGES),
        (swelling_folder, ImageSchema(4096, 4096)),
    ],
    ids=["csv.gz", "parquet", "parquet-long", "arrow", "jsonl", "xlsx", "npz", "png"],
)
def test_a_small_file_never_takes_much_memory(make: object, schema: object, tmp_path: Path) -> None:
    """A file of some megabytes that would take gibibytes is refused, with the option that allows it."""
    path = make(tmp_path)  # type: ignore[operator]
    pa.array(range(100))  # pyarrow takes its address space now, and not below
    with limited(60), pytest.raises(DataError, match=OPTION):
        read(path, schema)  # type: ignore[arg-type]


def test_the_bound_can_be_raised_and_lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has files that swell for a reason says so; a value that is no number is named."""
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,0\n" * 10**5))
    assert len(read(path, ONE)) == 10**5
    monkeypatch.setenv(OPTION, "0.001")
    with pytest.raises(DataError, match=OPTION):
        read(path, ONE)
    monkeypatch.setenv(OPTION, "1")
    assert len(read(path, ONE)) == 10**5
    monkeypatch.setenv(OPTION, "much")
    with pytest.raises(DataError, match="much"):
        read(path, ONE)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "name",
    ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "images-idx3-ubyte", "images-idx3-ubyte.gz", "p/a.png"],
)
def test_pipes_and_devices_are_not_read(kind: str, name: str, tmp_path: Path) -> None:
    """A pipe that nobody fills and a device that never ends are refused at once."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    schema = ONE if ".csv" in name or ".parquet" in name else TINY_IMAGES
    if name.endswith(".png"):
        path, schema = tmp_path / "p", ImageSchema(8, 8)
    with limited(20), pytest.raises(DataError):
        read(path, schema)


@pytest.mark.timeout(60)
def test_labels_of_images_are_a_plain_file_too(tmp_path: Path) -> None:
    """The file of labels beside an IDX file is not waited for."""
    (tmp_path / "images-idx3-ubyte").write_bytes(
        b"\0\0\x08\x03" + b"\0\0\0\x01\0\0\0\x08\0\0\0\x08" + bytes(64)
    )
    os.mkfifo(tmp_path / "labels-idx1-ubyte")
    with limited(20), pytest.raises(DataError, match="pipe"):
        read(tmp_path / "images-idx3-ubyte", TINY_IMAGES)


@pytest.mark.timeout(60)
def test_schemas_plans_and_recipes_are_plain_files(tmp_path: Path) -> None:
    """What describes a run is not read from a device either."""
    from understudy.cli.running import saved_plan
    from understudy.synthesizers.registry import find_recipe

    path = tmp_path / "a.toml"
    path.symlink_to("/dev/zero")
    with limited(20):
        with pytest.raises(SchemaError, match="device"):
            load_schema(path)
        with pytest.raises(PlanError, match="device"):
            saved_plan(path)
        with pytest.raises(RecipeError, match="device"):
            find_recipe(str(path))


@pytest.mark.timeout(60)
def test_a_hundred_thousand_columns_are_judged_at_once(tmp_path: Path) -> None:
    """Names are compared in one pass: a wide schema is made, and a wide file without a column is refused, at once."""
    names = [f"c{number}" for number in range(100_000)]
    with limited(30):
        wide = TableSchema(tuple(Continuous(name, 0, 1) for name in names))
        with pytest.raises(SchemaError, match="'c7' is declared 2 times"):
            TableSchema((*wide.columns, Continuous("c7", 0, 1)))
        check_columns("a.csv", names, wide)
        with pytest.raises(DataError, match="c99999"):
            check_columns("a.csv", names[:-1], wide)
        with pytest.raises(DataError, match="columns 8 and 100001"):
            check_columns("a.csv", [*names, "c7"], wide)
        (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join("0" * len(names)) + "\n")
        with pytest.raises(DataError, match="'missing'"):
            read(tmp_path / "a.csv", TableSchema((*wide.columns, Continuous("missing", 0, 1))))


def test_a_table_that_is_right_is_read(tmp_path: Path) -> None:
    """The bounds above are no obstacle to ordinary files."""
    rows = pd.DataFrame({"a": np.linspace(0, 1, 2000), "b": 0.5})
    rows.to_parquet(tmp_path / "a.parquet")
    rows.to_csv(tmp_path / "a.csv.gz", index=False)
    assert len(read(tmp_path / "a.parquet", ONE)) == len(read(tmp_path / "a.csv.gz", ONE)) == 2000
    assert TINY_TABLE.label == "outcome"
