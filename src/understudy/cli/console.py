"""How the command line speaks: results on standard output, everything else on standard error.

Names and texts of others (files, data sets, cards) are printed as they are spelled: no markup in them is obeyed, and
control characters are shown instead of sent to the terminal.
"""

from __future__ import annotations

import io
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from understudy.escaping import for_terminal

if TYPE_CHECKING:
    from understudy.planning import Plan

__all__ = [
    "complain",
    "err",
    "out",
    "print_json",
    "print_markdown",
    "say",
    "show_plan",
    "suit_any_terminal",
    "warn_not_private",
]


class _PlainConsole(Console):
    """A console that takes every string, also in tables, as plain text."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(for_terminal(text), **options)


out = _PlainConsole()
err = _PlainConsole(stderr=True)


def suit_any_terminal() -> None:
    """Let what a terminal cannot show, such as ε in an ASCII one, be spelled out instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(message: str, *, to_err: bool = False) -> None:
    """Print a line as it is, without wrapping it to the width of the terminal."""
    typer.echo(for_terminal(message), err=to_err)


def complain(message: str) -> None:
    """Print an error for people to standard error."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    say(message, to_err=True)


def print_json(value: Any) -> None:
    """Print machine-readable output, and nothing else, to standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(re.sub(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", _as_json, text))


def _as_json(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def print_markdown(text: str) -> None:
    """Print Markdown, laid out, to standard output."""
    from rich.markdown import Markdown

    out.print(Markdown(for_terminal(text), hyperlinks=False))


def show_plan(plan: Plan, console: Console) -> None:
    """Print a plan, what it buys, and what is to be said about its budget."""
    console.print(str(plan))
    if plan.prospect is not None:
        console.print(str(plan.prospect))
    if plan.remark is not None:
        console.print(Text.assemble(("weak", "bold red"), ": ", for_terminal(plan.remark)))


def warn_not_private(reasons: tuple[str, ...]) -> None:
    """Say on standard error that a release has no guarantee, and why."""
    why = for_terminal(" ".join(reasons or ("trained without noise.",)))
    err.print(Text.assemble(("NOT PRIVATE", "bold red"), ": ", why))
