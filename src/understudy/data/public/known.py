"""Known public data sets by name, each with train part, test part and a ready public schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.data.public.bundled import BUNDLED_SCHEMAS, load_bundled
from understudy.data.public.fetch import locate
from understudy.data.public.sets import PUBLIC_SETS
from understudy.data.records import Dataset
from understudy.errors import MissingDataset

if TYPE_CHECKING:
    from understudy.data.public.fetch import Progress
    from understudy.schema import Schema

__all__ = ["known", "known_names", "known_schema"]


def known_names() -> tuple[str, ...]:
    """Return every name that `known` understands."""
    return tuple(sorted((*BUNDLED_SCHEMAS, *PUBLIC_SETS)))


def known_schema(name: str) -> Schema:
    """Return the public schema of a known set, without reading any record."""
    if name in BUNDLED_SCHEMAS:
        return BUNDLED_SCHEMAS[name]
    if name in PUBLIC_SETS:
        return PUBLIC_SETS[name].schema
    raise MissingDataset(f"{name!r} is not a known data set; known are {', '.join(known_names())}")


def known(name: str, *, on_progress: Progress | None = None, download: bool = True) -> Dataset:
    """Return the named public data set, from this machine or from its publisher.

    Args:
        name: one of `known_names()`.
        on_progress: told how a download advances, for instance the callback of `download_bar()`.
        download: whether the network may be used.

    Raises:
        MissingDataset: if the name is unknown, or its files are not here and cannot be fetched.
        DataError: if a file is here but differs from the published one.
    """
    schema = known_schema(name)
    if name in BUNDLED_SCHEMAS:
        return load_bundled(name)
    found = PUBLIC_SETS[name]
    paths = tuple(locate(source, on_progress=on_progress, download=download) for source in found.sources)
    train, test = found.load(paths)
    return Dataset(name, train, test, schema)
