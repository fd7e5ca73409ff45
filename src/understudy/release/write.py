"""Synthetic records to files: CSV, Parquet, npz, or a PNG grid to look at; never a half-written file."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from understudy import files
from understudy.errors import ReleaseError
from understudy.escaping import for_spreadsheet
from understudy.records.images import Images
from understudy.records.written import as_written, csv_options, text_encoding
from understudy.release.picture_files import write_picture_folder, write_sheet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any, TextIO

    import pandas as pd

    from understudy.schema import Schema

__all__ = [
    "csv_pieces",
    "image_grid",
    "json_pieces",
    "print_records",
    "spreadsheet_safe",
    "write_grid",
    "write_records",
]

_TABLE_ENDINGS = (".csv", ".parquet")
_IMAGE_ENDINGS = (".npz", ".png")


def write_records(
    chunks: Iterator[pd.DataFrame | Images],
    path: Path,
    *,
    schema: Schema | None = None,
    raw_text: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Write chunks to the file that the path's ending names and return how many records it holds.

    Tables go to .csv or .parquet, images to .npz, to a new folder of PNG files by class (a path without ending) or,
    as a picture to look at with one class per row, .png. Tables are written chunk by
    chunk, so any number of rows fits into memory.

    Args:
        chunks: what `sample_chunks` yields.
        path: where to; replaced if it exists.
        schema: text files are written as its table [file] says, with its mark for empty cells.
        raw_text: leave text in a .csv that a spreadsheet would compute as it is; by default such a cell (or heading)
            gets an apostrophe before it. Numbers are never touched, and other kinds of files hold all text as it is.
        on_progress: called with the number of records after each chunk, for a progress bar.

    Raises:
        ReleaseError: the ending does not fit the records, or the disk refuses.
    """
    first = next(chunks)
    is_image = isinstance(first, Images)
    if is_image and path.suffix == "":
        return write_picture_folder(_counted(first, chunks, on_progress), path, schema)
    if path.suffix not in _TABLE_ENDINGS + _IMAGE_ENDINGS:
        raise ReleaseError(
            f"{path.name}: unknown ending. Use .csv or .parquet for tables; .npz, .png or a folder for images."
        )
    if is_image != (path.suffix in _IMAGE_ENDINGS):
        fitting = _IMAGE_ENDINGS if is_image else _TABLE_ENDINGS
        kind = "images" if is_image else "a table"
        raise ReleaseError(f"{path.name}: the release makes {kind}; use {' or '.join(fitting)}.")
    counted = _counted(first, chunks, on_progress)
    files.remove_leftovers(path)
    with files.replacing(path, error=ReleaseError) as work:
        if path.suffix == ".csv":
            with work.open("w", encoding=text_encoding(schema), newline="") as file:
                return print_records(counted, file, as_json=False, schema=schema, raw_text=raw_text)
        if path.suffix == ".png":
            return write_sheet(counted, work, schema)
        return {".parquet": _parquet, ".npz": _npz}[path.suffix](counted, work)


def print_records(
    chunks: Iterator[pd.DataFrame | Images],
    stream: TextIO,
    *,
    as_json: bool,
    schema: Schema | None = None,
    raw_text: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Write the rows of a table to a stream, as CSV or as a JSON list of objects; returns how many there are.

    Arguments are those of `write_records`, whose text files look the same.

    Raises:
        ReleaseError: the records are images, which have no such form.
    """
    first = next(chunks)
    if isinstance(first, Images):
        raise ReleaseError("images cannot be written to standard output; use --out with .npz or .png.")
    written = 0

    def count(records: int) -> None:
        nonlocal written
        written += records
        if on_progress is not None:
            on_progress(records)

    counted = _counted(first, chunks, count)
    stream.writelines(json_pieces(counted) if as_json else csv_pieces(counted, schema, raw_text=raw_text))
    return written


def spreadsheet_safe(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before headings and text cells that a spreadsheet would compute."""
    safe = frame.rename(columns=lambda name: for_spreadsheet(str(name)))
    for place, kind in enumerate(frame.dtypes):
        if getattr(kind, "kind", "O") in "biufcmM":
            continue
        column = frame.iloc[:, place]
        changed = {
            text: for_spreadsheet(text)
            for text in column.dropna().unique()
            if isinstance(text, str) and for_spreadsheet(text) != text
        }
        if changed:
            plain = column.astype(object)
            safe.isetitem(place, [changed.get(cell, cell) for cell in plain])
    return safe


def _counted(first: Any, rest: Iterator[Any], on_progress: Callable[[int], None] | None) -> Iterator[Any]:
    for chunk in _chain(first, rest):
        yield chunk
        if on_progress is not None:
            on_progress(len(chunk))


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def csv_pieces(chunks: Iterator[Any], schema: Schema | None, *, raw_text: bool = False) -> Iterator[str]:
    """The text of a .csv file, one piece per chunk; arguments as for `write_records`."""
    options = csv_options(schema)
    for chunk in chunks:
        table = as_written(chunk, schema)
        yield (table if raw_text else spreadsheet_safe(table)).to_csv(index=False, **options)
        options["header"] = False


def json_pieces(chunks: Iterator[Any]) -> Iterator[str]:
    """A JSON list of objects, one piece per chunk."""
    before = "[\n"
    for chunk in chunks:
        rows = chunk.to_json(orient="records", lines=True, force_ascii=False).rstrip("\n").split("\n")
        yield before + ",\n".join(rows)
        before = ",\n"
    yield "\n]\n"


def _parquet(chunks: Iterator[Any], path: Path) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    written, writer = 0, None
    try:
        for chunk in chunks:
            table = pa.Table.from_pandas(
                chunk, preserve_index=False, schema=writer.schema if writer else None
            )
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            written += len(chunk)
    finally:
        if writer is not None:
            writer.close()
    return written


def _npz(chunks: Iterator[Any], path: Path) -> int:
    """Pixels go through a file beside the target, so that any number of images fits into memory."""
    labels: list[Any] = []
    written, shape = 0, ()
    with tempfile.TemporaryFile(dir=path.parent) as pixels:
        for chunk in chunks:
            pixels.write(np.ascontiguousarray(chunk.pixels).tobytes())
            labels += [] if chunk.labels is None else [chunk.labels]
            written, shape = written + len(chunk), chunk.pixels.shape[1:]
        pixels.seek(0)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("images.npy", "w", force_zip64=True) as entry:
                header = {"descr": "|u1", "fortran_order": False, "shape": (written, *shape)}
                np.lib.format.write_array_header_1_0(entry, header)
                shutil.copyfileobj(pixels, entry)
            if labels:
                with archive.open("labels.npy", "w") as entry:
                    np.lib.format.write_array(entry, np.concatenate(labels), allow_pickle=False)
    return written


def image_grid(images: Images, columns: int = 10, margin: int = 1) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """All images side by side, `columns` in a row, on a white ground."""
    count, height, width, channels = images.pixels.shape
    rows = -(-count // columns)
    grid = np.full(
        (rows * (height + margin) + margin, columns * (width + margin) + margin, channels), 255, np.uint8
    )
    for index, picture in enumerate(images.pixels):
        top = margin + (index // columns) * (height + margin)
        left = margin + (index % columns) * (width + margin)
        grid[top : top + height, left : left + width] = picture
    return grid


def write_grid(images: Images, path: Path, columns: int = 10) -> None:
    """Write a grid of images as PNG, enlarged so that small images can be seen."""
    from PIL import Image

    grid = image_grid(images, columns)
    picture = Image.fromarray(grid[:, :, 0] if grid.shape[2] == 1 else grid)
    scale = max(1, 800 // max(picture.size))
    picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST).save(
        path, "PNG"
    )
