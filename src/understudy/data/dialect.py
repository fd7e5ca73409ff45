"""How a text file is written, taken from its header line only: the rest of a file is private."""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.errors import DataError
from understudy.records.names import data_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.data.places import Place
    from understudy.schema import FileFormat

__all__ = ["Dialect", "check_header", "dialect_of", "refuse_data_like"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_HEAD = 2**23


@dataclass(frozen=True)
class Dialect:
    """What is needed to cut a text file into cells.

    Args:
        encoding: of its bytes.
        separator: between cells.
        written: the names of the columns as the file writes them.
        notes: what was taken from the header because nobody declared it.
    """

    encoding: str
    separator: str
    written: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, without spaces around them."""
        return tuple(name.strip() for name in self.written)


def dialect_of(place: Place, file: FileFormat) -> Dialect:
    """Return how a text file is written: as declared, else by its byte order mark and its header line."""
    head = place.content(_HEAD)
    if not head:
        raise DataError(f"{place} is empty; expected a header and rows")
    encoding = _encoding(head, file)
    usual = "\t" if place.ending in (".tsv", ".tab") else ","
    if file.header is False:
        return Dialect(encoding, file.separator or usual, file.names)
    line, encoding = _header_line(head, encoding, file)
    separator = file.separator or _separator(line, file.quote, usual)
    names = tuple(_cells(line, separator, file.quote))
    if not any(name.strip() for name in names):
        raise DataError(f"cannot read {place}: its first line is no header")
    notes = []
    if encoding not in ("utf-8", "utf-8-sig", file.encoding):
        notes.append(f"{place} is read as {encoding}, which its first line suggests")
    if file.separator is None and separator != usual:
        notes.append(f"{place} is separated by {_SEPARATORS[separator]}")
    return Dialect(encoding, separator, names, tuple(notes))


def check_header(place: Place, dialect: Dialect, file: FileFormat, used: Sequence[str]) -> None:
    """Refuse a first line that looks like a record, unless the curator said what it is.

    Args:
        place: the file.
        dialect: its names.
        file: what the curator declared.
        used: the names that would be published.
    """
    if file.header is None and set(used) <= set(dialect.names):
        refuse_data_like(place, used)


def refuse_data_like(place: Place, names: Sequence[str]) -> None:
    """Refuse names that look like the cells of a record."""
    why = data_like(names)
    if why is not None:
        raise DataError(
            f"the first line of {place} looks like data, not like names of columns ({why}), and names are published. "
            "If the file has no header, declare names: --no-header --names a,b,c, or header = false and names = [...] "
            "in the table [file] of the schema. If these are names, say so with --header, or header = true."
        )


def _encoding(head: bytes, file: FileFormat) -> str:
    if file.encoding is not None:
        return file.encoding
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def _header_line(head: bytes, encoding: str, file: FileFormat) -> tuple[str, str]:
    """The first line that is neither empty nor a comment, and its encoding: Latin letters if it is not UTF-8."""
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    line = _first_record(text, file)
    if encoding == "utf-8" and "\ufffd" in line and file.encoding is None:
        return _first_record(head.decode("cp1252", errors="replace"), file), "cp1252"
    return line, encoding


def _first_record(text: str, file: FileFormat) -> str:
    """The first record of a text, with the line breaks that stand between quotes."""
    lines = iter(text.splitlines(keepends=True))
    record = ""
    for line in lines:
        if not record and (not line.strip() or (file.comment and line.startswith(file.comment))):
            continue
        record += line
        if record.count(file.quote) % 2 == 0:
            break
    return record.rstrip("\r\n")


def _separator(line: str, quote: str, usual: str) -> str:
    outside = "".join(line.split(quote)[::2])
    counts = {mark: outside.count(mark) for mark in _SEPARATORS}
    best = max(counts, key=lambda mark: (counts[mark], mark == usual))
    return best if counts[best] else usual


def _cells(line: str, separator: str, quote: str) -> list[str]:
    if separator == " ":
        line, separator = " ".join(line.split()), " "
    try:
        return next(csv.reader([line], delimiter=separator, quotechar=quote))
    except (csv.Error, StopIteration):
        return [""]
