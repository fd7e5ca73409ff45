"""PUBLIC facts about the data: what a record may hold, declared by the curator and never learned from rows.

A schema is one of `TableSchema`, `ImageSchema` and `CodeSchema`. It alone decides how records become arrays
(`understudy.records.encode`), and it is published with the release. Bounds, categories and class weights must
therefore come from knowledge about the subject (a code book, physics, the law), not from the private rows.
"""

from understudy.schema.cells import CellType
from understudy.schema.code_tree import CodeBlock, CodeTree
from understudy.schema.columns import (
    GRID_LIMIT,
    Binary,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Discrete,
    Integer,
    NumberScale,
    Ordinal,
    TimeUnit,
)
from understudy.schema.complete import (
    completes,
    open_columns,
    refuse_open,
    stand_in,
    unknown_of,
    widest,
    with_stand_ins,
)
from understudy.schema.discover import DISCOVER, FIRST_YEAR, LAST_YEAR, Discover, open_facts
from understudy.schema.file_format import FileFormat
from understudy.schema.rules import (
    Combinations,
    Forbidden,
    Implied,
    Inequality,
    MissingTogether,
    Rule,
    Sum,
)
from understudy.schema.schemas import (
    Augmentation,
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
    "DISCOVER",
    "FIRST_YEAR",
    "GRID_LIMIT",
    "LAST_YEAR",
    "Augmentation",
    "Binary",
    "Categorical",
    "CellType",
    "CodeBlock",
    "CodeSchema",
    "CodeTree",
    "Column",
    "Combinations",
    "Continuous",
    "Datetime",
    "Discover",
    "Discrete",
    "FileFormat",
    "Forbidden",
    "ImageSchema",
    "Implied",
    "Inequality",
    "Integer",
    "LongFile",
    "MissingTogether",
    "NumberScale",
    "Ordinal",
    "Rule",
    "Schema",
    "Sum",
    "TableSchema",
    "TimeUnit",
    "Unit",
    "UnknownCodes",
    "completes",
    "load_schema",
    "open_columns",
    "open_facts",
    "refuse_open",
    "save_schema",
    "schema_from_toml",
    "schema_of",
    "schema_to_toml",
    "stand_in",
    "unit_words",
    "unknown_of",
    "widest",
    "with_stand_ins",
]
