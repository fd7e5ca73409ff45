"""Damaged data files of every kind that can be read: only typed errors, within ten seconds and one gibibyte each."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fuzzing import TooSlowError, assault, limited
from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images
from understudy.data import read
from understudy.errors import DataError, EvaluationError, LedgerError, SchemaError, UnderstudyError
from understudy.evaluation.result import Evaluation
from understudy.ledger.ledger import Ledger
from understudy.privacy.budget import Budget
from understudy.records.encode import encode
from understudy.schema import load_schema, schema_to_toml

TIMES = [pytest.param(40, id="few"), pytest.param(1300, id="many", marks=pytest.mark.slow)]


def csv_file(folder: Path) -> Path:
    """A table as text."""
    tiny_frame(20).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def packed_csv(folder: Path) -> Path:
    """A table as compressed text."""
    (folder / "rows.csv.gz").write_bytes(gzip.compress(tiny_frame(20).to_csv(index=False).encode()))
    return folder / "rows.csv.gz"


def parquet_file(folder: Path) -> Path:
    """A table in columns."""
    tiny_frame(20).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def npz_file(folder: Path) -> Path:
    """Images in an archive."""
    images = tiny_images(4)
    np.savez(folder / "images.npz", x=images.pixels, y=images.labels)
    return folder / "images.npz"


def packed_npz(folder: Path) -> Path:
    """Images in a compressed archive."""
    images = tiny_images(4)
    np.savez_compressed(folder / "images.npz", x=images.pixels, y=images.labels)
    return folder / "images.npz"


def idx_file(folder: Path) -> Path:
    """Images in the format of MNIST, with their labels beside them."""
    images = tiny_images(4)
    head = struct.pack(">BBBB3I", 0, 0, 8, 3, 4, 8, 8)
    (folder / "train-images-idx3-ubyte").write_bytes(head + images.pixels.tobytes())
    assert images.labels is not None
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 4) + images.labels.astype(np.uint8).tobytes()
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)
    return folder / "train-images-idx3-ubyte"


def png_file(folder: Path) -> Path:
    """A picture in the folder of its class."""
    for name in ("ring", "bar"):
        (folder / "pictures" / name).mkdir(parents=True)
        pixels = tiny_images(1).pixels[0, :, :, 0]
        Image.fromarray(pixels).save(folder / "pictures" / name / "1.png")
    return folder / "pictures" / "ring" / "1.png"


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(
    "make", [csv_file, packed_csv, parquet_file, npz_file, packed_npz, idx_file, png_file]
)
def test_mutated_records_give_data_errors(make: Callable[[Path], Path], tmp_path: Path, times: int) -> None:
    """A damaged file of records is refused with a DataError, or its rows still fit the schema."""
    path = make(tmp_path)
    table = path.suffix in {".csv", ".gz", ".parquet"}
    schema, source = (TINY_TABLE, path) if table else (TINY_IMAGES, path)
    if make is png_file:
        source = tmp_path / "pictures"
    assert len(encode(read(source, schema), schema)) > 0

    def attempt(blob: bytes) -> object:
        path.write_bytes(blob)
        return encode(read(source, schema), schema)

    assert assault(path.read_bytes(), attempt, DataError, times, seed=6) > times / 5


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("schema", [TINY_TABLE, TINY_IMAGES], ids=["table", "images"])
def test_mutated_schemas_give_schema_errors(schema: object, tmp_path: Path, times: int) -> None:
    """A damaged schema file is refused with a SchemaError, or is another schema."""
    path = tmp_path / "schema.toml"
    content = schema_to_toml(schema).encode()  # type: ignore[arg-type]

    def attempt(blob: bytes) -> object:
        path.write_bytes(blob)
        return load_schema(path)

    assert assault(content, attempt, SchemaError, times, seed=7) > times / 3


@pytest.mark.parametrize("times", TIMES)
def test_mutated_ledgers_give_ledger_errors(tmp_path: Path, times: int) -> None:
    """A damaged ledger is refused with a LedgerError, or every record is as it was."""
    path = tmp_path / "ward.db"
    with Ledger(path, create=True) as book:
        book.register("ward", Budget(3.0, 1e-5))
        expected = book.statement("ward")
    content = path.read_bytes()

    def attempt(blob: bytes) -> object:
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        path.write_bytes(blob)
        with Ledger(path) as again:
            again.verify()
            assert again.statement("ward") == expected, "a changed record was believed"
        return again

    assert assault(content, attempt, LedgerError, times, seed=8) > times / 5


@pytest.mark.parametrize("times", TIMES)
def test_mutated_evaluations_give_evaluation_errors(times: int) -> None:
    """A damaged evaluation is refused with an EvaluationError, or is another one."""
    content = Evaluation((), synthetic_rows=3, test_rows=4, seed=0, notes=("a note",)).to_json().encode()
    assault(
        content, lambda blob: Evaluation.from_json(blob.decode("utf-8", "replace")), EvaluationError, times, 9
    )


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    """An archive with a pickled array is refused before anything in it could run."""
    path = tmp_path / "images.npz"
    np.savez(path, x=np.array([{"a": 1}, None], dtype=object), y=np.zeros(2, int))
    with pytest.raises(DataError):
        read(path, TINY_IMAGES)


@pytest.mark.parametrize("suffix", ["rows.csv.gz", "images-idx3-ubyte.gz"])
def test_an_archive_that_swells_is_refused(tmp_path: Path, suffix: str) -> None:
    """A small archive that unpacks to gibibytes is refused, or read within bounds, but fills no memory."""
    path = tmp_path / suffix
    path.write_bytes(gzip.compress(b"\x00" * 2**24) * 128)  # members of an archive follow each other
    schema = TINY_TABLE if "csv" in suffix else TINY_IMAGES
    with limited(60), pytest.raises(UnderstudyError):
        read(path, schema)


def test_the_limits_can_fail() -> None:
    """A wait and a large allocation are noticed, so the tests above mean something."""
    with pytest.raises(TooSlowError), limited(0.05):
        time.sleep(1)
    with pytest.raises(MemoryError), limited():
        np.ones(2**28)
