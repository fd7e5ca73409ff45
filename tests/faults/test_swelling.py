"""Small files that claim to be large, things that are no files, and very many columns."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from PIL import Image

from fuzzing import limited
from tiny import TINY_IMAGES, TINY_TABLE
from understudy.data import read
from understudy.data.bounds import OPTION
from understudy.data.tables import check_columns
from understudy.errors import DataError, PlanError, RecipeError, SchemaError
from understudy.schema import Continuous, ImageSchema, TableSchema, load_schema

ONE = TableSchema((Continuous("a", 0, 1), Continuous("b", 0, 1)))


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
        (swelling_npz, TINY_IMAGES),
        (swelling_folder, ImageSchema(4096, 4096)),
    ],
    ids=["csv.gz", "parquet", "npz", "png"],
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
