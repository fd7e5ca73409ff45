"""What a visitor asks for, read from the query of an address and checked against schema and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import ReleaseError
from understudy.records.given import given_from_text
from understudy.schema import ImageSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import QueryParams

    from understudy.schema import Schema

__all__ = ["IMAGE_FORMS", "TABLE_FORMS", "Wanted", "query_from", "wanted_from", "whole"]

TABLE_FORMS = ("csv", "json", "parquet")
IMAGE_FORMS = ("npz", "png")
_KNOWN = {"rows", "label", "counts", "given", "balance", "seed", "format"}
_PICTURES = 1000
"""Images in one picture to look at."""


@dataclass(frozen=True)
class Wanted:
    """A checked request for records.

    Args:
        rows: how many.
        form: csv, json or parquet for tables and codes, npz or png for images.
        label: one class, or None.
        counts: records per class, or None.
        given: conditions by column, as texts; one per line, and the parameter may be repeated.
        balance: a column to balance, or None.
        seed: the same seed gives the same records; None for fresh ones.
    """

    rows: int
    form: str
    label: str | None
    counts: Mapping[str, int] | None
    given: Mapping[str, str]
    balance: str | None
    seed: int | None


def wanted_from(query: QueryParams, schema: Schema, most: int) -> Wanted:
    """Read the query; ReleaseError says what is wrong with it.

    Args:
        query: of the address.
        schema: of the release.
        most: records that may be asked for.
    """
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        raise ReleaseError(f"unknown parameter {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}.")
    forms = IMAGE_FORMS if isinstance(schema, ImageSchema) else TABLE_FORMS
    form = query.get("format", forms[0])
    if form not in forms:
        raise ReleaseError(f"the format {form!r} is not offered here; choose {' or '.join(forms)}.")
    counts = _counts(query["counts"]) if query.get("counts") else None
    rows = sum(counts.values()) if counts is not None else whole(query.get("rows") or "1000", "rows")
    limit = min(most, _PICTURES) if form == "png" else most
    if not 1 <= rows <= limit:
        raise ReleaseError(
            f"{rows:,} records were asked for; 1 to {limit:,} may be had at once as {form}. Ask several times for more."
        )
    seed = whole(query["seed"], "seed") if query.get("seed") else None
    lines = [line.strip() for text in query.getlist("given") for line in text.splitlines()]
    given = given_from_text(line for line in lines if line)
    return Wanted(rows, form, query.get("label") or None, counts, given, query.get("balance") or None, seed)


def query_from(query: QueryParams) -> str:
    """The query for statistics: as it is written, or put together from what and by.

    Raises:
        ReleaseError: a parameter is unknown, or nothing is asked.
    """
    unknown = sorted(set(query) - {"query", "what", "by", "count"})
    if unknown:
        raise ReleaseError(f"unknown parameter {unknown[0]!r}; known are by, count, query, what.")
    what, by = query.get("what", ""), query.get("by", "")
    asked = query.get("query") or (f"{what} by {by}" if by else what)
    if not asked.strip():
        raise ReleaseError('ask for something, such as query="outcome by ward".')
    return asked


def whole(text: str, name: str) -> int:
    """A whole number that is not negative, as it stands in an address."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ReleaseError(f"{name} must be a whole number, got {text[:40]!r}.")
    return int(text)


def _counts(text: str) -> dict[str, int]:
    counts = {}
    for part in text.split(","):
        name, separator, number = part.rpartition("=")
        if not separator:
            raise ReleaseError(f"counts are written class=number,class=number; got {part[:40]!r}.")
        counts[name.strip()] = whole(number.strip(), f"the count of {name.strip()[:40]!r}")
    return counts
