"""Rules that every row of a table keeps: public facts, declared by the curator and free of privacy budget."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from understudy.errors import SchemaError
from understudy.schema.columns import Continuous, Datetime, Discrete, Integer
from understudy.schema.discover import open_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.schema.columns import Column

__all__ = [
    "Combinations",
    "Forbidden",
    "Implied",
    "Inequality",
    "MissingTogether",
    "Rule",
    "Sum",
    "check_rules",
]


@dataclass(frozen=True)
class Inequality:
    """One number or moment is never greater than another; a missing one breaks nothing.

    Args:
        low: the column of the lesser value.
        high: the column of the greater value.
        strict: whether the two must differ.
    """

    kind: ClassVar[str] = "inequality"
    low: str
    high: str
    strict: bool = False

    def __post_init__(self) -> None:
        _check_several(self.columns)

    def __str__(self) -> str:
        return f"{self.low} {'<' if self.strict else '<='} {self.high}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return (self.low, self.high)


@dataclass(frozen=True)
class Combinations:
    """Only these combinations occur. If the first columns tell the last one, that is a functional dependence.

    Args:
        columns: two or more.
        allowed: values in the order of `columns`, as text; "" stands for a missing one.
    """

    kind: ClassVar[str] = "combinations"
    columns: tuple[str, ...]
    allowed: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        _check_combinations(self.columns, self.allowed)

    def __str__(self) -> str:
        return f"only {len(self.allowed)} combinations of {', '.join(self.columns)}"


@dataclass(frozen=True)
class Forbidden:
    """These combinations never occur (structural zeros).

    Args:
        columns: two or more.
        never: values in the order of `columns`, as text; "" stands for a missing one.
    """

    kind: ClassVar[str] = "forbidden"
    columns: tuple[str, ...]
    never: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        _check_combinations(self.columns, self.never)

    def __str__(self) -> str:
        return f"never {len(self.never)} combinations of {', '.join(self.columns)}"


@dataclass(frozen=True)
class MissingTogether:
    """In each row these columns are all missing, or none of them is."""

    kind: ClassVar[str] = "missing-together"
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_several(self.columns)

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} are missing together"


@dataclass(frozen=True)
class Sum:
    """One number is the sum of others; it is missing if and only if one of them is.

    Args:
        total: the column of the sum.
        parts: the columns that are added.
    """

    kind: ClassVar[str] = "sum"
    total: str
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_several(self.columns)

    def __str__(self) -> str:
        return f"{self.total} = {' + '.join(self.parts)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return (self.total, *self.parts)


@dataclass(frozen=True)
class Implied:
    """Where one column has a value, another has a value, too: "if smokes is 0, then years is 0".

    Args:
        when: the column that decides.
        equals: its value, as text; "" where it is missing.
        then: the column that follows.
        value: its value, as text; "" for missing.
    """

    kind: ClassVar[str] = "implied"
    when: str
    equals: str
    then: str
    value: str

    def __post_init__(self) -> None:
        _check_several(self.columns)

    def __str__(self) -> str:
        first, second = (text or "missing" for text in (self.equals, self.value))
        return f"if {self.when} is {first} then {self.then} is {second}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return (self.when, self.then)


Rule: TypeAlias = Inequality | Combinations | Forbidden | MissingTogether | Sum | Implied


def check_rules(rules: Sequence[Rule], columns: Sequence[Column]) -> None:
    """Refuse rules about columns that are not there, or that columns of their kind or values cannot keep."""
    known = {column.name: column for column in columns}
    for rule in rules:
        for name in rule.columns:
            if name not in known:
                raise SchemaError(f"the rule {rule} is about {name!r}, which is not one of the columns")
        _check_rule(rule, [known[name] for name in rule.columns])


def _check_rule(rule: Rule, columns: Sequence[Column]) -> None:
    match rule:
        case Inequality():
            if not _all(columns, Continuous | Integer) and not _all(columns, Datetime):
                raise SchemaError(f"the rule {rule} needs two numbers or two moments")
        case Sum():
            if not _all(columns, Continuous | Integer):
                raise SchemaError(f"the rule {rule} needs columns of numbers")
        case MissingTogether():
            _check_values(rule, columns, ("",) * len(columns))
        case Implied():
            _check_values(rule, columns, (rule.equals, rule.value))
        case Combinations(allowed=listed) | Forbidden(never=listed):
            for one in listed:
                _check_values(rule, columns, one)


def _all(columns: Sequence[Column], kinds: object) -> bool:
    return all(isinstance(column, kinds) for column in columns)  # type: ignore[arg-type]


def _check_values(rule: Rule, columns: Sequence[Column], texts: Sequence[str]) -> None:
    """Refuse values that the columns cannot hold."""
    for column, text in zip(columns, texts, strict=True):
        if text == "" and not column.missing:
            raise SchemaError(
                f"the rule {rule} speaks of missing values of {column.name!r}, which allows none; set missing = true"
            )
        if text != "" and open_facts(column):
            raise SchemaError(
                f"the rule {rule} names a value of {column.name!r}, about which {' and '.join(open_facts(column))} are "
                "to be discovered; declare them"
            )
        if text != "" and not _holds(column, text):
            raise SchemaError(f"the rule {rule} names {text!r}, which {column.name!r} cannot hold")


def _holds(column: Column, text: str) -> bool:
    if isinstance(column, Discrete):
        return text in column.values
    if isinstance(column, Datetime):
        return _moment_within(text, column)
    number = _number(text)
    return column.lower <= number <= column.upper and (isinstance(column, Continuous) or number.is_integer())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _moment_within(text: str, column: Datetime) -> bool:
    try:
        return column.lower <= dt.datetime.fromisoformat(text) <= column.upper
    except (TypeError, ValueError):
        return False


def _check_several(columns: tuple[str, ...]) -> None:
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise SchemaError(f"a rule needs two or more different columns, got {list(columns)}")


def _check_combinations(columns: tuple[str, ...], combinations: tuple[tuple[str, ...], ...]) -> None:
    _check_several(columns)
    if not combinations:
        raise SchemaError(f"the rule on {list(columns)} lists no combination; list at least one")
    for one in combinations:
        if len(one) != len(columns):
            raise SchemaError(
                f"the rule on {list(columns)} lists {list(one)}, which has {len(one)} values, not {len(columns)}"
            )
