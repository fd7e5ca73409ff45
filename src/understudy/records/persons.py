"""PRIVATE: which records belong to one person, as numbers that mean nothing else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["numbers_of", "person_hashes", "person_numbers"]


def person_numbers(
    columns: pd.DataFrame | Mapping[str, Any], names: Sequence[str], missing: Sequence[str] = ("",)
) -> NDArray[np.int64] | None:
    """A number for each record, equal where all the named columns are; None if there is nothing to tell persons apart.

    Texts are compared without spaces around them and whole numbers without their fraction, so that one person is
    rather taken for another than split in two, which would weaken the promise.

    Args:
        columns: columns or arrays by name.
        names: those that tell persons apart.
        missing: texts that mean an empty cell.

    Raises:
        DataError: a record belongs to nobody.
    """
    if not names or not set(names) <= set(columns):
        return None
    numbers: NDArray[np.int64] | None = None
    for name in names:
        codes, found = _told_apart(pd.Series(columns[name]), missing)
        _refuse_empty(codes, name)
        numbers = codes if numbers is None else pd.factorize(numbers * found + codes)[0].astype(np.int64)
    return numbers


def person_hashes(
    columns: pd.DataFrame, names: Sequence[str], key: bytes, missing: Sequence[str] = ("",)
) -> NDArray[np.uint64] | None:
    """PRIVATE: 128 bits for each record, equal where `person_numbers` of all records would be equal; None likewise.

    Records that are read in parts are told apart by these. Persons whose hashes met by chance would count as one; among
    a billion that happens once in 10²⁰ times.

    Args:
        columns: some of the records.
        names: those that tell persons apart.
        key: at most 64 bytes; the same for all parts.
        missing: texts that mean an empty cell.

    Raises:
        DataError: a record belongs to nobody.
    """
    if not names or not set(names) <= set(columns):
        return None
    hashes = np.zeros((len(columns), 2), dtype=np.uint64)
    for name in names:
        codes, values = pd.factorize(columns[name])
        texts = [_plain(value) for value in values]
        known = np.array([-1 if text in missing else 0 for text in texts] + [-1])
        _refuse_empty(known[codes], name)
        before = [one.tobytes() for one in hashes] if name != names[0] else [b""] * len(columns)
        told = [text.encode() for text in texts]
        made = {
            pair: hashlib.blake2b(pair[0] + told[pair[1]], digest_size=16, key=key).digest()
            for pair in set(zip(before, codes.tolist(), strict=True))
        }
        found = b"".join(made[pair] for pair in zip(before, codes.tolist(), strict=True))
        hashes = np.frombuffer(found, dtype=np.uint64).reshape(-1, 2)
    return hashes


def numbers_of(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each record the number of its person, in the order in which persons first occur."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
    first = np.minimum.reduceat(order, np.flatnonzero(new)) if len(order) else order
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = place[np.cumsum(new) - 1]
    return numbers


def _refuse_empty(codes: NDArray[np.integer], name: str) -> None:
    if (codes < 0).any():
        row = int(np.argmax(codes < 0)) + 1
        raise DataError(
            f"column {name!r}, row {row}: the cell is empty; every record must belong to a person"
        )


def _told_apart(column: pd.Series[Any], missing: Sequence[str]) -> tuple[NDArray[np.int64], int]:
    """For each cell the number of its value, -1 for none, and how many values there are."""
    codes, values = pd.factorize(column)
    if column.dtype.kind in "iub":
        return codes.astype(np.int64), len(values)
    texts = [_plain(value) for value in values]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    known = np.array([-1 if text in missing else numbers[text] for text in texts] + [-1], dtype=np.int64)
    return known[codes], len(numbers)


def _plain(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
