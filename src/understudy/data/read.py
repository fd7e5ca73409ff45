"""`read`: one function for every source of records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from understudy.data.codes import from_long
from understudy.data.pictures import is_idx, read_folder, read_idx, read_npz
from understudy.data.public.known import known, known_names
from understudy.data.records import Records
from understudy.data.tables import CSV_SUFFIXES, from_arrow, from_frame, read_csv, read_parquet
from understudy.errors import DataError
from understudy.records.images import Images
from understudy.schema import CodeSchema, ImageSchema

if TYPE_CHECKING:
    from understudy.data.public.fetch import Progress
    from understudy.schema import Schema

__all__ = ["read"]


def read(
    source: str | Path | pd.DataFrame | Images | Records | Any,
    schema: Schema | None = None,
    *,
    progress: Progress | None = None,
) -> Records:
    """Read records from wherever they are.

    Args:
        source: a pandas frame, a pyarrow table, `Images`; the path of a .csv, .tsv (also .gz), .parquet, .npz
            or IDX(.gz) file, or of a folder with one subfolder of images per class; or the name of a known
            public set such as `digits` (its train part) or `digits:test`.
        schema: the public description; without it types are guessed and nothing is checked against it.
        progress: told how the download of a known set advances, for instance the callback of `download_bar()`.

    Raises:
        DataError: if the source cannot be read or lacks what the schema names.
    """
    records = _read(source, schema, progress)
    if not isinstance(schema, CodeSchema) or schema.long is None or isinstance(records.content, Images):
        return records
    person, code = schema.long.person, schema.long.code
    if not {person, code} <= set(records.frame.columns):
        return records
    return from_long(records.frame, schema, person=person, code=code)


def _read(source: Any, schema: Schema | None, progress: Progress | None) -> Records:
    if isinstance(source, Records):
        return source
    if isinstance(source, Images):
        return Records(source)
    if isinstance(source, pd.DataFrame):
        return from_frame(source, _tabular(schema))
    if isinstance(source, pa.Table):
        return from_arrow(source, _tabular(schema))
    if not isinstance(source, str | Path):
        raise DataError(
            f"cannot read records from a {type(source).__name__}; give a path, a frame or a table"
        )
    name, _, part = str(source).partition(":")
    if name in known_names() and part in ("", "train", "test"):
        dataset = known(name, progress=progress)
        return dataset.test if part == "test" else dataset.train
    return _read_path(Path(source), schema)


def _read_path(path: Path, schema: Schema | None) -> Records:
    if not path.exists():
        raise DataError(
            f"{path} does not exist and is not the name of a known data set ({', '.join(known_names())})"
        )
    name = path.name.lower()
    if name.endswith(CSV_SUFFIXES):
        return read_csv(path, _tabular(schema))
    if name.endswith(".parquet"):
        return read_parquet(path, _tabular(schema))
    if path.is_dir():
        return read_folder(path, _pictorial(schema))
    if name.endswith(".npz"):
        return read_npz(path, _pictorial(schema))
    if is_idx(path):
        return read_idx(path, _pictorial(schema))
    raise DataError(
        f"{path} is of no known kind. Give .csv, .tsv, .parquet, .npz, an IDX file (name ends in -ubyte or "
        "-ubyte.gz) or a folder with one subfolder of images per class."
    )


def _tabular(schema: Schema | None) -> Any:
    if isinstance(schema, ImageSchema):
        raise DataError("the schema describes images, but the source is a table")
    return schema


def _pictorial(schema: Schema | None) -> Any:
    if schema is not None and not isinstance(schema, ImageSchema):
        raise DataError(f"the schema describes a {schema.kind}, but the source holds images")
    return schema
