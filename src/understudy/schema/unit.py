"""What is protected: the one thing whose presence nobody can tell from a release, in words for every text about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.schema.schemas import CodeSchema, ImageSchema

if TYPE_CHECKING:
    from understudy.schema.schemas import Schema

__all__ = ["Unit", "unit_words"]


@dataclass(frozen=True)
class Unit:
    """The unit of privacy in words.

    Args:
        one: its name, as in "one row".
        many: the same for several.
        caveat: who is protected less, as a sentence.
    """

    one: str
    many: str
    caveat: str


def unit_words(schema: Schema | None) -> Unit:
    """The unit that neighbouring data sets differ by, for records of this schema."""
    match schema:
        case ImageSchema():
            one, many = "image", "images"
        case CodeSchema():
            one, many = "record", "records"
        case _:
            one, many = "row", "rows"
    return Unit(
        one,
        many,
        f"What is protected is one {one}: whoever is in the data with several {many} is protected less.",
    )
