"""`understudy schema`: draft, check and show the public description of a data set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import complain, print_json, say
from understudy.cli.options import Query, SkipDamaged
from understudy.cli.running import shown_to_the_curator, skipping_damaged
from understudy.cli.schema_edit import edit
from understudy.errors import SchemaError
from understudy.files import write_whole

if TYPE_CHECKING:
    from understudy.data.checking import Checked

__all__ = ["app"]

app = typer.Typer(
    help="Draft, check and show schemas: the PUBLIC facts about a data set.", no_args_is_help=True
)


@app.command()
def draft(
    file: Annotated[
        str,
        typer.Argument(help="A table (file, folder, pattern or address), .npz, IDX or a folder of images."),
    ],
    from_public: Annotated[
        bool,
        typer.Option(
            "--from-public",
            help="The rows are PUBLIC: take bounds and categories from them. Never for private rows.",
        ),
    ] = False,
    kinds_are_public: Annotated[
        bool,
        typer.Option(
            "--kinds-are-public",
            help="What kind of column each is, and how cells are written, is public: take it from the rows.",
        ),
    ] = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="The first line holds names / holds data already.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[str, typer.Option(help="Names of the columns, for files without header: a,b,c.")] = "",
    separator: Annotated[str | None, typer.Option(help=r"Between cells: , ; | \t or a space.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Such as latin-1.")] = None,
    quote: Annotated[str, typer.Option(help="Around cells that hold separators.")] = '"',
    comment: Annotated[str | None, typer.Option(help="Skip lines that begin with this.")] = None,
    decimal: Annotated[str, typer.Option(help="Before the fraction of a number.")] = ".",
    thousands: Annotated[str | None, typer.Option(help="Between groups of digits.")] = None,
    dates: Annotated[
        list[str] | None, typer.Option(help="How dates are written, such as %d.%m.%Y; may be repeated.")
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of an Excel file.")] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="What stands for an empty cell, such as ? or -9; may be repeated."),
    ] = None,
    left_out: Annotated[
        str, typer.Option(help="Columns that are left out: absent from synthetic rows, or empty in them.")
    ] = "absent",
    query: Query = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the screen.")] = None,
) -> None:
    """Write a first schema from header and types; what you must supply is marked FILL IN.

    Examples:
        understudy schema draft patients.csv --out schema.toml

        understudy schema draft wards.data --no-header --names age,ward,days --out schema.toml
    """
    from understudy.data.databases import source_of
    from understudy.data.draft import LeftOut, draft_schema
    from understudy.schema import FileFormat

    written = FileFormat(
        separator="\t" if separator in ("\\t", "tab") else separator,
        encoding=encoding,
        header=header,
        names=tuple(name.strip() for name in names.split(",")) if names else (),
        quote=quote,
        comment=comment,
        decimal=decimal,
        thousands=thousands,
        dates=tuple(dates or ()),
        sheet=sheet,
    )
    if left_out not in {one.value for one in LeftOut}:
        raise typer.BadParameter(f"{left_out}: choose absent or empty.", param_hint="--left-out")
    text = draft_schema(
        source_of(file, query),
        from_public=from_public,
        kinds_are_public=kinds_are_public,
        file=written,
        missing_text=tuple(missing or ()),
        left_out=LeftOut(left_out),
    )
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text, error=SchemaError, new=True)
    say(f"wrote {out}" + ("" if from_public else f"; {_what_is_left(text)}"), to_err=True)
    if not from_public:
        say(f"fill it in with: understudy schema edit {out}", to_err=True)


def _what_is_left(text: str) -> str:
    confirm = text.count("FROM THE ROWS: confirm")
    left = f"{text.count('FILL IN:')} facts to fill in"
    return left + (f", {confirm} guesses from private rows to confirm" if confirm else "")


app.command()(edit)


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="The data: a file, a folder, or the name of a known set.")],
    schema: Annotated[Path, typer.Option(help="The schema (TOML).")],
    query: Query = None,
    skip_damaged: SkipDamaged = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List everything that does not fit the schema, column by column. Shows PRIVATE values, for your eyes only.

    Example: understudy schema check patients.csv --schema schema.toml
    """
    from understudy.data import download_bar
    from understudy.data.checking import check as check_data
    from understudy.data.databases import source_of
    from understudy.errors import DataError
    from understudy.schema import load_schema

    declared, source = skipping_damaged(load_schema(schema), skip_damaged), source_of(file, query)
    try:
        with download_bar() as progress, shown_to_the_curator():
            found = check_data(source, declared, on_progress=progress)
    except DataError as problem:
        if problem.private_detail is not None and not as_json:
            say(f"PRIVATE, do not publish: {problem.private_detail}", to_err=True)
        raise
    if as_json:
        facts = asdict(found) | {"fits": found.fits, "clipped": found.clipped, "unknown": found.unknown}
        print_json(facts)
    else:
        _tell(found, str(source), schema)
    if not found.fits:
        if not as_json:
            complain(f"{source} does not fit {schema}.")
        raise typer.Exit(1)


def _tell(found: Checked, source: str, schema: Path) -> None:
    say("What follows is private: do not publish it.")
    for note in found.notes:
        say(f"note: {note}")
    if found.ignored:
        say(f"not in the schema, ignored: {', '.join(found.ignored)}")
    for column in found.columns:
        if column.refused or column.missing or column.outside or column.unknown or column.off_grid:
            say(str(column))
    for rule in found.rules:
        say(str(rule))
    if found.fits:
        say(f"{source} fits {schema}: {found.rows} records")


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A known public set such as adult, a schema file, or a release.")
    ],
) -> None:
    """Print a schema: of a known public set, of a file, or of a release with all that was discovered.

    Examples:
        understudy schema show adult

        understudy schema show release/ > schema.toml
    """
    from understudy.data import known_schema
    from understudy.schema import load_schema, schema_to_toml

    path = Path(name)
    if path.is_dir():
        from understudy.release.release import Release

        found = Release.load(path).schema
    else:
        found = load_schema(path) if path.suffix == ".toml" else known_schema(name)
    typer.echo(schema_to_toml(found), nl=False)
