"""A first schema for a journey, and which of its guesses come from private cells."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from understudy.data import known_schema
from understudy.data.contents import contents_of, names_of
from understudy.data.draft import draft_schema
from understudy.schema import FileFormat, schema_to_toml

if TYPE_CHECKING:
    from understudy.studio.workspace import Journey, Workspace

__all__ = ["Draft", "first_rows", "first_schema", "left_out"]

_ROWS = 8


@dataclass(frozen=True)
class Draft:
    """A first schema.

    Args:
        text: of the schema.
        guessed: columns whose kind was guessed from private cells.
        spelling_guessed: whether cells also told how they are written: marks for empty ones, numbers, dates.
    """

    text: str
    guessed: tuple[str, ...] = ()
    spelling_guessed: bool = False


def first_schema(workspace: Workspace, journey: Journey) -> Draft:
    """A first schema for the records of a journey.

    The schema of a known set is public and complete. Of other sources only names and stated types are taken as they
    are; what cells suggest is offered, and must be confirmed.
    """
    if journey.source.known:
        return Draft(schema_to_toml(known_schema(journey.source.path)))
    records = workspace.records(journey.source)
    careful = tomllib.loads(draft_schema(records))
    offered = tomllib.loads(draft_schema(records, kinds_are_public=True))
    stated = {column["name"] for column in careful.get("columns", ()) if "kind" in column}
    guessed = tuple(column["name"] for column in offered.get("columns", ()) if column["name"] not in stated)
    spelling = any(careful.get(key) != offered.get(key) for key in ("missing_text", "file"))
    return Draft(tomli_w.dumps(offered), guessed, spelling)


def left_out(workspace: Workspace, journey: Journey, facts: dict[str, Any]) -> list[str]:
    """Columns of the source that the schema does not name; they are ignored."""
    if journey.source.known or "columns" not in facts:
        return []
    names = names_of(workspace.records(journey.source), FileFormat()) or []
    known = {column.get("name") for column in facts["columns"]}
    person = facts.get("person", [])
    known |= {person} if isinstance(person, str) else set(person)
    return [name for name in names if name not in known]


def first_rows(workspace: Workspace, journey: Journey) -> tuple[list[str], list[list[str]]] | None:
    """PRIVATE: the first rows of a table, for the screen of a curator who said that it may show them."""
    if journey.source.known:
        return None
    contents = contents_of(workspace.records(journey.source), FileFormat(), whole=False)
    rows = contents.cells
    if rows is None:
        whole = contents_of(workspace.records(journey.source), FileFormat(), whole=True)
        rows = whole.frame if whole.cells is None else whole.cells
    if rows is None:
        return None
    first = rows.head(_ROWS)
    return [str(name) for name in first.columns], [
        ["" if cell is None else str(cell) for cell in row] for row in first.itertuples(index=False)
    ]
