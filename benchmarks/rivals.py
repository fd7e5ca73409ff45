"""Other people's systems for tables, run in an environment of their own and judged by the same measures.

dpmm needs older versions of pandas and NumPy than we do, so it is called as a program with its own Python:
`make bench-rivals` makes that environment. It is given the same public facts that our schema gives us: bounds,
categories, and a category of its own for missing categories; missing numbers it knows itself.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from understudy.schema import Continuous, Integer, TableSchema

if TYPE_CHECKING:
    from understudy.schema import Column

__all__ = ["RIVALS", "made_by"]

RIVALS = {"dpmm mst": "mst", "dpmm aim": "aim"}
"""The names of the systems, and what the program calls them."""

MISSING = "missing value"
_PROGRAM = Path(__file__).with_name("rival_dpmm.py")


def made_by(
    python: Path, system: str, rows: pd.DataFrame, schema: TableSchema, epsilon: float, delta: float
) -> tuple[pd.DataFrame, float]:
    """As many synthetic rows as there are rows, and the CPU seconds of fitting.

    Args:
        python: the interpreter of the environment that has dpmm.
        system: one of `RIVALS`.
        rows: the training rows.
        schema: what may be known about them.
        epsilon: the whole budget, bins included.
        delta: of the same budget.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = {column.name: _told(column, rows[column.name]) for column in schema.columns}
        pd.DataFrame(told).to_csv(folder / "rows.csv", index=False)
        domain = {column.name: _domain(column) for column in schema.columns}
        (folder / "domain.json").write_text(json.dumps(domain), encoding="utf-8")
        command = [str(python), str(_PROGRAM), RIVALS[system], str(epsilon), str(delta), str(folder)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        named = {c.name: str for c in schema.columns if not _is_number(c)}
        empty = {c.name: [""] for c in schema.columns if _is_number(c)}
        made = pd.read_csv(folder / "made.csv", dtype=named, keep_default_na=False, na_values=empty)
        seconds = float(json.loads((folder / "seconds.json").read_text(encoding="utf-8")))
    return pd.DataFrame({c.name: _heard(c, made[c.name]) for c in schema.columns}), seconds


def _is_number(column: Column) -> bool:
    return isinstance(column, (Continuous, Integer))


def _domain(column: Column) -> dict[str, Any]:
    if isinstance(column, (Continuous, Integer)):
        return {"lower": float(column.lower), "upper": float(column.upper)}
    values = getattr(column, "values", None)
    if values is None:
        raise ValueError(f"column {column.name!r}: a {column.kind} column is not passed on to rivals.")
    return {"categories": [*values, *([MISSING] if column.missing else [])]}


def _told(column: Column, cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column as the rival reads it."""
    return (
        cells.astype(float)
        if _is_number(column)
        else cells.astype(object).where(cells.notna(), MISSING).astype(str)
    )


def _heard(column: Column, cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column of the rival's as our schema reads it."""
    if isinstance(column, Integer):
        return cells.round().astype("Int64")
    return cells if _is_number(column) else cells.mask(cells == MISSING, None)
