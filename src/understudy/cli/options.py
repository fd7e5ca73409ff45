"""Options that several commands share, each with one name, one type and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.privacy.budget import Adjacency

__all__ = [
    "AcceptLargeDelta",
    "AsJson",
    "Batch",
    "BatchCap",
    "Capacity",
    "Clip",
    "DatasetName",
    "Delta",
    "LedgerFile",
    "Neighbours",
    "PrivateData",
    "Query",
    "RealQuery",
    "RecipeName",
    "Rows",
    "SchemaFile",
    "Sigma",
    "SkipDamaged",
    "Steps",
    "TestQuery",
]

PrivateData = Annotated[
    str, typer.Argument(help="A table (file, folder, address, database), images, or a known name.")
]
Query = Annotated[str | None, typer.Option(help="What to read from a database, in its SQL.")]
TestQuery = Annotated[
    str | None, typer.Option("--test-query", help="What --test is, in the SQL of its database.")
]
RealQuery = Annotated[
    str | None, typer.Option("--real-query", help="What --real is, in the SQL of its database.")
]
Delta = Annotated[float, typer.Option(help="The budget's δ; below 1/rows.")]
RecipeName = Annotated[
    str | None,
    typer.Option(
        help="Name of a recipe, or a TOML file; understudy by default, where it serves.", show_default=False
    ),
]
Batch = Annotated[int | None, typer.Option(help="Expected batch size, instead of the recipe's.")]
BatchCap = Annotated[
    int | None,
    typer.Option(help="The largest batch ever processed, to bound memory; four deviations above or more."),
]
Sigma = Annotated[float | None, typer.Option(help="Noise multiplier σ: the steps follow.")]
Steps = Annotated[
    int | None, typer.Option(help="Critic steps: the noise follows. Without a critic: generator steps.")
]
Clip = Annotated[
    float | None, typer.Option(min=0, help="Clipping bound C of a critic, instead of the recipe's.")
]
Capacity = Annotated[int | None, typer.Option(min=1, help="Width of both networks, instead of the recipe's.")]
Neighbours = Annotated[Adjacency, typer.Option(help="Which data sets are neighbours.")]
Rows = Annotated[
    int | None,
    typer.Option(
        help="Number of rows (of persons, if the schema names them), if public. Otherwise it is estimated with noise."
    ),
]
SchemaFile = Annotated[Path | None, typer.Option(help="Schema file; known data sets have their own.")]
AcceptLargeDelta = Annotated[bool, typer.Option("--accept-large-delta", help="Allow δ ≥ 1/rows.")]
LedgerFile = Annotated[
    Path | None,
    typer.Option(help="Ledger file to charge; see `understudy ledger`.", envvar="UNDERSTUDY_LEDGER"),
]
DatasetName = Annotated[str | None, typer.Option(help="Name the data set is registered by in the ledger.")]
SkipDamaged = Annotated[
    bool,
    typer.Option(
        "--skip-damaged", help="Leave out image files that cannot be read; how many is told to you only."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
