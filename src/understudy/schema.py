"""PUBLIC facts about the data: what a record may hold, declared by the curator and never learned from rows.

A schema is one of `TableSchema`, `ImageSchema` and `CodeSchema`. It alone decides how records become arrays
(`understudy.encode`), and it is published with the release. Bounds, categories and class weights must
therefore come from knowledge about the subject (a code book, physics, the law), not from the private rows.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - the codec reads the hints
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from understudy.codec import from_toml, to_toml
from understudy.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "GRID_LIMIT",
    "Binary",
    "Categorical",
    "CodeSchema",
    "Column",
    "Continuous",
    "Datetime",
    "Discrete",
    "ImageSchema",
    "Integer",
    "Ordinal",
    "Schema",
    "TableSchema",
    "TimeUnit",
    "UnknownCodes",
    "load_schema",
    "save_schema",
    "schema_from_toml",
    "schema_to_toml",
]

GRID_LIMIT = 2**24
"""The most steps between the bounds of a column with exact values: what float32 can tell apart on [-1, 1]."""


class TimeUnit(enum.Enum):
    """The resolution at which a datetime column is kept; finer parts are cut off."""

    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"

    @property
    def seconds(self) -> int:
        """The length of one unit."""
        return {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}[self.value]


class UnknownCodes(enum.Enum):
    """What to do with a code that the schema does not list."""

    REFUSE = "refuse"
    DROP = "drop"


@dataclass(frozen=True)
class Continuous:
    """A real number between public bounds; values outside are clipped.

    Args:
        name: the column's header.
        lower: the least value that is told apart.
        upper: the greatest value that is told apart.
        missing: whether empty cells are allowed.
        decimals: round to this many places when decoding; then values on that grid come back exactly.
    """

    kind: ClassVar[str] = "continuous"
    name: str
    lower: float
    upper: float
    missing: bool = False
    decimals: int | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_bounds(self.name, self.lower, self.upper)
        if self.decimals is not None and not 0 <= self.decimals <= 12:
            raise SchemaError(
                f"column {self.name!r}: decimals must lie between 0 and 12, got {self.decimals}"
            )


@dataclass(frozen=True)
class Integer:
    """A whole number between public bounds; values outside are clipped."""

    kind: ClassVar[str] = "integer"
    name: str
    lower: int
    upper: int
    missing: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not -(2**53) <= self.lower < self.upper <= 2**53:
            raise SchemaError(
                f"column {self.name!r}: lower must be less than upper and both within ±2^53, "
                f"got {str(self.lower)[:30]} and {str(self.upper)[:30]}"
            )
        if self.upper - self.lower > GRID_LIMIT:
            raise SchemaError(
                f"column {self.name!r}: {self.lower} to {self.upper} is more than 2^24 whole numbers, "
                "which float32 cannot tell apart. Narrow the bounds, or declare it continuous."
            )


@dataclass(frozen=True)
class Categorical:
    """One of several named values without an order.

    Args:
        name: the column's header.
        categories: every value that may occur, as text.
        missing: whether empty cells are allowed.
        unknown: the category that stands for values not in the list; None refuses them.
    """

    kind: ClassVar[str] = "categorical"
    name: str
    categories: tuple[str, ...]
    missing: bool = False
    unknown: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_values(self.name, self.categories)
        if self.unknown is not None and self.unknown not in self.categories:
            raise SchemaError(
                f"column {self.name!r}: unknown = {self.unknown!r} is not one of its categories; add it"
            )

    @property
    def values(self) -> tuple[str, ...]:
        """The categories, under the name that all discrete columns share."""
        return self.categories


@dataclass(frozen=True)
class Binary:
    """One of two values; booleans are read as the first (false) and the second (true)."""

    kind: ClassVar[str] = "binary"
    name: str
    values: tuple[str, str] = ("0", "1")
    missing: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_values(self.name, self.values)


@dataclass(frozen=True)
class Ordinal:
    """One of several named values in the order given."""

    kind: ClassVar[str] = "ordinal"
    name: str
    levels: tuple[str, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_values(self.name, self.levels)

    @property
    def values(self) -> tuple[str, ...]:
        """The levels, under the name that all discrete columns share."""
        return self.levels


@dataclass(frozen=True)
class Datetime:
    """A moment between public bounds, without time zone, kept at the resolution `unit`."""

    kind: ClassVar[str] = "datetime"
    name: str
    lower: dt.datetime
    upper: dt.datetime
    unit: TimeUnit = TimeUnit.DAY
    missing: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.lower.tzinfo is not None or self.upper.tzinfo is not None:
            raise SchemaError(f"column {self.name!r}: bounds must be without time zone (UTC is meant)")
        if self.lower.microsecond or self.upper.microsecond:
            raise SchemaError(f"column {self.name!r}: bounds must be whole seconds")
        if self.lower >= self.upper:
            raise SchemaError(f"column {self.name!r}: lower {self.lower} must be before upper {self.upper}")
        if not 1 <= self.steps <= GRID_LIMIT:
            raise SchemaError(
                f"column {self.name!r}: {self.lower} to {self.upper} is {self.steps} steps "
                f"of one {self.unit.value}; 1 to 2^24 can be told apart. Change the unit or the bounds."
            )

    @property
    def steps(self) -> int:
        """How many whole units lie between the bounds."""
        return int((self.upper - self.lower).total_seconds()) // self.unit.seconds


Column: TypeAlias = Continuous | Integer | Categorical | Binary | Ordinal | Datetime
Discrete: TypeAlias = Categorical | Binary | Ordinal


@dataclass(frozen=True)
class TableSchema:
    """A table with one record per row.

    Args:
        columns: what each column may hold; columns of a file that are not listed are ignored.
        label: the name of the discrete column that generators are conditioned on, or None.
        label_weights: the PUBLIC share of each class, in the order of `label_classes`, or None if not public.
        missing_text: how files write an empty cell.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    label: str | None = None
    label_weights: tuple[float, ...] | None = None
    missing_text: tuple[str, ...] = ("", "NA", "NaN", "nan", "null")

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("a table needs at least one column")
        names = [column.name for column in self.columns]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SchemaError(
                f"column {repeated[0]!r} is declared {names.count(repeated[0])} times; name it once"
            )
        for column in self.columns:
            if isinstance(column, Discrete):
                self._check_missing_text(column)
        if self.label is not None:
            self._check_label()
        _check_weights(self.label_weights, self.label_classes)

    def _check_missing_text(self, column: Discrete) -> None:
        for value in column.values:
            if value in self.missing_text:
                raise SchemaError(
                    f"column {column.name!r}: {value!r} is a category and also means an empty cell; "
                    "set missing_text so that it does not contain it"
                )

    def _check_label(self) -> None:
        column = next((column for column in self.columns if column.name == self.label), None)
        if column is None:
            raise SchemaError(f"the label {self.label!r} is not one of the columns; add it or change label")
        if not isinstance(column, Discrete) or column.missing:
            raise SchemaError(
                f"the label {self.label!r} must be categorical, binary or ordinal and without missing "
                f"values, but it is {column.kind}{' with missing values' if column.missing else ''}"
            )
        if len(self.columns) == 1:
            raise SchemaError(f"the table has no column beside its label {self.label!r}")

    @property
    def label_column(self) -> Discrete | None:
        """The column that holds the label."""
        found = next((column for column in self.columns if column.name == self.label), None)
        return found if isinstance(found, Discrete) else None

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns beside the label."""
        return tuple(column for column in self.columns if column.name != self.label)

    @property
    def label_classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or None without a label."""
        return self.label_column.values if self.label_column else None


@dataclass(frozen=True)
class ImageSchema:
    """Images of one size with 8 bits per channel.

    Args:
        height: rows of pixels.
        width: columns of pixels.
        channels: 1 for grey, 3 for colour.
        classes: the names of the classes, or None without labels.
        label_weights: the PUBLIC share of each class, or None if not public.
    """

    kind: ClassVar[str] = "images"
    height: int
    width: int
    channels: int = 1
    classes: tuple[str, ...] | None = None
    label_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.height <= 4096 and 1 <= self.width <= 4096):
            raise SchemaError(
                f"height and width must lie between 1 and 4096, got {self.height} × {self.width}"
            )
        if self.channels not in (1, 3):
            raise SchemaError(f"channels must be 1 (grey) or 3 (colour), got {self.channels}")
        if self.classes is not None:
            _check_values("classes", self.classes)
        _check_weights(self.label_weights, self.classes)

    @property
    def label_classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or None without labels."""
        return self.classes


@dataclass(frozen=True)
class CodeSchema:
    """A set of codes per person, such as ICD-9 diagnoses: one record is one person.

    Args:
        codes: every code that is told apart.
        max_count: 1 keeps only whether a code occurs; more keeps how often, up to this many times.
        unknown: what to do with codes that are not listed.
        label: an optional class of the person.
        label_weights: the PUBLIC share of each class, or None if not public.
    """

    kind: ClassVar[str] = "codes"
    codes: tuple[str, ...]
    max_count: int = 1
    unknown: UnknownCodes = UnknownCodes.REFUSE
    label: Categorical | Binary | None = None
    label_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.codes:
            raise SchemaError("a code schema needs at least one code")
        _check_values("codes", self.codes, least=1)
        if not 1 <= self.max_count <= 65_535:
            raise SchemaError(f"max_count must lie between 1 and 65535, got {self.max_count}")
        if self.label is not None:
            if self.label.missing:
                raise SchemaError(f"the label {self.label.name!r} must not allow missing values")
            if self.label.name in self.codes:
                raise SchemaError(f"the label {self.label.name!r} has the name of a code; rename it")
        _check_weights(self.label_weights, self.label_classes)

    @property
    def label_classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or None without a label."""
        return self.label.values if self.label else None


Schema: TypeAlias = TableSchema | ImageSchema | CodeSchema


def schema_to_toml(schema: Schema) -> str:
    """Return the schema as TOML, without what equals its default."""
    return to_toml(schema, omit_defaults=True)


def schema_from_toml(text: str) -> Schema:
    """Read a schema from TOML; SchemaError says which key is wrong."""
    schema: Schema = from_toml(Schema, text, error=SchemaError)
    return schema


def load_schema(path: Path) -> Schema:
    """Read a schema file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise SchemaError(f"cannot read the schema {path}: {cause}") from cause
    try:
        return schema_from_toml(text)
    except SchemaError as cause:
        raise SchemaError(f"{path}: {cause}") from cause


def save_schema(schema: Schema, path: Path) -> None:
    """Write a schema file."""
    path.write_text(schema_to_toml(schema), encoding="utf-8")


def _check_name(name: str) -> None:
    if not name or name != name.strip():
        raise SchemaError(f"a column needs a name without spaces around it, got {name!r}")


def _check_bounds(name: str, lower: float, upper: float) -> None:
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise SchemaError(
            f"column {name!r}: lower must be less than upper and both finite, got {lower} and {upper}"
        )
    if not math.isfinite(upper - lower):
        raise SchemaError(f"column {name!r}: the distance from {lower} to {upper} overflows")


def _check_values(name: str, values: tuple[str, ...], least: int = 2) -> None:
    if len(values) < least:
        raise SchemaError(f"{name!r} needs at least {least} values, got {len(values)}: {list(values)}")
    if len(set(values)) < len(values):
        repeated = next(value for value in values if values.count(value) > 1)
        raise SchemaError(f"{name!r} lists the value {repeated!r} more than once")


def _check_weights(weights: tuple[float, ...] | None, classes: tuple[str, ...] | None) -> None:
    if weights is None:
        return
    if classes is None:
        raise SchemaError("label_weights are given but the schema has no label; add one or remove them")
    if len(weights) != len(classes):
        raise SchemaError(f"label_weights has {len(weights)} numbers for {len(classes)} classes")
    if any(not (math.isfinite(w) and w >= 0) for w in weights) or abs(sum(weights) - 1) > 1e-6:
        raise SchemaError(
            f"label_weights must be shares that are not negative and sum to 1, got {list(weights)}"
        )
