"""The command line: one command per verb, each of which calls one library function."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import typer

from understudy._version import __version__
from understudy.cli import console
from understudy.errors import RanksError, UnderstudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    app: typer.Typer

__all__ = ["app", "main", "program"]

_COMMANDS = (
    "demo", "plan", "count", "fit", "sample", "statistics", "inspect", "evaluate", "report", "push", "serve", "studio",
    "sweep",
)  # fmt: skip
_GROUPS = ("audit", "recipes", "schema", "ledger", "reproduce")

_COLLECT_AFTER = 100_000
"""New objects between collections of garbage; Python's own 700 cost a command a tenth of its start."""


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The command line, with the one command that the first word names, or with all if it names none.

    A command is a module that waits for its own libraries; who plans does not wait for those of the others.
    """
    made = typer.Typer(
        name="understudy",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        help=(
            "Publish a generator instead of the data.\n\n"
            "Trains a generative model under differential privacy, releases it with a certificate of what was spent, "
            "draws synthetic records from it, measures how useful they are, and attacks the promise.\n\n"
            "Start with `understudy plan --rows 60000 --epsilon 3`, which touches no data."
        ),
    )
    made.callback(invoke_without_command=True)(_root)
    known = (*_COMMANDS, *_GROUPS)
    for name in words[:1] if words and words[0] in known else known:
        module = import_module(f"understudy.cli.{name}")
        if name in _GROUPS:
            made.add_typer(module.app, name=name)
        else:
            made.command(name)(getattr(module, f"{name}_command"))
    return made


def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


def __getattr__(name: str) -> object:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = program()
    return globals()[name]


def main() -> None:
    """Run the command line; errors that are meant for people are printed without a traceback."""
    gc.set_threshold(
        _COLLECT_AFTER
    )  # importing makes hundreds of thousands of objects, and none of them is garbage
    console.suit_any_terminal()
    try:
        try:
            program(sys.argv[1:])()
        finally:
            sys.stdout.flush()
    except UnderstudyError as problem:
        if not (isinstance(problem, RanksError) and os.environ.get("LOCAL_RANK", "0") != "0"):
            console.complain(str(problem))  # one process of a machine says why all of them stop
        sys.exit(1)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("torch", "sklearn", "matplotlib"):
            raise
        console.complain(
            f"this needs {problem.name}, which understudy-light leaves out: `pip install understudy` instead."
        )
        sys.exit(1)
    except KeyboardInterrupt:
        console.complain("interrupted.")
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as problem:
        _drop_output()
        console.complain(f"{problem}.")
        sys.exit(1)


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that Python does not fail over it once more when it ends."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a file descriptor is wanted
        os.dup2(nowhere.fileno(), 1)
