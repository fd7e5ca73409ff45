"""Rules that every row of a table keeps: public facts, declared by the curator and free of privacy budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from understudy.errors import SchemaError

__all__ = ["Combinations", "Forbidden", "Implied", "Inequality", "MissingTogether", "Rule", "Sum"]


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


@dataclass(frozen=True)
class MissingTogether:
    """In each row these columns are all missing, or none of them is."""

    kind: ClassVar[str] = "missing-together"
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_several(self.columns)


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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule is about."""
        return (self.when, self.then)


Rule: TypeAlias = Inequality | Combinations | Forbidden | MissingTogether | Sum | Implied


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
