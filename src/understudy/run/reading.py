"""PRIVATE: from wherever the records are to the rows behind the door, in memory or, where that is small, on disk."""

from __future__ import annotations

import hashlib
import hmac
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from understudy.data import read
from understudy.data.ids import repeated, with_ids
from understudy.data.stream import stream_of
from understudy.door.cache import RowCache
from understudy.door.source import Rows
from understudy.errors import CuratorWarning, DataError
from understudy.records.encode import encode, encoded_shape
from understudy.records.persons import numbers_of, person_hashes
from understudy.run.shards import Shards, fingerprint, own_part, refuse_split_persons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from understudy.data import Records
    from understudy.data.stream import LongStream, Stream
    from understudy.door.ranks import Ranks
    from understudy.records.encode import Encoded
    from understudy.run.shards import Shard
    from understudy.schema import Schema

__all__ = ["LARGE", "private_rows", "watched"]

LARGE = 2**28
"""Files of more bytes than this are not read whole; a Parquet file grows several times in memory."""
_NUMBERS_AT_ONCE = 2**24
"""How many numbers of encoded records are made at a time."""
_PIECES_EACH = 4
"""Files, or groups of rows of Parquet files, are dealt whole where there are so many for each process, else rows."""


def private_rows(
    data: object,
    schema: Schema,
    ranks: Ranks | Shard,
    shards: Shards,
    *,
    key: bytes = b"",
    cache: Path | None = None,
    on_note: Callable[[str], None] | None = None,
) -> tuple[Rows, str]:
    """The records of this process, and a fingerprint of all that it was given.

    Large files are read batch by batch into a working copy on disk, so that memory does not grow with them; small ones,
    and all that lies in memory already, become arrays there.

    Args:
        data: whatever `read` takes.
        schema: the public description.
        ranks: this process among the others, or this shard.
        shards: what `data` is to each of them.
        key: for the fingerprint; drawn for this one comparison, and the same in all processes.
        cache: the folder of the working copy, which is then used for files of any size.
        on_note: told what readers took from the public part of files.

    Raises:
        DataError: the records cannot be read or do not fit the schema.
    """
    stream = stream_of(data, schema)
    if stream is not None and (cache is not None or stream.bytes > LARGE):
        return _streamed(stream, schema, ranks, shards, cache, key), _of_files(stream, key)
    if cache is not None:
        raise DataError(
            "--cache is for files of tables (Parquet, Arrow, text) in which every row is a record of its own, and for "
            "long tables of codes; this is read whole. Leave --cache out."
        )
    encoded = encode(watched(data, schema, on_note), schema)
    said = fingerprint(encoded, key) if ranks.size > 1 else ""
    return Rows.of(own_part(encoded, ranks, shards), schema), said


def _of_files(stream: Stream | LongStream, key: bytes) -> str:
    """The fingerprint of files that are too large to be read twice: their sizes, beginnings and ends."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for place in stream.places:
        for piece in place.ends():
            code.update(piece)
    return code.hexdigest()


def watched(data: object, schema: Schema, on_note: Callable[[str], None] | None) -> Records:
    """The records; warns the curator of people with several rows who are not declared, in no log and on no card."""
    with_all = with_ids(data, schema)
    records = read(data, with_all)
    if on_note is not None:
        for note in records.notes:
            on_note(note)
    if with_all is not schema:
        warning = repeated(records.frame, with_all)
        if warning is not None:
            warnings.warn(warning, CuratorWarning, stacklevel=5)
    return records


def _streamed(
    stream: Stream | LongStream,
    schema: Schema,
    ranks: Ranks | Shard,
    shards: Shards,
    cache: Path | None,
    key: bytes,
) -> Rows:
    """The rows of this process, from a working copy; persons are dealt by a hash, and their numbers stay in memory."""
    dealt, persons = ranks.size > 1 and shards is Shards.DEALT, bool(schema.person_columns)
    if persons and not dealt:
        refuse_split_persons(ranks)
    enough = _PIECES_EACH * ranks.size if dealt and not persons else 1
    pieces = stream.pieces(enough)
    whole = len(pieces) >= enough and not (dealt and persons)
    kept, hashes, seen = RowCache(schema, cache), [np.zeros((0, 2), dtype=np.uint64)], 0
    for number, place in enumerate(pieces):
        if dealt and whole and number % ranks.size != ranks.rank:
            continue
        first = 0
        for frame in _in_parts(stream.batches(place), schema):
            where = f"{place}, from row {first + 1:,} on"
            own = np.full(len(frame), whole)
            if persons:
                found = _hashes(frame, schema, key, where)
                own = found[:, 0] % np.uint64(ranks.size) == ranks.rank if dealt else own
                hashes.append(found[own])
            elif not whole:
                own[(ranks.rank - seen) % ranks.size :: ranks.size] = True
            if own.any():
                kept.append(_encoded(frame, own, schema, where))
            first, seen = first + len(frame), seen + len(frame)
    rows = kept.rows()
    return rows.of_persons(numbers_of(np.concatenate(hashes)), schema) if persons else rows


def _in_parts(frames: Iterator[pd.DataFrame], schema: Schema) -> Iterator[pd.DataFrame]:
    """The same rows, of wide tables fewer at a time, so that memory is bounded for these, too."""
    most = max(1, _NUMBERS_AT_ONCE // math.prod(encoded_shape(schema)))
    for frame in frames:
        for start in range(0, len(frame), most):
            yield frame.iloc[start : start + most]


def _hashes(frame: pd.DataFrame, schema: Schema, key: bytes, where: str) -> NDArray[np.uint64]:
    try:
        found = person_hashes(frame, schema.person_columns, key)
    except DataError as problem:
        raise DataError(f"{where}: {problem}", problem.private_detail) from None
    if found is None:
        raise DataError(f"{where}: there is no column {' and '.join(map(repr, schema.person_columns))}.")
    return found


def _encoded(frame: pd.DataFrame, own: NDArray[np.bool_], schema: Schema, where: str) -> Encoded:
    """Some rows of a batch; errors count rows within the batch and say where it begins."""
    try:
        return encode(frame if own.all() else frame.iloc[own], schema)
    except DataError:
        try:
            encode(frame, schema)  # so that the row of a fault is counted among all rows of the batch
        except DataError as problem:
            raise DataError(f"{where}: {problem}", problem.private_detail) from None
        raise
