"""How much memory reading a file may take: a packed file of some megabytes can claim to hold gibibytes.

Files are weighed before they are read. What they claim or unpack to, times what the records of such a file weigh once
they are encoded, must stay below a bound that grows with the file; who has such files raises it by the environment
variable `UNDERSTUDY_READ_GIB`.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.errors import DataError
from understudy.files import plain_size

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PIXEL_WEIGHT", "refuse_swelling", "refuse_swollen"]

OPTION = "UNDERSTUDY_READ_GIB"
PIXEL_WEIGHT = 5
"""A byte of an image is read as it is, and becomes four bytes of a number."""

_TEXT_WEIGHT = 6
"""A cell of two bytes of text becomes eight of a number, in pyarrow and in pandas."""

_CELL_WEIGHT = 16
"""A cell of a column, in pyarrow and in pandas."""

_LEAST, _GROWTH = 2**30, 64
_BLOCK = 2**20
_PACKED, _ZIPPED, _COLUMNAR = (".gz", ".bz2", ".zst"), (".xlsx", ".xlsm"), (".parquet", ".pq")


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
        refuse_swollen(_unpacked(path, most // _TEXT_WEIGHT) * _TEXT_WEIGHT, size, str(path))
    elif ending in _ZIPPED:
        refuse_swollen(_zipped(path) * _TEXT_WEIGHT, size, str(path))
    elif ending in _COLUMNAR:
        refuse_swollen(_cells(path) * _CELL_WEIGHT, size, str(path))


def _unpacked(path: Path, most: int) -> int:
    """How many bytes a packed file holds, counted until there are too many; damage is left to the reader."""
    total = 0
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while total <= most and (block := stream.read(_BLOCK)):
                total += len(block)
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
