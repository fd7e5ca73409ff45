"""A draft of a schema on its way to a schema: what it leaves open, and how each fact is put in.

A draft is kept as its text. A line that is marked FILL IN or FROM THE ROWS is an open question; an answer takes the
mark away and puts the fact in its place, and everything else, comments too, stays as it is written.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.codec import from_plain
from understudy.data.draft import blank_column, draft_schema
from understudy.errors import SchemaError
from understudy.files import read_text, write_whole
from understudy.notebook import html_table
from understudy.schema import Column, Schema, schema_from_toml

__all__ = ["FILE", "TABLE", "Draft", "Question"]

TABLE, FILE = "", "[file]"
"""The places of a draft that are no columns: its first lines, and how files are written."""

_LINE = re.compile(
    r"(?P<off># )?(?P<key>[a-z_]+) = (?P<value>.*?)(  # (?P<mark>FILL IN|FROM THE ROWS): (?P<why>.*))?"
)
_TABLE_BEGINS = re.compile(r"\[\[?[a-z]+\]\]?")
_NOTE = "# FROM THE ROWS: "
_LEFT_OUT = re.compile(r'# Column ("(?:[^"\\]|\\.)*") is left out: (.*)')


@dataclass(frozen=True)
class Question:
    """A fact that a draft leaves open.

    Args:
        place: the name of a column, `TABLE` or `FILE`.
        key: what is asked for, as the schema calls it.
        why: what is wanted, in words.
        offer: what is offered, as TOML; None if nothing is usual.
        from_rows: whether the offer was guessed from PRIVATE cells, and waits for somebody who knows it to be public.
    """

    place: str
    key: str
    why: str
    offer: str | None
    from_rows: bool

    @property
    def name(self) -> str:
        """How an option of the command line calls it, such as age.lower."""
        place = {TABLE: "", FILE: "file."}.get(self.place, f"{self.place}.")
        return f"{place}{self.key}"


@dataclass
class _Block:
    """Lines that belong together: the first ones, those of [file], or those of one column."""

    place: str
    lines: list[str]


class Draft:
    """The text of a draft, and what is left to fill in.

    Args:
        text: as `draft_schema` writes it.
    """

    def __init__(self, text: str) -> None:
        self._blocks = _blocks(text)

    @classmethod
    def of(cls, source: Any, **options: Any) -> Draft:
        """A first draft for a source; arguments are those of `draft_schema`."""
        return cls(draft_schema(source, **options))

    @classmethod
    def load(cls, path: str | Path) -> Draft:
        """The draft in a file."""
        return cls(read_text(Path(path), error=SchemaError))

    def save(self, path: str | Path) -> None:
        """Write it, finished or not."""
        write_whole(Path(path), self.text, error=SchemaError)

    @property
    def text(self) -> str:
        """The draft as it stands."""
        return "\n".join(line for block in self._blocks for line in block.lines) + "\n"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it describes, in order."""
        return tuple(block.place for block in self._blocks if block.lines[:1] == ["[[columns]]"])

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is left to fill in or to confirm, from top to bottom."""
        found = []
        for block in self._blocks:
            for line in block.lines:
                match = _LINE.fullmatch(line)
                if match is not None and match["mark"] is not None:
                    found.append(_question(block.place, match))
        return tuple(found)

    def schema(self) -> Schema:
        """The finished schema; SchemaError says what is still open."""
        left = [one.name for one in self.questions]
        if left:
            raise SchemaError(f"{len(left)} facts are left to fill in: {', '.join(left)}.")
        return schema_from_toml(self.text)

    def set(self, place: str = TABLE, **facts: Any) -> Draft:
        """Put facts in: `set("age", lower=0, upper=120)`, `set(label="outcome")` of the whole, or of `FILE`.

        Raises:
            SchemaError: there is no such column, or the column cannot be as it is now described.
        """
        if "kind" in facts and place in self.columns:
            self._choose(self._block(place), facts.pop("kind"))
        block = self._block(place)
        before = list(block.lines)
        for key, value in facts.items():
            _put(block, key, _as_toml(value))
        try:
            _check(block)
        except SchemaError:
            block.lines[:] = before
            raise
        return self

    def leave_out(self, column: str, why: str = "the curator chose so") -> Draft:
        """Take a column out of the schema, with a comment in its place."""
        self._block(column).lines[:] = [
            f"# Column {json.dumps(column, ensure_ascii=False)} is left out: {why}."
        ]
        self._block(column).place = TABLE
        return self

    def drop(self, question: Question) -> Draft:
        """Take the line of a fact away that need not be there, such as the label."""
        block = self._block(question.place)
        block.lines[:] = [line for line in block.lines if not _is(line, question.key)]
        return self

    def _choose(self, block: _Block, kind: str) -> None:
        """Describe a column as one of this kind; what was known of it as another kind is forgotten."""
        line = next((line for line in block.lines if _is(line, "kind")), None)
        if line is not None and f'kind = "{kind}"' in line:
            _put(block, "kind", json.dumps(kind))
        else:
            block.lines[:] = ["[[columns]]", *blank_column(block.place, kind), ""]

    def _block(self, place: str) -> _Block:
        for block in self._blocks:
            if block.place == place:
                return block
        raise SchemaError(f"the draft has no column {place!r}; it has {', '.join(self.columns)}.")

    def __repr__(self) -> str:
        return f"<Draft: {len(self.columns)} columns, {len(self.questions)} facts to fill in>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.why, one.offer or "") for one in self.questions]
        return html_table(repr(self)[1:-1], rows, head=("fact", "what is wanted", "offered"))


def _blocks(text: str) -> list[_Block]:
    """The lines of a draft, cut before every table and every column that is left out."""
    blocks = [_Block(TABLE, [])]
    for line in text.rstrip("\n").split("\n"):
        if _TABLE_BEGINS.fullmatch(line):
            blocks.append(_Block(line, []))
        elif _LEFT_OUT.fullmatch(line):
            blocks.append(_Block(TABLE, []))
        blocks[-1].lines.append(line)
        match = _LINE.fullmatch(line)
        if match is not None and match["key"] == "name" and blocks[-1].lines[0] == "[[columns]]":
            blocks[-1].place = tomllib.loads(line)["name"]
    return blocks


def _question(place: str, match: re.Match[str]) -> Question:
    value = match["value"].strip()
    from_rows = match["mark"] == "FROM THE ROWS"
    why = "is it public that it is so?" if from_rows else match["why"]
    return Question(place, match["key"], why, value if value and "..." not in value else None, from_rows)


def _is(line: str, key: str) -> bool:
    match = _LINE.fullmatch(line)
    return match is not None and match["key"] == key


def _put(block: _Block, key: str, value: str) -> None:
    """Put a fact in place of its line, or at the end of its block; remarks about an open list are answered by it."""
    for place, line in enumerate(block.lines):
        if _is(line, key):
            block.lines[place] = f"{key} = {value}"
            break
    else:
        end = max((i for i, line in enumerate(block.lines) if line), default=-1) + 1
        block.lines.insert(end, f"{key} = {value}")
    if key == "categories":
        block.lines[:] = [line for line in block.lines if not line.startswith(_NOTE)]


def _check(block: _Block) -> None:
    """Refuse a column that cannot be as it is described, as soon as all of it is."""
    if block.lines[:1] != ["[[columns]]"] or any(
        (match := _LINE.fullmatch(line)) is not None and match["mark"] and match["off"]
        for line in block.lines
    ):
        return
    try:
        (plain,) = tomllib.loads("\n".join(block.lines))["columns"]
    except tomllib.TOMLDecodeError as cause:
        raise SchemaError(f"column {block.place!r}: {cause}") from cause
    from_plain(Column, plain, error=SchemaError)


def _as_toml(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return _as_toml(value.value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False)
    return "[" + ", ".join(_as_toml(one) for one in value) + "]"
