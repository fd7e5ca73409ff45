"""PUBLIC facts about the data: what a record may hold, declared by the curator and never learned from rows.

A schema is one of `TableSchema`, `ImageSchema` and `CodeSchema`. It alone decides how records become arrays
(`understudy.records.encode`), and it is published with the release. Bounds, categories and class weights must
therefore come from knowledge about the subject (a code book, physics, the law), not from the private rows.
"""

from understudy.schema.columns import (
    GRID_LIMIT,
    Binary,
    Categorical,
    CellType,
    Column,
    Continuous,
    Datetime,
    Discrete,
    Integer,
    NumberScale,
    Ordinal,
    TimeUnit,
)
from understudy.schema.file_format import FileFormat
from understudy.schema.schemas import (
    CodeSchema,
    ImageSchema,
    LongFile,
    Schema,
    TableSchema,
    UnknownCodes,
    load_schema,
    save_schema,
    schema_from_toml,
    schema_of,
    schema_to_toml,
)
from understudy.schema.unit import Unit, unit_words

__all__ = [
    "GRID_LIMIT",
    "Binary",
    "Categorical",
    "CellType",
    "CodeSchema",
    "Column",
    "Continuous",
    "Datetime",
    "Discrete",
    "FileFormat",
    "ImageSchema",
    "Integer",
    "LongFile",
    "NumberScale",
    "Ordinal",
    "Schema",
    "TableSchema",
    "TimeUnit",
    "Unit",
    "UnknownCodes",
    "load_schema",
    "save_schema",
    "schema_from_toml",
    "schema_of",
    "schema_to_toml",
    "unit_words",
]
