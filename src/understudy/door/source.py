"""Records as arrays, in memory or mapped from a file; only the rows that are taken are read."""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.door.persons import Persons
from understudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt
    from torch import Tensor

    from understudy.records.encode import Encoded
    from understudy.schema import Schema

__all__ = ["Rows"]


_CAN_READ = hasattr(os, "preadv") and hasattr(os, "posix_fadvise")


@dataclass(frozen=True)
class Rows:
    """Records as arrays; memory-mapped arrays are fine, only the rows of a batch are read.

    Args:
        x: an array or tensor whose first axis counts the rows.
        labels: one integer per row, or None.
        persons: whose the rows are; None if every row is a person of its own.
        words: for columns of texts that nobody listed, the texts that their numbers in `x` stand for.
    """

    x: npt.NDArray[np.floating] | Tensor
    labels: npt.NDArray[np.integer] | Tensor | None = None
    persons: Persons | None = None
    words: Mapping[int, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _file: RowFile | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Batches jump through the file; reading ahead of each row would cost far more than the row.
        mapped = getattr(self.x, "_mmap", None)
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)
        object.__setattr__(self, "_file", RowFile.behind(self.x))

    @classmethod
    def of(cls, encoded: Encoded, schema: Schema) -> Rows:
        """PRIVATE: encoded records with the persons of the schema, of whom at most so many rows take part as it says.

        Raises:
            DataError: the schema names persons, and the records came without.
        """
        x = torch.from_numpy(encoded.x)
        labels = None if encoded.labels is None else torch.from_numpy(encoded.labels)
        if not schema.person_columns:
            return cls(x, labels)
        return cls(x, labels).of_persons(encoded.persons, schema)

    def of_persons(self, numbers: npt.NDArray[np.integer] | None, schema: Schema) -> Rows:
        """The same rows, with the number of each one's person.

        Raises:
            DataError: there are no numbers.
        """
        if numbers is None:
            raise DataError(
                f"the schema says that {' and '.join(map(repr, schema.person_columns))} tells persons apart, and the "
                "data has no such column (for images: no such array in the .npz file, or no persons.csv in the folder)."
            )
        assert schema.max_rows_per_person is not None
        persons = Persons.of(numbers, schema.max_rows_per_person, self.x, self.labels)
        return Rows(self.x, self.labels, persons)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def people(self) -> int:
        """How many persons there are."""
        return len(self) if self.persons is None else len(self.persons)

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """All rows in order, at most `size` at a time, and their labels as int64."""
        for start in range(0, len(self), size):
            chosen = slice(start, start + size)
            labels = None if self.labels is None else torch.as_tensor(self.labels[chosen]).to(torch.int64)
            x = self.x[chosen]
            yield x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x)), labels

    def none(self) -> Rows:
        """The same kind of rows, but none of them."""
        return Rows(self.x[:0], None if self.labels is None else self.labels[:0])

    def all(self, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """Every row in the dtype and on the device of `like`, without a copy where none is needed."""
        x = torch.as_tensor(self.x).to(dtype=like.dtype, device=like.device)
        if self.labels is None:
            return x, None
        return x, torch.as_tensor(self.labels).to(dtype=torch.int64, device=like.device)

    def pick(self, indices: Tensor) -> tuple[Tensor, Tensor | None]:
        """The chosen rows as they are, and their labels as int64."""
        x = _take(self.x, indices) if self._file is None else self._file.take(indices)
        return x, None if self.labels is None else _take(self.labels, indices).to(torch.int64)

    def take(self, indices: Tensor, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """The chosen rows in the dtype and on the device of `like`, and their labels as int64."""
        x, labels = self.pick(indices)
        own = None if labels is None else labels.to(device=like.device)
        return x.to(dtype=like.dtype, device=like.device), own


def _memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class RowFile:
    """The file behind a memory-mapped array that memory cannot hold, read row by row.

    The first touch of a mapped page costs a fault, and rows that are far apart each cost a page of the table
    of pages as well. A read costs neither. What memory can hold is soon mapped for good, and then costs less than a
    read; what it cannot hold is touched for the first time again and again.

    Args:
        array: a memory-mapped array in C order that holds nothing but the file's rows.
        path: its file.
    """

    def __init__(self, array: np.memmap[tuple[int, ...], np.dtype[np.generic]], path: str) -> None:
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_RANDOM)
        self._start, self._shape, self._dtype = array.offset, array.shape[1:], array.dtype
        self._row_bytes = array.nbytes // len(array)

    @classmethod
    def behind(cls, array: npt.NDArray[np.generic] | Tensor) -> RowFile | None:
        """The file of an array for which reading is better than mapping, or None."""
        if not (isinstance(array, np.memmap) and _CAN_READ and 2 * array.nbytes > _memory_bytes()):
            return None
        whole = isinstance(array.base, mmap.mmap) and array.flags.c_contiguous and array.mode != "c"
        return cls(array, str(array.filename)) if whole and array.filename else None

    def take(self, indices: Tensor) -> Tensor:
        """The chosen rows."""
        rows = np.empty((len(indices), *self._shape), dtype=self._dtype)
        view, size = rows.reshape(-1).view(np.uint8).data, self._row_bytes
        for place, index in enumerate(indices.tolist()):
            part = view[place * size : (place + 1) * size]
            if os.preadv(self._handle, [part], self._start + index * size) != size:
                raise DataError(
                    "a row could not be read: was the file cut while it was in use?", f"row {index}"
                )
        return torch.from_numpy(rows)


def _take(array: npt.NDArray[np.generic] | Tensor, indices: Tensor) -> Tensor:
    if isinstance(array, torch.Tensor):
        return array.index_select(0, indices.to(array.device))
    return torch.from_numpy(np.ascontiguousarray(array[indices.numpy()]))
