"""A hook of mkdocs: the page of commands is written from the command line itself."""

from __future__ import annotations

import re
from typing import Any

from typer.main import get_command

from understudy.cli import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put all commands in the place of the mark."""
    return markdown.replace(MARK, _reference()) if MARK in markdown else markdown


def _reference() -> str:
    parts: list[str] = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        parts += _section(f"understudy {name}", command, 2)
        for word, one in (inner or {}).items():
            parts += _section(f"understudy {name} {word}", one, 3)
    return "\n".join(parts)


def _section(title: str, command: Any, level: int) -> list[str]:
    """Heading, help text and a table of the options of one command."""
    help_text = re.sub(r"^[ \t]+", "", command.help or "", flags=re.MULTILINE)
    help_text = re.sub(r"^(understudy .+)$", r"    \1", help_text, flags=re.MULTILINE)
    help_text = help_text.replace("Examples:\n", "Examples:\n\n")
    lines = [f"{'#' * level} `{title}`", "", help_text, ""]
    options = [one for one in command.params if "--help" not in one.opts]
    if options and not hasattr(command, "commands"):
        lines += ["| option | what |", "|---|---|", *map(_row, options), ""]
    return lines


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    says = " ".join((getattr(option, "help", "") or "").split()).replace("|", "\\|").replace("<", "&lt;")
    default = option.default if isinstance(option.default, (int, float, str)) else None
    told = f" Default: {default}." if default not in (None, False, "") else ""
    return f"| {names}{' (required)' if option.required else ''} | {says}{told} |"
