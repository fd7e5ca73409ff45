"""`read`: one function for every source of records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from understudy.data.codes import from_columns, from_long
from understudy.data.databases import Database
from understudy.data.formats import read_table_file
from understudy.data.pictures import is_idx, read_folder, read_idx, read_npz
from understudy.data.places import places_of
from understudy.data.public.known import known, known_names
from understudy.data.records import Records
from understudy.data.spelling import understood
from understudy.data.tables import as_arrow, check_columns, from_arrow, from_frame, wanted_columns
from understudy.errors import DataError
from understudy.records.images import Images
from understudy.schema import CodeSchema, ImageSchema, TableSchema, with_stand_ins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.data.public.fetch import Progress
    from understudy.schema import Schema

__all__ = ["read", "read_long", "refuse_absent"]


def read(
    source: str | Path | pd.DataFrame | Images | Records | Sequence[Any] | Any,
    schema: Schema | None = None,
    *,
    on_progress: Progress | None = None,
) -> Records:
    """Read records from wherever they are.

    Args:
        source: a pandas frame, a pyarrow table, a polars frame (or what else speaks Arrow), `Images`; the path of a
            table (.csv, .tsv, .txt, .data, .jsonl, .parquet, .arrow, .xlsx; text also packed as .gz), of a folder of
            such files, a pattern such as `visits/*.csv`, or an address such as `s3://bucket/folder`; the path of
            images (.npz, IDX or a folder with one subfolder per class); the name of a known public set such as
            `digits` (its train part) or `digits:test`; a `Database` with a query; or a list of any of these, whose
            rows are put together.
        schema: the public description; files of tables cannot be read without it.
        on_progress: told how the download of a known set advances, for instance the callback of `download_bar()`.

    Raises:
        DataError: if the source cannot be read or lacks what the schema names.
    """
    schema = None if schema is None else with_stand_ins(schema)  # how cells are read depends on no open fact
    records = _read(source, schema, on_progress)
    if isinstance(records.content, Images):
        return records
    if isinstance(schema, TableSchema) and not isinstance(source, Records):
        return Records(understood(records.frame, schema), records.notes)
    if isinstance(schema, CodeSchema) and set(schema.code_columns) & set(records.frame.columns):
        return Records(from_columns(records.frame, schema).frame, records.notes)
    if not isinstance(schema, CodeSchema) or schema.long is None:
        return records
    person, code = schema.long.person, schema.long.code
    if not {person, code} <= set(records.frame.columns):
        return records
    return Records(from_long(records.frame, schema, person=person, code=code).frame, records.notes)


def read_long(source: str | Path, schema: CodeSchema) -> pd.DataFrame:
    """The rows of a long table of codes as they stand in its files, before they are put together by person."""
    return _read(source, schema, None).frame


def _read(source: Any, schema: Schema | None, on_progress: Progress | None) -> Records:
    if isinstance(source, Records):
        return source
    if isinstance(source, Images):
        return Records(source)
    if isinstance(source, pd.DataFrame):
        return from_frame(source, _tabular(schema))
    if isinstance(source, list | tuple):
        return _together([_read(part, schema, on_progress) for part in source])
    if isinstance(source, str | Path):
        return _read_path(source, schema, on_progress)
    return _read_rows(source, _tabular(schema))


def _read_rows(source: Any, schema: Any) -> Records:
    """Rows of a database, or of what speaks Arrow."""
    if not isinstance(source, Database):
        return from_arrow(as_arrow(source), schema)
    if source.states_types:
        return from_arrow(source.table(), schema, str(source))
    frame = source.frame()
    check_columns(str(source), list(frame.columns), schema)
    return from_frame(frame[wanted_columns(schema, list(frame.columns))], schema)


def _together(parts: list[Records]) -> Records:
    if not parts:
        raise DataError("the list of sources is empty; give at least one")
    if len(parts) == 1:
        return parts[0]
    frames = [part.frame for part in parts]
    columns = list(frames[0].columns)
    for number, frame in enumerate(frames[1:], 2):
        if set(frame.columns) != set(columns):
            raise DataError(f"source {number} has other columns than source 1; all must have the same")
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    # Where parts differ in type pandas would choose one that may lose digits: the cells stay as they are instead.
    mixed = [name for name in columns if len({frame[name].dtype for frame in frames}) > 1]
    plain = [frame[columns].astype(dict.fromkeys(mixed, object)) for frame in frames]
    return Records(pd.concat(plain, ignore_index=True), notes)


def _read_path(source: str | Path, schema: Schema | None, on_progress: Progress | None) -> Records:
    name, _, part = str(source).partition(":")
    if name in known_names() and part in ("", "train", "test"):
        dataset = known(name, on_progress=on_progress)
        return dataset.test if part == "test" else dataset.train
    path = Path(source)
    if not isinstance(schema, ImageSchema):
        places = places_of(source)
        if places is not None:
            if "://" not in str(source) and len(places) == 1:
                _refuse_absent(Path(places[0].path))
            described = _described(schema, str(source))
            return _together([read_table_file(place, described) for place in places])
    _refuse_absent(path)
    if path.is_dir():
        return read_folder(path, _pictorial(schema))
    if path.name.lower().endswith(".npz"):
        return read_npz(path, _pictorial(schema))
    if is_idx(path):
        return read_idx(path, _pictorial(schema))
    if isinstance(schema, ImageSchema) and places_of(source) is not None:
        raise DataError(f"the schema describes images, but {path} is a table")
    raise DataError(
        f"{path} is of no known kind. Give a table (.csv, .tsv, .txt, .data, .jsonl, .parquet, .arrow, .xlsx), .npz, "
        "an IDX file (name ends in -ubyte or -ubyte.gz) or a folder with one subfolder of images per class."
    )


def refuse_absent(source: object) -> None:
    """Refuse a source that is not there, before anything else is done; what is there is not read.

    Raises:
        DataError: no file is at the path, matches the pattern, or holds the database.
    """
    if isinstance(source, Database):
        source.refuse_absent()
    if not isinstance(source, str | Path) or str(source).partition(":")[0] in known_names():
        return
    if "://" in str(source):
        return
    if Path(source).exists() or not any(mark in str(source) for mark in "*?["):
        _refuse_absent(Path(source))
    else:
        places_of(source)


def _refuse_absent(path: Path) -> None:
    if not path.exists():
        raise DataError(
            f"{path} does not exist and is not the name of a known data set ({', '.join(known_names())})"
        )


def _described(schema: Schema | None, source: str) -> Any:
    if schema is None:
        raise DataError(
            f"{source} needs a schema, which says what its cells mean: write one with "
            f"`understudy schema draft {source} --out schema.toml`"
        )
    return _tabular(schema)


def _tabular(schema: Schema | None) -> Any:
    if isinstance(schema, ImageSchema):
        raise DataError("the schema describes images, but the source is a table")
    return schema


def _pictorial(schema: Schema | None) -> Any:
    if schema is not None and not isinstance(schema, ImageSchema):
        raise DataError(f"the schema describes a {schema.kind}, but the source holds images")
    return schema
