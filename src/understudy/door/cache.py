"""PRIVATE: encoded records on disk, for data that memory cannot hold.

The file has no name: it is readable by its owner only, appears in no folder, and is gone when the process is, however
that ends. Categories and flags are kept as small whole numbers, numbers as float32, and of codes only those that a
record has; a batch that is read has bit for bit what the encoder gave. Nothing of the file is mapped, so the memory of
a run does not grow with it (of code sets by eight bytes a record).
"""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.door.source import Rows
from understudy.errors import DataError
from understudy.records.encode import Activation, encoded_shape, spans
from understudy.schema import CodeSchema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from understudy.records.encode import Encoded, Span
    from understudy.schema import Schema

__all__ = ["RowCache"]


class RowCache:
    """Encoded records of a table or of code sets, appended batch by batch and then read from anywhere.

    Args:
        schema: what a record looks like.
        folder: where the file is put; None takes the system's folder for temporary files.

    Raises:
        DataError: the folder cannot be written to.
    """

    def __init__(self, schema: Schema, folder: Path | None = None) -> None:
        self._layout = _Codes(schema) if isinstance(schema, CodeSchema) else _Layout(schema)
        self._folder = folder
        self._records, self._labels = self._new_file(), self._new_file()
        self._count, self._labelled = 0, schema.label_classes is not None

    def _new_file(self) -> _NamelessFile:
        try:
            return _NamelessFile(self._folder)
        except OSError as problem:
            raise DataError(f"{self._place} cannot hold a working copy of the data: {problem}.") from problem

    @property
    def _place(self) -> str:
        return str(self._folder or tempfile.gettempdir())

    def append(self, encoded: Encoded) -> None:
        """Add records after those that are there.

        Raises:
            DataError: the disk is full.
        """
        try:
            self._records.append(self._layout.packed(encoded.x))
            if encoded.labels is not None:
                self._labels.append(encoded.labels.astype(np.int32))
        except OSError as problem:
            raise DataError(
                f"{self._place} cannot hold the working copy of the data: {problem}. Choose another folder with "
                "--cache."
            ) from problem
        self._count += len(encoded)

    def rows(self) -> Rows:
        """All records; the file lives as long as they do."""
        layout = self._layout
        x: Any
        if isinstance(layout, _Codes):
            x = _SetsOnDisk(self._records, layout, layout.ends())
        else:
            x = _OnDisk(self._records, self._count, layout.dtype, layout)
        labels: Any = _OnDisk(self._labels, self._count, np.dtype(np.int32)) if self._labelled else None
        return Rows(x, labels)


class _NamelessFile:
    """A file that no folder shows, readable by its owner only, which ends with this object or its process.

    Args:
        folder: whose disk holds it; None takes the system's folder for temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self.handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.handle)

    def append(self, array: NDArray[Any]) -> None:
        """Write after what is there."""
        left = memoryview(array.tobytes())
        while left:
            left = left[os.write(self.handle, left) :]

    def read_into(self, view: memoryview, start: int) -> None:
        """Fill the view from this byte on.

        Raises:
            DataError: the file is shorter than it was written.
        """
        while view:
            got = os.preadv(self.handle, [view], start)
            if not got:
                raise DataError("the working copy of the data was cut while it was in use.")
            view, start = view[got:], start + got


class _Layout:
    """How one record is packed: numbers as float32, and whole numbers in one or two bytes."""

    def __init__(self, schema: Schema) -> None:
        self._width = encoded_shape(schema)[0]
        self._choices: list[tuple[Span, str, int]] = []
        self._numbers: list[int] = []
        self._flags: list[int] = []
        sizes = {"numbers": 0, "small": 0, "large": 0}
        for span in spans(schema):
            if span.activation is Activation.TANH:
                self._numbers.append(span.start)
            elif span.activation is Activation.SIGMOID:
                self._flags.append(span.start)
            else:
                kind = "small" if span.width <= 2**8 else "large"
                self._choices.append((span, kind, sizes[kind]))
                sizes[kind] += 1
        sizes["numbers"] = len(self._numbers)
        self._first_flag = sizes["small"]
        sizes["small"] += len(self._flags)
        kinds = {"numbers": np.float32, "small": np.uint8, "large": np.uint16}
        self.dtype = np.dtype([(name, kinds[name], (size,)) for name, size in sizes.items() if size])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one unpacked record."""
        return (self._width,)

    def packed(self, x: NDArray[np.float32]) -> NDArray[Any]:
        """Encoded records in few bytes."""
        rows = np.empty(len(x), dtype=self.dtype)
        if self._numbers:
            rows["numbers"] = x[:, self._numbers]
        for span, kind, place in self._choices:
            rows[kind][:, place] = x[:, span.slice].argmax(axis=1)
        if self._flags:
            rows["small"][:, self._first_flag :] = x[:, self._flags]
        return rows

    def unpacked(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """What `packed` was given."""
        x = np.zeros((len(rows), self._width), dtype=np.float32)
        if self._numbers:
            x[:, self._numbers] = rows["numbers"]
        everyone = np.arange(len(rows))
        for span, kind, place in self._choices:
            x[everyone, span.start + rows[kind][:, place].astype(np.int64)] = 1
        if self._flags:
            x[:, self._flags] = rows["small"][:, self._first_flag :]
        return x


class _Codes:
    """How code sets are packed: what each record has, and nothing of what it has not."""

    def __init__(self, schema: CodeSchema) -> None:
        self.shape = encoded_shape(schema)
        self._levels = np.linspace(0, 1, schema.max_count + 1, dtype=np.float32)
        code, count = (np.min_scalar_type(most) for most in (self.shape[0], schema.max_count))
        self.dtype = np.dtype([("code", code), ("count", count)])
        self._lengths: list[NDArray[np.int64]] = []

    def packed(self, x: NDArray[np.float32]) -> NDArray[Any]:
        """The codes of these records, one after the other; how many each has is remembered."""
        record, code = x.nonzero()
        found = np.empty(len(record), dtype=self.dtype)
        found["code"] = code
        found["count"] = np.rint(x[record, code] * (len(self._levels) - 1))
        self._lengths.append(np.bincount(record, minlength=len(x)))
        return found

    def ends(self) -> NDArray[np.int64]:
        """Where the codes of each record begin, and at last how many there are."""
        return np.concatenate([[0], *self._lengths]).cumsum()

    def unpacked(self, found: NDArray[Any], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """The records that have these codes."""
        x = np.zeros((len(lengths), *self.shape), dtype=np.float32)
        x[np.repeat(np.arange(len(lengths)), lengths), found["code"]] = self._levels[found["count"]]
        return x


@dataclass(frozen=True, eq=False)
class _SetsOnDisk:
    """Code sets in a file, of which slices and rows are read when they are asked for.

    Args:
        file: holds the codes of all records.
        layout: unpacks them.
        ends: where the codes of each record begin, and at last how many there are.
    """

    file: _NamelessFile
    layout: _Codes
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array in memory."""
        return (len(self), *self.layout.shape)

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        rows = np.arange(*chosen.indices(len(self))) if isinstance(chosen, slice) else chosen
        stretches = [(int(self.ends[a]), int(self.ends[a + n] - self.ends[a])) for a, n in _stretches(rows)]
        found = _read(self.file, self.layout.dtype, stretches)
        return self.layout.unpacked(found, self.ends[rows + 1] - self.ends[rows])


@dataclass(frozen=True, eq=False)
class _OnDisk:
    """An array in a file, of which slices and rows are read when they are asked for.

    Args:
        file: holds it.
        count: how many rows.
        dtype: of one row.
        layout: unpacks rows; None if they are what is wanted.
    """

    file: _NamelessFile
    count: int
    dtype: np.dtype[Any]
    layout: _Layout | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array in memory."""
        return (self.count, *(() if self.layout is None else self.layout.shape))

    def __getitem__(self, chosen: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(chosen, slice):
            start, stop, step = chosen.indices(self.count)
            rows = _read(self.file, self.dtype, [(start, max(start, stop) - start)])[::step]
        else:
            rows = _read(self.file, self.dtype, _stretches(chosen))
        return rows if self.layout is None else self.layout.unpacked(rows)


def _read(file: _NamelessFile, dtype: np.dtype[Any], stretches: Sequence[tuple[int, int]]) -> NDArray[Any]:
    """What stands in a file in these stretches: (first, how many)."""
    size = dtype.itemsize
    found = bytearray(size * sum(length for _, length in stretches))
    view = memoryview(found)
    for start, length in stretches:
        file.read_into(view[: length * size], start * size)
        view = view[length * size :]
    return np.frombuffer(found, dtype=dtype)


def _stretches(indices: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Indices as stretches of neighbours, in their order: (first, how many)."""
    if not len(indices):
        return []
    begins = np.flatnonzero(np.diff(indices, prepend=indices[0] - 2) != 1)
    lengths = np.diff(begins, append=len(indices))
    return list(zip(indices[begins].tolist(), lengths.tolist(), strict=True))
