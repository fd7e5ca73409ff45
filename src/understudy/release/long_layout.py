"""Synthetic code sets with one row per record and code, as registries keep them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import ReleaseError
from understudy.schema import CodeSchema, LongFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from understudy.records.images import Images
    from understudy.schema import Schema

__all__ = ["Layout", "laid_out", "long_chunks"]

_PLAIN = LongFile("record", "code")


class Layout(enum.Enum):
    """How code sets are written."""

    WIDE = "wide"  # one column per code
    LONG = "long"  # one row per record and code


def laid_out(
    chunks: Iterator[pd.DataFrame | Images], layout: Layout, schema: Schema
) -> Iterator[pd.DataFrame | Images]:
    """Synthetic records in this layout; ReleaseError if they are no code sets and it is the long one."""
    return chunks if layout is Layout.WIDE else iter(long_chunks(chunks, schema))


def long_chunks(chunks: Iterable[pd.DataFrame | Images], schema: Schema) -> Iterator[pd.DataFrame]:
    """The same records with one row for each code, as often as it is counted; a record without codes has an empty one.

    Records are numbered from 1 on. The columns are named as in the schema's table [long], or record and code; the
    label stands beside them.

    Raises:
        ReleaseError: the schema does not describe codes.
    """
    import pandas as pd

    if not isinstance(schema, CodeSchema):
        raise ReleaseError(
            f"only code sets have a long layout; this release makes {schema.kind}. Leave --layout out."
        )
    names, before = schema.long or _PLAIN, 0
    texts = np.array([*schema.codes, ""], dtype=object)
    for chunk in chunks:
        assert isinstance(chunk, pd.DataFrame)
        counts = chunk[list(schema.codes)].to_numpy()
        rows, codes = np.nonzero(counts)
        times = counts[rows, codes]
        rows, codes = np.repeat(rows, times), np.repeat(codes, times)
        empty = np.flatnonzero(~counts.any(axis=1))
        rows, codes = np.append(rows, empty), np.append(codes, np.full(len(empty), len(schema.codes)))
        order = np.argsort(rows, kind="stable")
        rows, codes = rows[order], codes[order]
        long = pd.DataFrame({names.person: before + 1 + rows, names.code: texts[codes]})
        if schema.label is not None:
            long[schema.label.name] = chunk[schema.label.name].to_numpy()[rows]
        before += len(chunk)
        yield long
