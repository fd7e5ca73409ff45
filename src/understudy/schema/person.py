"""Who is protected where a person has several records: which columns tell persons apart, and how many records count."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from understudy.errors import SchemaError

if TYPE_CHECKING:
    from typing import Self

__all__ = ["DEFAULT_ROWS_PER_PERSON", "PersonUnit"]

DEFAULT_ROWS_PER_PERSON = 8
"""Enough for most; more costs time and memory but no noise, because a person's records share one vote."""

_NAME = re.compile(r"[^\W\d_][^\W\d_ -]*([ -][^\W\d_]+)*")


@dataclass(frozen=True, kw_only=True)
class PersonUnit:
    """What every schema may say about persons.

    Args:
        person: the column (or columns, as for a member of a household) that tells persons apart; None if every record
            is a person of its own. It is read to group records, and neither modelled nor written.
        max_rows_per_person: how many records of a person take part at most.
        row_name: what one record is called in texts, such as "visit"; by default row, image or record.
    """

    person: str | tuple[str, ...] | None = None
    max_rows_per_person: int | None = None
    row_name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.person, list):
            object.__setattr__(self, "person", tuple(self.person))
        names = self.person_columns
        if self.person is not None and (not names or not all(names) or len(set(names)) < len(names)):
            raise SchemaError(f"person must name one column or several different ones, got {self.person!r}")
        most = self.max_rows_per_person
        if not names and most is not None:
            raise SchemaError("max_rows_per_person needs person, the column that tells persons apart")
        if names and most is None:
            object.__setattr__(self, "max_rows_per_person", DEFAULT_ROWS_PER_PERSON)
        elif most is not None and not 1 <= most <= 65_535:
            raise SchemaError(f"max_rows_per_person must lie between 1 and 65535, got {most}")
        if self.row_name is not None and not (_NAME.fullmatch(self.row_name) and len(self.row_name) <= 40):
            raise SchemaError(f'row_name must be a word such as "visit", got {self.row_name!r}')

    @property
    def person_columns(self) -> tuple[str, ...]:
        """The columns that tell persons apart; none if every record is a person of its own."""
        if self.person is None:
            return ()
        return (self.person,) if isinstance(self.person, str) else self.person

    def without_persons(self) -> Self:
        """The same with every record a person of its own, for records that are public."""
        return replace(self, person=None, max_rows_per_person=None)

    def refuse_modelled_person(self, modelled: tuple[str, ...]) -> None:
        """Refuse a person column that is also one of these, which are modelled and published."""
        for name in self.person_columns:
            if name in modelled:
                raise SchemaError(
                    f"{name!r} tells persons apart, so it is never modelled: remove it from columns, codes and label"
                )
