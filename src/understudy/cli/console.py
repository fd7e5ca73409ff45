"""How the command line speaks: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

__all__ = ["complain", "err", "out", "print_json", "warn_not_private"]

out = Console()
err = Console(stderr=True)


def complain(message: str) -> None:
    """Print an error for people to standard error."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(message, err=True)


def print_json(value: Any) -> None:
    """Print machine-readable output, and nothing else, to standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def warn_not_private(reasons: tuple[str, ...]) -> None:
    """Say on standard error that a release has no guarantee, and why."""
    err.print("[bold red]NOT PRIVATE[/]: " + " ".join(reasons or ("trained without noise.",)))
