"""`understudy sample`: synthetic records from a release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import err, print_json, warn_not_private
from understudy.run.progress import progress_bar

__all__ = ["sample_command"]


def sample_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    out: Annotated[
        Path,
        typer.Option(
            help="Where to: .csv, .parquet, .npz, a new folder of images, or .png to look at; - for CSV (JSON with "
            "--json) on standard output."
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="How many records.")] = 1000,
    label: Annotated[str | None, typer.Option(help="Make only this class.")] = None,
    counts: Annotated[str | None, typer.Option(help="Records per class, such as 0=100,1=50.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same records.")] = None,
    certainty: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.9999, help="How sure the teacher must be of an image; 0 takes every image."
        ),
    ] = None,
    raw_text: Annotated[
        bool,
        typer.Option(
            "--raw-text", help="In CSV, leave text that a spreadsheet would compute (=, +, -, @) as it is."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Draw synthetic records from a release, as many as you like.

    Text cells of a CSV that begin with =, +, - or @ and are no numbers get an apostrophe before them, so that no
    spreadsheet computes them.

    Examples:
        understudy sample release/ --rows 100000 --out synthetic.parquet

        understudy sample release/ --rows 10 --out - | head
    """
    from understudy.release.release import Release
    from understudy.release.sampling import sample_chunks
    from understudy.release.write import print_records, write_records

    loaded = Release.load(release)
    if not loaded.card.private:
        warn_not_private(loaded.card.warnings)
    wanted = None if counts is None else _parse_counts(counts)
    total = rows if wanted is None else sum(wanted.values())
    chunks = sample_chunks(loaded, total, label=label, counts=wanted, seed=seed, certainty=certainty)
    with progress_bar() as bar:
        task = bar.add_task("sampling", total=total, note="")

        def on_progress(count: int) -> None:
            bar.advance(task, count)

        if str(out) == "-":
            written = print_records(
                chunks,
                sys.stdout,
                schema=loaded.schema,
                as_json=as_json,
                raw_text=raw_text,
                on_progress=on_progress,
            )
        else:
            written = write_records(
                chunks, out, schema=loaded.schema, raw_text=raw_text, on_progress=on_progress
            )
    if str(out) == "-":
        err.print(f"{written:,} records written to standard output")
    elif as_json:
        print_json({"written": str(out), "rows": written, "private": loaded.card.private})
    else:
        err.print(f"{written:,} records written to {out}")


def _parse_counts(text: str) -> dict[str, int]:
    counts = {}
    for part in text.split(","):
        name, separator, number = part.rpartition("=")
        if not separator or not number.strip().isdigit():
            raise typer.BadParameter(f"{part!r} is not of the form class=number", param_hint="--counts")
        counts[name.strip()] = int(number)
    return counts
