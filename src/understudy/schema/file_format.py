"""How the files of a table are written, where that differs from a plain CSV file: the table `[file]` of a schema."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.errors import SchemaError

__all__ = ["FileFormat"]

_MARKS = (".", ",", "'", "’", " ", "\u00a0", "\u202f", "_")
"""What may stand between the thousands of a number."""


@dataclass(frozen=True)
class FileFormat:
    """How cells are written. What is None is taken from the header line, the public part of a file.

    Args:
        separator: the character between cells; a space means any run of blanks. None: the most frequent of comma,
            semicolon, tab and bar in the header.
        encoding: such as "latin-1". None: what a byte order mark says, else UTF-8 if the header is.
        header: whether the first line holds names. None: yes, and it is refused if it looks like data.
        names: the names of the columns in order, for files without header.
        quote: the character around cells that hold separators or line breaks.
        comment: lines that begin with this character are skipped.
        decimal: the character before the fraction of a number.
        thousands: the character between groups of digits.
        dates: how moments are written, as in `datetime.strptime`; the first that fits counts. ISO 8601 is always read.
        true_words: texts that mean the second value of a binary column, in any case of letters.
        false_words: texts that mean the first value of a binary column.
        sheet: which sheet of an Excel file; None: the first.
    """

    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    names: tuple[str, ...] = ()
    quote: str = '"'
    comment: str | None = None
    decimal: str = "."
    thousands: str | None = None
    dates: tuple[str, ...] = ()
    true_words: tuple[str, ...] = ()
    false_words: tuple[str, ...] = ()
    sheet: str | None = None

    def __post_init__(self) -> None:
        for key in ("separator", "quote", "comment"):
            value = getattr(self, key)
            if value is not None and (len(value) != 1 or value in "\r\n"):
                raise SchemaError(f"file: {key} must be one character, got {value!r}")
        self._check_numbers()
        self._check_header()
        if self.encoding is not None and not _is_encoding(self.encoding):
            raise SchemaError(
                f'file: encoding {self.encoding!r} is not known; use for instance "latin-1" or "utf-16"'
            )
        for form in self.dates:
            if "%" not in form:
                raise SchemaError(
                    f'file: dates lists {form!r}, which is no form such as "%d.%m.%Y" (day.month.year)'
                )
        both = {w.casefold() for w in self.true_words} & {w.casefold() for w in self.false_words}
        if both:
            raise SchemaError(f"file: {min(both)!r} is among true_words and false_words; choose one")

    def _check_numbers(self) -> None:
        if self.decimal not in (".", ","):
            raise SchemaError(f'file: decimal must be "." or ",", got {self.decimal!r}')
        if self.thousands is not None and (self.thousands not in _MARKS or self.thousands == self.decimal):
            raise SchemaError(
                f"file: thousands must be another character than decimal, such as a comma, a point or a "
                f"space, got {self.thousands!r}"
            )
        if self.separator is not None and self.separator == self.decimal:
            raise SchemaError(f"file: separator and decimal are both {self.decimal!r}; one of them is wrong")

    def _check_header(self) -> None:
        if self.header is False and not self.names:
            raise SchemaError("file: without a header the columns need names: names = [...] in their order")
        if self.header is not False and self.names:
            raise SchemaError("file: names are for files without header; set header = false, or remove them")
        if len({name.strip() for name in self.names}) < len(self.names) or not all(self.names):
            raise SchemaError("file: names must be different and not empty")


def _is_encoding(name: str) -> bool:
    try:
        return isinstance(b"a".decode(name, errors="replace"), str)
    except (LookupError, ValueError, TypeError):
        return False
