"""What is protected: the one thing whose presence nobody can tell from a release, in words for every text about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.schema.schemas import CodeSchema, ImageSchema

if TYPE_CHECKING:
    from understudy.schema.schemas import Schema

__all__ = ["Unit", "unit_words"]

_IDENTIFIER = re.compile(r"(?<=[^\W_])([ _-]+(id|nr|no|number|key|code|uuid)|(?<=[a-z])I[Dd])$", re.ASCII)
_WORDS = re.compile(r"(?=.*[aeiou])[^\W\d_]{3,}( [^\W\d_]+)*(?<!id)")


@dataclass(frozen=True)
class Unit:
    """The unit of privacy in words.

    Args:
        one: its name, as in "one row" or "one patient".
        many: the same for several.
        rows: what several records are called, as in "visits".
        whole: the unit with what it may hold, as in "patient with up to 4 visits".
        caveat: who is protected less, as a sentence.
    """

    one: str
    many: str
    rows: str
    whole: str
    caveat: str


def unit_words(schema: Schema | None) -> Unit:
    """The unit that neighbouring data sets differ by, for records of this schema."""
    match schema:
        case ImageSchema():
            row = "image"
        case CodeSchema():
            row = "record"
        case _:
            row = "row"
    row = (None if schema is None else schema.row_name) or row
    rows = _several(row)
    if schema is None or not schema.person_columns:
        return Unit(
            row,
            rows,
            rows,
            row,
            f"What is protected is one {row}: whoever is in the data with several {rows} is protected less.",
        )
    one, most = _person(schema.person_columns), schema.max_rows_per_person
    assert most is not None
    whole = f"{one} with up to {most} {row if most == 1 else rows}"
    return Unit(
        one,
        _several(one),
        rows,
        whole,
        f"What is protected is one {whole}, all of them together; further {rows} of a {one} took no part.",
    )


def _person(columns: tuple[str, ...]) -> str:
    """What the columns call a person: patient_id is a patient, but mrn, or several columns, just a person."""
    if len(columns) > 1:
        return "person"
    name = re.sub(r"[ _-]+", " ", _IDENTIFIER.sub("", columns[0])).strip().lower()
    return name if _WORDS.fullmatch(name) else "person"


def _several(noun: str) -> str:
    """The plural of an English noun."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    if noun == "person":
        return "persons"
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")
