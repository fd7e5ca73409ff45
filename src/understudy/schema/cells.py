"""How a data frame keeps the cells of a column."""

from __future__ import annotations

import enum
import re

from understudy.errors import SchemaError

__all__ = ["WHOLE_TYPES", "CellType", "check_stored", "check_stored_values", "holds", "least_and_most"]


class CellType(enum.Enum):
    """How a data frame keeps the cells of a column, where that is not pandas' own choice for its kind."""

    BOOL = "bool"
    CATEGORY = "category"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


WHOLE_TYPES = (
    CellType.INT8, CellType.INT16, CellType.INT32, CellType.INT64, CellType.UINT8, CellType.UINT16, CellType.UINT32
)  # fmt: skip


def check_stored(name: str, stored: CellType | None, allowed: tuple[CellType, ...]) -> None:
    """Refuse a type that the kind of column cannot have."""
    if stored is not None and stored not in allowed:
        words = ", ".join(kind.value for kind in allowed)
        raise SchemaError(f"column {name!r}: stored_as is {stored.value}, but such a column can be {words}")


def check_stored_values(name: str, values: tuple[str, ...], stored: CellType | None) -> None:
    """Refuse a type of numbers for categories that are not written as such numbers."""
    check_stored(name, stored, (CellType.CATEGORY, *WHOLE_TYPES, CellType.FLOAT64))
    if stored in (None, CellType.CATEGORY):
        return
    for value in values:
        if not re.fullmatch(r"0|-?[1-9]\d*", value) or not holds(stored, int(value), int(value)):
            raise SchemaError(f"column {name!r}: {value!r} cannot be stored as {stored.value}")


def holds(stored: CellType, lower: int, upper: int) -> bool:
    """Whether the type has all whole numbers between the two."""
    least, most = least_and_most(stored)
    return least <= lower and upper <= most


def least_and_most(stored: CellType | None) -> tuple[float, float]:
    """Between which whole numbers a type holds each one."""
    if stored not in WHOLE_TYPES:
        most = 2**24 if stored is CellType.FLOAT32 else 2**53
        return -most, most
    signed = not stored.value.startswith("u")
    bits = int(stored.value.removeprefix("u").removeprefix("int"))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
