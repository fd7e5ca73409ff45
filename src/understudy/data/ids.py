"""Columns that tell people apart and that nobody declared: whoever has several rows would be protected less."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.data.contents import names_of
from understudy.data.typical import identifies
from understudy.errors import UnderstudyError
from understudy.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd

    from understudy.schema import Schema

__all__ = ["repeated", "with_ids"]


def with_ids(source: Any, schema: Schema) -> Schema:
    """The schema of a table with all columns as persons whose names say that they tell people apart, to look at them.

    Schemas that name a person, and those of images and codes, stay as they are.
    """
    if not isinstance(schema, TableSchema) or schema.person_columns:
        return schema
    listed = {column.name for column in schema.columns}
    try:
        names = (
            names_of(source[0] if isinstance(source, list | tuple) and source else source, schema.file) or ()
        )
    except UnderstudyError:
        return schema  # whoever reads it will say why it cannot be read
    found = tuple(name for name in dict.fromkeys(names) if name not in listed and identifies(name))
    return replace(schema, person=found) if found else schema


def repeated(frame: pd.DataFrame, schema: Schema) -> str | None:
    """PRIVATE, for the curator's eyes only: a sentence if a column of `with_ids` holds a value twice, else None."""
    for name in schema.person_columns:
        if name in frame.columns and frame[name].dropna().duplicated().any():
            return (
                f"values of the column {name!r} occur several times, and the schema names no person: what is protected "
                "is one row, and whoever has several rows is protected less. If it tells persons apart, add "
                f'person = "{name}" to the schema.'
            )
    return None
