"""Known public data sets by name, each with train part, test part and a ready public schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data.bundled import BUNDLED_SCHEMAS, load_bundled
from understudy.errors import MissingDataset

if TYPE_CHECKING:
    from understudy.data.records import Dataset
    from understudy.schema import Schema

__all__ = ["known", "known_names", "known_schema"]


def known_names() -> tuple[str, ...]:
    """Return every name that `known` understands."""
    return tuple(sorted(BUNDLED_SCHEMAS))


def known_schema(name: str) -> Schema:
    """Return the public schema of a known set, without reading any record."""
    if name not in BUNDLED_SCHEMAS:
        raise MissingDataset(f"{name!r} is not a known data set; known are {', '.join(known_names())}")
    return BUNDLED_SCHEMAS[name]


def known(name: str) -> Dataset:
    """Return the named public data set."""
    known_schema(name)
    return load_bundled(name)
