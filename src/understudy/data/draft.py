"""A first schema for a source: from its public part, or from its values if they are declared public.

Without that declaration no bound, category or class name is taken from the rows. Kinds and spellings that only the
cells of a text file tell, and names that are keys of JSON records, stand in the draft as comments marked FROM THE ROWS,
and what the curator must supply as comments marked FILL IN; the draft of a table is not valid until both are dealt
with.
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from understudy.data.codes import code_texts
from understudy.data.contents import Contents, contents_of
from understudy.data.guess import Guess, guess
from understudy.data.health import code_columns, long_layout
from understudy.data.learned import learned_from_cells, learned_from_frame, spelling_of
from understudy.data.pictures import first_picture, folder_classes, is_idx
from understudy.data.places import places_of
from understudy.data.read import read
from understudy.data.typical import Typical, identifies, typical, usual_categories, why_left_out
from understudy.errors import SchemaError
from understudy.schema import (
    Binary,
    Categorical,
    CellType,
    CodeSchema,
    Continuous,
    Datetime,
    FileFormat,
    ImageSchema,
    Integer,
    LongFile,
    Ordinal,
    TableSchema,
    schema_to_toml,
)

__all__ = ["LeftOut", "blank_column", "draft_schema"]

_PREFACE = """\
# Draft of a schema for {name}, from {basis}.
# Everything here will be published with the release. Supply what is marked FILL IN from public knowledge (a
# code book, physics, the law), never by looking at the private rows. Columns that you remove are ignored.
# Where nobody knows, write "discover": fit finds it out with noise, for a part of the budget.
"""
_FROM_ROWS = """\
# Lines marked FROM THE ROWS were guessed from PRIVATE cells. Where you know that it is public, confirm by removing
# the first # of the line; do not share this file before.
"""
_PUBLIC_PREFACE = """\
# Schema learned from the values of {name}, which the person who ran this declared to be public.
# Do not use it for private rows unless they may be described by the bounds and categories below.
"""


class LeftOut(enum.Enum):
    """What synthetic rows have in place of columns that the schema leaves out."""

    ABSENT = "absent"
    EMPTY = "empty"


_MISSING_TEXT = re.compile(r"(# )?missing_text = ")


def draft_schema(
    source: Any,
    *,
    from_public: bool = False,
    kinds_are_public: bool = False,
    file: FileFormat | None = None,
    missing_text: tuple[str, ...] = (),
    left_out: LeftOut = LeftOut.ABSENT,
) -> str:
    """Return the text of a first schema.

    Args:
        source: whatever `read` takes: the path of a table, a data frame, a folder of images, and so on.
        from_public: declare that the rows are public, so that bounds and categories may be taken from them.
        kinds_are_public: declare that the kinds of all columns, and how cells are written, are public knowledge.
        file: how text files are written, where the header line does not tell.
        missing_text: what stands for an empty cell, beside nothing at all.
        left_out: whether synthetic rows have the columns that the schema leaves out, empty.
    """
    if isinstance(source, str | Path) and _is_picture(Path(source)):
        return _pictures(Path(source), from_public)
    contents = contents_of(source, file or FileFormat(), whole=from_public)
    layout = long_layout(contents.names)
    listed = code_columns(contents.names)
    if layout is not None or listed:
        return _codes(contents, layout, listed, from_public)
    marks = ("", *(mark for mark in missing_text if mark)) if missing_text else ()
    if contents.cells is not None and marks:
        contents = replace(contents, cells=contents.cells.mask(contents.cells.isin(marks), ""))
    if from_public:
        return _with_head(_public(contents), contents, marks, left_out)
    if contents.cells is None:
        assert contents.types is not None
        kinds = {field.name: _guess_from_type(field.type) for field in contents.types}
        guessed = contents.frame is not None  # pandas chooses a column's type by its cells
        text = _private(contents, kinds, from_rows=guessed and not kinds_are_public)
    else:
        kinds = {name: guess(contents.cells[name].fillna("")) for name in contents.cells.columns}
        text = _private(contents, kinds, from_rows=not kinds_are_public)
    return _with_head(text, contents, marks, left_out)


def _with_head(text: str, contents: Contents, marks: tuple[str, ...], left_out: LeftOut) -> str:
    """The draft with what was declared about the whole table in its first lines."""
    lines = [line for line in text.splitlines() if not (marks and _MISSING_TEXT.match(line))]
    place = lines.index('kind = "table"') + 1
    if left_out is LeftOut.EMPTY:
        order = f"order = {json.dumps(list(contents.names), ensure_ascii=False)}"
        lines.insert(place, _Mark(contents.named_by_rows)(order))
    if marks:
        lines.insert(place, f"missing_text = {json.dumps(marks, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------- private rows


def _private(contents: Contents, kinds: dict[str, Guess], *, from_rows: bool) -> str:
    lines = [_PREFACE.format(name=contents.name, basis=contents.basis).rstrip("\n")]
    lines += [_FROM_ROWS.rstrip("\n")] if from_rows or contents.named_by_rows else []
    lines += ["", 'kind = "table"']
    lines.append('# label = "..."  # FILL IN: the discrete column to condition on, or remove this line')
    file, missing_text = spelling_of(list(kinds.values()), contents.file)
    mark, named = _Mark(from_rows), _Mark(contents.named_by_rows)
    if missing_text != TableSchema.missing_text:
        lines.append(mark(f"missing_text = {json.dumps(missing_text, ensure_ascii=False)}"))
    told = "  # FROM THE ROWS: confirm" if contents.named_by_rows else ""
    lines += [line + told for line in _person_lines(list(kinds))]
    lines += _file_lines(contents.file, file, mark)
    for name, found in kinds.items():
        why = why_left_out(name)
        if why is not None:
            lines += ["", f"# Column {json.dumps(name, ensure_ascii=False)} is left out: {why}.{told}"]
        else:
            lines += ["", "[[columns]]", *_column_lines(name, found, mark, named)]
    return "\n".join(lines) + "\n"


def _person_lines(names: list[str]) -> list[str]:
    """The question who is protected, if a name says that its column tells people apart."""
    found = [name for name in names if identifies(name)]
    if not found:
        return []
    which = f" (or another of {', '.join(found[1:])})" if len(found) > 1 else ""
    question = f"if it{which} tells persons apart and one may have several rows, or remove this line"
    return [f"# person = {json.dumps(found[0], ensure_ascii=False)}  # FILL IN: {question}"]


class _Mark:
    """Writes a line as it is, or as a comment that the curator must confirm."""

    def __init__(self, from_rows: bool) -> None:
        self._from_rows = from_rows

    def __call__(self, line: str) -> str:
        return f"# {line}  # FROM THE ROWS: confirm" if self._from_rows else line


def _file_lines(known: FileFormat, spelled: FileFormat, mark: _Mark) -> list[str]:
    """The table [file]: what was declared or stands in the header as it is, what cells tell to be confirmed."""
    lines = []
    plain = FileFormat()
    for key in FileFormat.__dataclass_fields__:
        value, usual = getattr(spelled, key), getattr(plain, key)
        if value == usual:
            continue
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        lines.append(line if value == getattr(known, key) else mark(line))
    return ["", "[file]", *lines] if lines else []


def blank_column(name: str, kind: str) -> list[str]:
    """The lines of a column of a kind that the curator chose, with everything else to be filled in.

    Raises:
        SchemaError: there is no such kind.
    """
    kinds = {one.kind: one for one in (Continuous, Integer, Categorical, Binary, Ordinal, Datetime)}
    if kind not in kinds:
        raise SchemaError(f"column {name!r} cannot be {kind!r}; choose one of {', '.join(kinds)}")
    found = Guess(kinds[kind], truths=("0", "1") if kind == Binary.kind else None)
    return _column_lines(name, found, *[_Mark(from_rows=False)] * 2)


def _column_lines(name: str, found: Guess, mark: _Mark, named: _Mark) -> list[str]:
    lines = [mark(f'kind = "{found.kind.kind}"'), named(f"name = {json.dumps(name, ensure_ascii=False)}")]
    if found.kind is Binary and found.stored_as is CellType.BOOL:
        lines.append('values = ["False", "True"]')
    elif found.kind is Binary and found.truths is not None:
        lines.append('# values = ["...", "..."]  # FILL IN: false and true as the file writes them')
    elif found.kind in (Integer, Continuous):
        lines += _bounds("value", typical(name))
    elif found.kind is Datetime:
        lines += _bounds("moment", None)
        lines.append('# unit = "day"  # FILL IN: "day", "hour", "minute" or "second"')
    elif found.kind is Categorical:
        if found.text:
            lines.append(
                "# FROM THE ROWS: free text or identifiers, it seems. Remove the column, or list its values:"
            )
        lines.append(_categories(name))
    elif found.kind is Ordinal:
        lines.append(
            '# levels = ["...", "..."]  # FILL IN: every value that can occur, from the least to the greatest'
        )
    if found.kind is Continuous:
        lines.append("# decimals = 1  # if you like: synthetic values are rounded to this many places")
    lines += [] if found.stored_as is None else [f'stored_as = "{found.stored_as.value}"']
    lines += [] if found.timezone is None else [f'timezone = "{found.timezone}"']
    return [*lines, "missing = false  # FILL IN: true if cells may be empty"]


def _categories(name: str) -> str:
    usual = usual_categories(name)
    what = 'every value that can occur, or "discover" (or choose another kind)'
    if usual is None:
        return f'# categories = ["...", "..."]  # FILL IN: {what}'
    values = json.dumps(usual.values, ensure_ascii=False)
    return f"# categories = {values}  # FILL IN: {what}; these are usual for {usual.what}"


def _bounds(what: str, usual: Typical | None) -> list[str]:
    if usual is None:
        return [f'# {side} =   # FILL IN: the {most} possible {what}, or "discover"' for side, most in _SIDES]
    return [
        f"# {side} = {getattr(usual, side)}  # FILL IN: the {most} possible {what}; this is usual for {usual.what}"
        for side, most in _SIDES
    ]


_SIDES = (("lower", "least"), ("upper", "greatest"))


def _guess_from_type(kind: Any) -> Guess:
    if pa.types.is_boolean(kind):
        return Guess(Binary, stored_as=CellType.BOOL)
    if pa.types.is_integer(kind):
        return Guess(Integer, stored_as=None if kind in (pa.int64(), pa.uint64()) else CellType(str(kind)))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Guess(Continuous, stored_as=CellType.FLOAT32 if kind == pa.float32() else None)
    if pa.types.is_temporal(kind):
        return Guess(Datetime, timezone=getattr(kind, "tz", None))
    return Guess(Categorical, stored_as=CellType.CATEGORY if pa.types.is_dictionary(kind) else None)


# ------------------------------------------------------------------------------------------ public rows


def _public(contents: Contents) -> str:
    if contents.cells is not None:
        schema, left_out = learned_from_cells(contents.cells, contents.file)
    else:
        assert contents.frame is not None
        schema, left_out = learned_from_frame(contents.frame)
    comments = [f"# Column {name!r} is left out: {why}.\n" for name, why in left_out.items()]
    rows = contents.cells if contents.cells is not None else contents.frame
    comments += [
        f"# Its values occur several times: if {name!r} tells persons apart, add person = {json.dumps(name)}.\n"
        for name in left_out
        if identifies(name) and rows is not None and rows[name].duplicated().any()
    ]
    return _PUBLIC_PREFACE.format(name=contents.name) + "".join(comments) + "\n" + schema_to_toml(schema)


# ----------------------------------------------------------------------------------------------- codes


def _codes(contents: Contents, layout: LongFile | None, listed: tuple[str, ...], from_public: bool) -> str:
    """A schema for one row per person and code, or for codes in several columns.

    The list of codes is the curator's, unless rows are public.
    """
    if from_public:
        rows = contents.cells if contents.cells is not None else contents.frame
        assert rows is not None
        held = pd.concat([code_texts(rows[name]) for name in (listed or [layout.code if layout else ""])])
        codes = tuple(sorted(code for code in held.dropna().unique() if code))
        preface = _PUBLIC_PREFACE.format(name=contents.name)
        schema = CodeSchema(codes, long=layout, code_columns=listed, file=contents.file)
        return preface + "\n" + schema_to_toml(schema)
    where = (
        f"code_columns = {json.dumps(listed)}\n"
        if layout is None
        else f"\n[long]\nperson = {json.dumps(layout.person)}\ncode = {json.dumps(layout.code)}\n"
    )
    return (
        _PREFACE.format(
            name=contents.name, basis="the names of its columns, which are those of health records"
        )
        + "\n"
        + 'kind = "codes"\n'
        + '# codes = ["...", "..."]  # FILL IN: every code that is told apart, from a public code book\n'
        + 'unknown = "drop"  # FILL IN: what to do with other codes, "drop" or "refuse"\n'
        + "max_count = 1  # FILL IN: how often a code is counted; 1: whether it occurs\n"
        + '# tree = "icd-10"  # if they are codes of ICD-9 or ICD-10: rare codes then learn from their block\n'
        + where
    )


# ---------------------------------------------------------------------------------------------- images


def _is_picture(path: Path) -> bool:
    if path.is_dir():
        return places_of(path) is None
    return path.name.lower().endswith(".npz") or is_idx(path)


def _pictures(path: Path, from_public: bool) -> str:
    if path.is_dir() and not from_public:
        first, labelled = first_picture(path), bool(folder_classes(path))
        (height, width, channels), deep = first.shape, first.dtype != np.uint8
    else:
        images = read(path).images
        (height, width, channels), deep = images.pixels.shape[1:], False
        labelled = images.labels is not None
        if from_public:
            schema = ImageSchema(height, width, channels, _public_classes(path, images.labels))
            return _PUBLIC_PREFACE.format(name=path.name) + "\n" + schema_to_toml(schema)
    lines = [_PREFACE.format(name=path.name, basis="the size of its images"), 'kind = "images"']
    lines += [f"height = {height}", f"width = {width}", f"channels = {channels}"]
    if deep:
        lines.append("range = []  # FILL IN: the values that become black and white, such as [0, 4095]")
    if labelled:
        lines.append("classes = []  # FILL IN: the names of the classes in the order of their labels")
    return "\n".join(lines) + "\n"


def _public_classes(path: Path, labels: Any) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if path.is_dir():
        return folder_classes(path)
    return tuple(str(i) for i in range(int(labels.max()) + 1))
