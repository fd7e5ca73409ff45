"""`understudy schema`: draft, check and show the public description of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import print_json, say
from understudy.errors import SchemaError
from understudy.files import write_whole

__all__ = ["app"]

app = typer.Typer(
    help="Draft, check and show schemas: the PUBLIC facts about a data set.", no_args_is_help=True
)


@app.command()
def draft(
    file: Annotated[
        Path, typer.Argument(help="A table (.csv, .tsv, .parquet), .npz, IDX or a folder of images.")
    ],
    from_public: Annotated[
        bool,
        typer.Option(
            "--from-public",
            help="The rows are PUBLIC: take bounds and categories from them. Never for private rows.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of the screen.")] = None,
) -> None:
    """Write a first schema from header and types; what you must supply is marked FILL IN.

    Example: understudy schema draft patients.csv --out schema.toml
    """
    from understudy.data.draft import draft as draft_schema

    text = draft_schema(file, from_public=from_public)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_whole(out, text, error=SchemaError, new=True)
    say(f"wrote {out}" + ("" if from_public else f"; {text.count('FILL IN:')} facts to fill in"), to_err=True)


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="The data: a file, a folder, or the name of a known set.")],
    schema: Annotated[Path, typer.Option(help="The schema (TOML).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Tell whether the data fit the schema, and how many values it would change. For the curator's eyes only.

    Example: understudy schema check patients.csv --schema schema.toml
    """
    from understudy.data import download_bar, read
    from understudy.records.encode import encode, encoded_shape
    from understudy.schema import load_schema

    declared = load_schema(schema)
    with download_bar() as progress:
        records = read(file, declared, progress=progress)
    encoded = encode(records, declared)
    facts = {
        "fits": True,
        "rows": len(encoded),
        "encoded_shape": list(encoded_shape(declared)),
        "clipped": encoded.clipped,
        "unknown": encoded.unknown,
    }
    if as_json:
        print_json(facts)
        return
    say(f"{file} fits {schema}: {len(encoded)} records")
    say(f"{encoded.clipped} values outside their bounds would be clipped")
    say(f"{encoded.unknown} values unknown to the schema would be mapped")
    say("These counts are private: do not publish them.")


@app.command()
def show(name: Annotated[str, typer.Argument(help="The name of a known public set, such as adult.")]) -> None:
    """Print the ready schema of a known public set.

    Example: understudy schema show adult
    """
    from understudy.data import known_schema
    from understudy.schema import schema_to_toml

    typer.echo(schema_to_toml(known_schema(name)), nl=False)
