"""What a whole data set may hold: a table, images, or sets of codes; as values and as TOML."""

from __future__ import annotations

import enum
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from understudy.codec import from_toml, to_toml
from understudy.errors import CallError, SchemaError
from understudy.files import read_text, write_whole
from understudy.notebook import html_table
from understudy.schema.code_tree import CodeBlock, CodeTree, levels_of
from understudy.schema.columns import Binary, Categorical, Column, Discrete, check_values
from understudy.schema.discover import DISCOVER, open_facts
from understudy.schema.file_format import FileFormat
from understudy.schema.person import PersonUnit
from understudy.schema.rules import Rule, check_rules

__all__ = [
    "Augmentation",
    "CodeSchema",
    "ImageSchema",
    "Schema",
    "TableSchema",
    "UnknownCodes",
    "load_schema",
    "save_schema",
    "schema_from_toml",
    "schema_of",
    "schema_to_toml",
]


PLAIN_CSV = FileFormat()
"""Files with a header, and cells as pandas and spreadsheets in English write them."""


class Augmentation(enum.Enum):
    """How synthetic images may be varied without becoming something else."""

    WARP = "warp"
    MIRROR = "mirror"
    NONE = "none"


class UnknownCodes(enum.Enum):
    """What to do with a code that the schema does not list."""

    REFUSE = "refuse"
    DROP = "drop"


@dataclass(frozen=True, repr=False)
class TableSchema(PersonUnit):
    """A table with one record per row.

    Args (and those of `PersonUnit`):
        columns: what each column may hold; columns of a file that are not listed are ignored.
        label: the name of the discrete column that generators are conditioned on, or None.
        label_weights: the PUBLIC share of each class, in the order of `label_classes`, or None if not public.
        missing_text: how files write an empty cell; synthetic files write the first of them.
        file: how cells are written where files differ from plain CSV.
        order: the header of synthetic rows, where it is not that of `columns`; names that are no columns stay empty.
        rules: what holds in every row, and so in every synthetic one; public facts, which cost no budget.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    label: str | None = None
    label_weights: tuple[float, ...] | None = None
    missing_text: tuple[str, ...] = ("", "NA", "NaN", "nan", "null")
    file: FileFormat = PLAIN_CSV
    order: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.columns:
            raise SchemaError("a table needs at least one column")
        self.refuse_modelled_person(tuple(column.name for column in self.columns))
        name, times = Counter(column.name for column in self.columns).most_common(1)[0]
        if times > 1:
            raise SchemaError(f"column {name!r} is declared {times} times; name it once")
        self._check_order()
        for column in self.columns:
            if isinstance(column, Discrete) and not open_facts(column):
                self._check_missing_text(column)
        if self.label is not None:
            self._check_label()
        _check_weights(self.label_weights, self.label_classes)
        check_rules(self.rules, self.columns)

    def _check_order(self) -> None:
        absent = [column.name for column in self.columns if column.name not in self.order]
        if self.order and (absent or len(set(self.order)) < len(self.order) or not all(self.order)):
            what = f"lacks {', '.join(absent)}" if absent else "has a name twice, or an empty one"
            raise SchemaError(f"order must name every column once, and others that stay empty; it {what}")

    def _check_missing_text(self, column: Discrete) -> None:
        encoding = self.file.encoding or "utf-8"
        for value in column.values:
            if value.encode(encoding, errors="replace").decode(encoding, errors="replace") != value:
                raise SchemaError(f"column {column.name!r}: {value!r} cannot be written in {encoding}")
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
        if open_facts(column) and self.label_weights is not None:
            raise SchemaError(
                f"the classes of the label {self.label!r} are to be discovered, so nobody can know their "
                "label_weights; list the classes, or leave the weights out"
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

    @staticmethod
    def draft(source: Any, **options: Any) -> Any:
        """A first draft for a data frame or a file, with what is left to fill in; see `understudy.Draft.of`."""
        import understudy  # the whole package, as users have it: this room itself reads no rows

        return understudy.Draft.of(source, **options)

    def __repr__(self) -> str:
        return f"<TableSchema: {len(self.columns)} columns{_labelled(self.label)}>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.kind, _facts(one)) for one in self.columns]
        return html_table(f"Table{_labelled(self.label)}", rows, head=("column", "kind", "public facts"))


@dataclass(frozen=True, repr=False)
class ImageSchema(PersonUnit):
    """Images of one size; synthetic ones have 8 bits per channel.

    Args (and those of `PersonUnit`, whose `person` names an array of an .npz file or a column of `persons.csv`):
        height: rows of pixels.
        width: columns of pixels.
        channels: 1 for grey, 3 for colour.
        range: the PUBLIC values that become black and white, for pixels that are not of 8 bits (a window of medical
            images, such as 0 and 4095); what lies outside is drawn to the nearer end. None: 8 bits as they are.
        convert: read colour as grey, or grey as colour, where files are not as `channels` says; otherwise refused.
        skip_damaged: leave out files that cannot be read, instead of refusing all; whether there are any is told to the
            curator only.
        classes: the names of the classes, or None without labels.
        label_weights: the PUBLIC share of each class, or None if not public.
        augmentation: how synthetic images may be varied: "warp" (turned, stretched and shifted a little, right for
            writing), "mirror" (left and right exchanged, shifted: right for most photographs) or "none". None: grey
            images are warped, colour ones mirrored.
    """

    kind: ClassVar[str] = "images"
    height: int
    width: int
    channels: int = 1
    classes: tuple[str, ...] | None = None
    label_weights: tuple[float, ...] | None = None
    range: tuple[float, float] | None = None
    convert: bool = False
    skip_damaged: bool = False
    augmentation: Augmentation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range is not None and not (
            all(map(math.isfinite, self.range)) and self.range[0] < self.range[1]
        ):
            raise SchemaError(f"range must be two finite numbers, the lower first, got {list(self.range)}")
        if not (1 <= self.height <= 4096 and 1 <= self.width <= 4096):
            raise SchemaError(
                f"height and width must lie between 1 and 4096, got {self.height} × {self.width}"
            )
        if self.channels not in (1, 3):
            raise SchemaError(f"channels must be 1 (grey) or 3 (colour), got {self.channels}")
        if self.classes is not None:
            check_values("classes", self.classes)
        _check_weights(self.label_weights, self.classes)

    @property
    def label_classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or None without labels."""
        return self.classes

    def __repr__(self) -> str:
        return f"<ImageSchema: {self.height}×{self.width}×{self.channels}, {len(self.classes or ())} classes>"

    def _repr_html_(self) -> str:
        rows = [("size", f"{self.height} × {self.width}"), ("channels", self.channels)]
        return html_table("Images", [*rows, ("classes", _listed(self.classes or ()))])


@dataclass(frozen=True)
class LongFile:
    """How to read files with one row per (person, code) instead of one column per code.

    Args:
        person: the column that tells persons apart; what it holds is never kept.
        code: the column with the codes.
    """

    person: str
    code: str

    def __post_init__(self) -> None:
        if not self.person or not self.code or self.person == self.code:
            raise SchemaError(
                f"a long file needs two columns, for persons and codes; got {self.person!r} and {self.code!r}"
            )


@dataclass(frozen=True, repr=False)
class CodeSchema(PersonUnit):
    """A set of codes per record, such as the ICD-9 diagnoses of one person.

    Args (and those of `PersonUnit`):
        codes: every code that is told apart.
        max_count: 1 keeps only whether a code occurs; more keeps how often, up to this many times.
        unknown: what to do with codes that are not listed.
        label: an optional class of the record.
        label_weights: the PUBLIC share of each class, or None if not public.
        long: the columns of files with one row per (person, code); None for one column per code.
        code_columns: the columns of files with several codes in a row, each in a cell, such as DX1 to DX20.
        tree: the PUBLIC classification that the codes are of, so that rare codes learn from their neighbours.
        blocks: the same for other codes: which of them belong together.
        file: how cells are written where files differ from plain CSV.
    """

    kind: ClassVar[str] = "codes"
    codes: tuple[str, ...]
    max_count: int = 1
    unknown: UnknownCodes = UnknownCodes.REFUSE
    label: Categorical | Binary | None = None
    label_weights: tuple[float, ...] | None = None
    long: LongFile | None = None
    code_columns: tuple[str, ...] = ()
    tree: CodeTree | None = None
    blocks: tuple[CodeBlock, ...] = ()
    file: FileFormat = PLAIN_CSV

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.codes:
            raise SchemaError("a code schema needs at least one code")
        self.refuse_modelled_person((*self.codes, *([self.label.name] if self.label else [])))
        check_values("codes", self.codes, least=1)
        if not 1 <= self.max_count <= 65_535:
            raise SchemaError(f"max_count must lie between 1 and 65535, got {self.max_count}")
        if self.label is not None:
            if self.label.missing:
                raise SchemaError(f"the label {self.label.name!r} must not allow missing values")
            if open_facts(self.label):
                raise SchemaError(
                    f"the label {self.label.name!r}: classes are discovered in tables only; list them"
                )
            if self.label.name in self.codes:
                raise SchemaError(f"the label {self.label.name!r} has the name of a code; rename it")
        _check_weights(self.label_weights, self.label_classes)
        if self.long is not None and self.code_columns:
            raise SchemaError("codes are in the rows of a long file or in code_columns, not in both")
        if len(set(self.code_columns)) < len(self.code_columns):
            raise SchemaError("a name occurs twice in code_columns")
        if self.blocks:
            levels_of(self.codes, self.tree, self.blocks)

    @property
    def label_classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or None without a label."""
        return self.label.values if self.label else None

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """For each level of the declared tree, the coarsest first, the number of each code's group."""
        return levels_of(self.codes, self.tree, self.blocks)

    def __repr__(self) -> str:
        return f"<CodeSchema: {len(self.codes)} codes{_labelled(self.label.name if self.label else None)}>"

    def _repr_html_(self) -> str:
        rows = [("codes", _listed(self.codes)), ("counted up to", self.max_count)]
        return html_table(f"Code sets{_labelled(self.label.name if self.label else None)}", rows)


Schema: TypeAlias = TableSchema | ImageSchema | CodeSchema


def schema_to_toml(schema: Schema) -> str:
    """Return the schema as TOML, without what equals its default."""
    return to_toml(schema, omit_defaults=True)


def schema_from_toml(text: str) -> Schema:
    """Read a schema from TOML; SchemaError says which key is wrong."""
    schema: Schema = from_toml(Schema, text, error=SchemaError)
    return schema


def schema_of(given: Schema | str | Path) -> Schema:
    """A schema, or the one in the file of this path.

    Raises:
        CallError: it is neither.
    """
    if isinstance(given, TableSchema | ImageSchema | CodeSchema):
        return given
    if isinstance(given, str | Path):
        return load_schema(Path(given))
    raise CallError(
        f"a schema is expected, or the path of its file, and this is a {type(given).__name__}; write one with "
        "understudy.TableSchema((…)) or `understudy schema draft`."
    )


def load_schema(path: str | Path) -> Schema:
    """Read a schema file."""
    path = Path(path)
    text = read_text(path, error=SchemaError)
    try:
        return schema_from_toml(text)
    except SchemaError as cause:
        left = text.count("FILL IN:") + text.count("FROM THE ROWS:")
        hint = f". Lines that still say FILL IN or FROM THE ROWS: {left}" if left else ""
        raise SchemaError(f"{path}: {cause}{hint}") from cause


def save_schema(schema: Schema, path: str | Path) -> None:
    """Write a schema file."""
    write_whole(Path(path), schema_to_toml(schema), error=SchemaError)


_SHOWN = 8
"""Names of a list that are shown in a notebook."""


def _labelled(label: str | None) -> str:
    return "" if label is None else f", label {label!r}"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _facts(column: Column) -> str:
    """What a column may hold, in a few words."""
    ends = ("values",) if isinstance(column, Discrete) else ("lower", "upper")
    known = [getattr(column, end) for end in ends]
    words = ["discovered" if one is DISCOVER else one for one in known]
    range_ = " to ".join(_listed(one) if isinstance(one, tuple) else str(one) for one in words)
    return range_ + (", may be empty" if column.missing else "")


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
