"""Where files are: on this machine or in a bucket, alone, in a folder (of partitions), or many by a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from understudy.data.bounds import refuse_swelling
from understudy.errors import DataError
from understudy.files import plain_size

__all__ = ["Place", "TableKind", "places_of", "without_secrets"]

_BUCKETS = ("s3://", "gs://", "gcs://", "file://")
_PICTURES = (".png", ".jpg", ".jpeg")
_PACKED = (".gz", ".bz2", ".zst")
_END = 2**20
"""Bytes at each end of a file by which it is told from another."""
_HIVE_NONE = "__HIVE_DEFAULT_PARTITION__"


class TableKind:
    """Endings of the files of each kind."""

    TEXT = (".csv", ".tsv", ".tab", ".txt", ".data")
    JSON = (".jsonl", ".ndjson")
    PARQUET = (".parquet", ".pq")
    ARROW = (".arrow", ".feather", ".ipc")
    EXCEL = (".xlsx", ".xlsm")
    ALL = (*TEXT, *JSON, *PARQUET, *ARROW, *EXCEL)


@dataclass(frozen=True)
class Place:
    """One file of a table.

    Args:
        path: where it is in its file system.
        filesystem: of pyarrow; None for this machine.
        partitions: columns that the names of its folders tell, as in `year=2024/month=05`.
        group: of a Parquet file, the one group of rows that is meant; None for all.
    """

    path: str
    filesystem: Any = None
    partitions: tuple[tuple[str, str | None], ...] = ()
    group: int | None = None

    def __str__(self) -> str:
        return self.path if self.group is None else f"{self.path}, group {self.group + 1} of rows"

    @property
    def ending(self) -> str:
        """The ending of its name that tells the kind, without that of a packed file."""
        name = self.path.lower()
        for packed in _PACKED:
            name = name.removesuffix(packed)
        return Path(name).suffix

    def stream(self) -> Any:
        """Open it to be read once, unpacked."""
        self._check()
        if self.filesystem is None:
            return pa.input_stream(self.path, compression="detect")
        return self.filesystem.open_input_stream(self.path, compression="detect")

    def content(self, most: int | None = None) -> bytes:
        """Return the unpacked bytes, or the first of them."""
        try:
            with self.stream() as stream:
                found: bytes = stream.read(most)
                return found
        except (OSError, ValueError, pa.ArrowException) as cause:
            raise DataError(
                f"cannot read {self}; it is damaged or packed otherwise than its name says", str(cause)
            ) from None

    def random(self) -> Any:
        """Open it to be read anywhere."""
        self._check()
        return pa.OSFile(self.path) if self.filesystem is None else self.filesystem.open_input_file(self.path)

    @property
    def size(self) -> int:
        """How many bytes it has, packed as it is; 0 where a file system does not tell."""
        if self.filesystem is None:
            return plain_size(Path(self.path), error=DataError)
        return int(self.filesystem.get_file_info(self.path).size or 0)

    def ends(self) -> tuple[bytes, bytes, bytes]:
        """PRIVATE: the size of the file, its first bytes and its last, by which it is told from another."""
        size = self.size
        with self.random() as file:
            first = file.read(min(size, _END))
            file.seek(max(0, size - _END))
            return str(size).encode(), first, file.read(_END)

    def _check(self) -> None:
        if self.filesystem is not None:
            return
        if plain_size(Path(self.path), error=DataError) == 0:
            raise DataError(f"{self} is empty; expected a header and rows")
        refuse_swelling(Path(self.path))


def places_of(source: str | Path) -> list[Place] | None:
    """Return the files of a table that a path, pattern or address names; None if it names none that is a table."""
    text = str(source)
    if text.startswith(_BUCKETS):
        return _in_bucket(text)
    path = Path(source)
    if path.is_dir():
        files = [
            str(file)
            for file in sorted(path.rglob("*"))
            if file.is_file() and not _hidden(file.relative_to(path))
        ]
        return _of_one_kind(files, text, None, len(path.parts))
    if not path.exists() and any(mark in text for mark in "*?["):
        files = sorted(str(file) for file in Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not files:
            raise DataError(f"no file matches {text}")
        return _of_one_kind(files, text, None, 0)
    return [Place(text)] if Place(text).ending in TableKind.ALL else None


def without_secrets(address: str) -> str:
    """Return an address that may be shown: user, password and parameters are left out."""
    return re.sub(r"^([\w+.-]+://)([^/@]*@)?([^?]*)(\?.*)?$", r"\1\3", address)


def _in_bucket(address: str) -> list[Place]:
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(address)
        info = filesystem.get_file_info(path)
        if info.type is not fs.FileType.Directory:
            return [Place(path, filesystem)]
        inside = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ValueError, pa.ArrowException) as cause:
        raise DataError(
            f"cannot reach {without_secrets(address)}. Check the address, and the credentials in the environment.",
            str(cause),
        ) from None
    files = sorted(one.path for one in inside if one.type is fs.FileType.File)
    return _of_one_kind(files, without_secrets(address), filesystem, len(Path(path).parts)) or []


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _of_one_kind(files: list[str], shown: str, filesystem: Any, depth: int) -> list[Place] | None:
    """The files that hold the table; notes beside data of a clearer kind, or beside pictures, do not count."""
    found = [Place(file, filesystem, _partitions(file, depth)) for file in files]
    found = [place for place in found if place.ending in TableKind.ALL]
    clear = [place for place in found if place.ending not in (".txt", ".data")]
    if not clear and any(Path(file).suffix.lower() in _PICTURES for file in files):
        return None
    found = clear or found
    endings = sorted({place.ending for place in found})
    if len(endings) > 1:
        raise DataError(
            f"{shown} holds files of several kinds ({', '.join(endings)}); name one kind, as in {shown}/*{endings[0]}"
        )
    return found or None


def _partitions(file: str, depth: int) -> tuple[tuple[str, str | None], ...]:
    folders = [part for part in Path(file).parts[depth:-1] if "=" in part] if depth else []
    pairs = [folder.split("=", 1) for folder in folders]
    return tuple((name, None if value == _HIVE_NONE else unquote(value)) for name, value in pairs)
