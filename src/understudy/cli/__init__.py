"""The command line: one command per verb, each of which calls one library function."""

from __future__ import annotations

import os
import sys

import typer

from understudy._version import __version__
from understudy.cli import (
    audit,
    console,
    evaluate,
    fit,
    inspect,
    ledger,
    plan,
    recipes,
    report,
    reproduce,
    sample,
    schema,
    serve,
    studio,
    sweep,
)
from understudy.errors import UnderstudyError

__all__ = ["app", "main"]

app = typer.Typer(
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


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"understudy {__version__}")
        raise typer.Exit


app.command("plan")(plan.plan_command)
app.command("fit")(fit.fit_command)
app.command("sample")(sample.sample_command)
app.command("inspect")(inspect.inspect_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("report")(report.report_command)
app.command("serve")(serve.serve_command)
app.command("studio")(studio.studio_command)
app.command("sweep")(sweep.sweep_command)
app.add_typer(audit.app, name="audit")
app.add_typer(recipes.app, name="recipes")
app.add_typer(schema.app, name="schema")
app.add_typer(ledger.app, name="ledger")
app.add_typer(reproduce.app, name="reproduce")


def main() -> None:
    """Run the command line; errors that are meant for people are printed without a traceback."""
    console.suit_any_terminal()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except UnderstudyError as problem:
        console.complain(str(problem))
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
