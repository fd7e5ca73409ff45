"""How much memory reading a file may take: a packed file of some megabytes can claim to hold gibibytes.

Files are weighed before they are read, or where only reading tells, while they are read. What their cells weigh once
they are encoded must stay below a bound that grows with the file; who has such files raises it by the environment
variable `UNDERSTUDY_READ_GIB`. The weights are those of the densest files that were measured
(`tests/faults/test_swelling.py`).
"""

from __future__ import annotations

import functools
import os
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import DataError
from understudy.files import plain_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["CELL_WEIGHT", "PIXEL_WEIGHT", "refuse_swelling", "refuse_swollen", "with_plain_texts"]

OPTION = "UNDERSTUDY_READ_GIB"
PIXEL_WEIGHT = 5
"""A byte of an image is read as it is, and becomes four bytes of a number."""

CELL_WEIGHT = 56
"""A cell of a column, in pyarrow, in pandas and as a number; its text comes on top."""

_OBJECT_WEIGHT = 240
"""A cell of a line of JSON, as objects of Python."""

_XML_WEIGHT = 6
"""A byte of a spreadsheet's XML, of which a cell takes dozens."""

_LEAST, _GROWTH = 2**30, 64
_BLOCK = 2**20
_PACKED, _ZIPPED, _PARQUET = (".gz", ".bz2", ".zst"), (".xlsx", ".xlsm"), (".parquet", ".pq")
_ARROW, _JSON = (".arrow", ".feather", ".ipc"), (".jsonl", ".ndjson")
_SEPARATORS = (b",", b";", b"\t", b"|")


def refuse_swollen(memory: int, packed: int, place: str) -> None:
    """Refuse what would take more memory than a file of this length may.

    Args:
        memory: bytes that reading would take.
        packed: the length of the file, or of all files.
        place: what the error names.
    """
    most = _allowed(packed)
    if memory > most:
        raise DataError(
            f"reading {place} would take {memory / 2**30:.1f} GiB or more, but a file of {packed:,} bytes may take "
            f"{most / 2**30:.1f}. If it is right, allow more: {OPTION}={memory / 2**30 * 2:.0f}"
        )


def _allowed(packed: int) -> int:
    asked = os.environ.get(OPTION)
    try:
        return max(_LEAST, _GROWTH * packed) if asked is None else int(float(asked) * 2**30)
    except (ValueError, OverflowError):
        raise DataError(f"{OPTION} is {asked!r}; expected a number of GiB, such as 16") from None


def refuse_swelling(path: Path) -> None:
    """Weigh a table in a packed, zipped or columnar file of this machine; pipes, devices and folders are refused."""
    size = plain_size(path, error=DataError)
    _weigh(path, size, path.stat().st_mtime_ns, _allowed(size))


@functools.lru_cache(maxsize=256)
def _weigh(path: Path, size: int, _changed: int, most: int) -> None:
    """Once for each file, however often it is opened."""
    ending = path.suffix.lower()
    if ending in _PACKED:
        each = _OBJECT_WEIGHT if path.with_suffix("").suffix.lower() in _JSON else CELL_WEIGHT
        refuse_swollen(_unpacked(path, each, most), size, str(path))
    elif ending in _ZIPPED:
        refuse_swollen(_zipped(path) * _XML_WEIGHT, size, str(path))
    elif ending in _PARQUET:
        refuse_swollen(_cells(path) * CELL_WEIGHT, size, str(path))
    elif ending in _ARROW:
        refuse_swollen(_buffers(path), size, str(path))


def _unpacked(path: Path, each: int, most: int) -> int:
    """What text and cells of a packed file weigh, counted until it is too much; damage is left to the reader."""
    total = 0
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while total <= most and (block := stream.read(_BLOCK)):
                cells = block.count(b"\n") + max(block.count(mark) for mark in _SEPARATORS)
                total += 2 * len(block) + cells * each
    except (pa.ArrowException, OSError):
        return total
    return total


def _zipped(path: Path) -> int:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return 0


def _cells(path: Path) -> int:
    import pyarrow.parquet as pa_parquet

    try:
        found: Any = pa_parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        return 0
    return int(found.num_rows * found.num_columns)


_BUFFER_GROWTH = CELL_WEIGHT // 8
"""What the encoded cells of a buffer weigh for each of its bytes, if these are numbers."""


def _buffers(path: Path) -> int:
    """What the buffers of an Arrow file, which say how long they are, weigh once they are unpacked and encoded."""
    from pyarrow import ipc

    total = 0
    try:
        with pa.memory_map(str(path)) as source:
            if source.read(6) == b"ARROW1":
                source.seek(8)  # the file holds a stream behind its magic
            else:
                source.seek(0)
            for message in ipc.MessageReader.open_stream(source):
                if message.type == "record batch" and message.body is not None:
                    total += sum(_lengths(memoryview(message.metadata), memoryview(message.body)))
    except (pa.ArrowException, OSError, struct.error, ValueError):
        return total * _BUFFER_GROWTH
    return total * _BUFFER_GROWTH


def _lengths(metadata: memoryview, body: memoryview) -> Iterator[int]:
    """The unpacked lengths of the buffers of a batch; a packed one begins with it (see the Arrow columnar format)."""

    def field(table: int, number: int) -> int | None:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, vtable)[0]
        place = 4 + 2 * number
        offset = struct.unpack_from("<H", metadata, vtable + place)[0] if place < size else 0
        return table + offset if offset else None

    def followed(place: int | None) -> int:
        if place is None:
            raise ValueError("a message without a header")
        return int(place + struct.unpack_from("<I", metadata, place)[0])

    batch = followed(field(followed(0), 2))
    packed = field(batch, 3) is not None
    buffers = followed(field(batch, 2))
    for number in range(struct.unpack_from("<I", metadata, buffers)[0]):
        offset, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * number)
        said = struct.unpack_from("<q", body, offset)[0] if packed and length >= 8 else -1
        yield length if said < 0 else said


def with_plain_texts(table: Any, texts: set[str], packed: int, place: str) -> Any:
    """These columns, which were read as dictionaries, as plain texts, unless that would take too much memory.

    One long text that all rows have is stored once, and would be once for each row here.

    Args:
        table: of pyarrow.
        texts: names of columns.
        packed: the length of the file.
        place: what the error names.
    """
    total, found = 0, [i for i, field in enumerate(table.schema) if field.name in texts]
    for i in found:
        for chunk in table.column(i).chunks:
            lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
            total += pc.sum(lengths).as_py() or 0
    refuse_swollen(2 * total, packed, place)
    for i in found:
        column = table.column(i)
        table = table.set_column(i, table.schema.field(i).name, column.cast(column.type.value_type))
    return table
