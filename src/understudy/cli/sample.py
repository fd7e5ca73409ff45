"""`understudy sample`: synthetic records from a release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, print_json, warn_not_private
from understudy.release.long_layout import Layout
from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from understudy.records.images import Images
    from understudy.release.description import Publication
    from understudy.release.release import Release

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
    given: Annotated[
        list[str] | None,
        typer.Option(
            help="Only rows with these values: sex=f, town=bern|bonn, age=60..70, ward=missing; repeatable, for tables."
        ),
    ] = None,
    balance: Annotated[
        str | None, typer.Option(help="As many rows with each value of this column, such as the outcome.")
    ] = None,
    complete: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file of partial rows: filled cells stay, empty ones are drawn given them; - for standard input."
        ),
    ] = None,
    sets: Annotated[
        int,
        typer.Option(
            min=1, help="So many files, rows-1.csv, rows-2.csv and so on, each with a seed of its own."
        ),
    ] = 1,
    layout: Annotated[
        Layout,
        typer.Option(help="How code sets are written: one column per code, or one row per record and code."),
    ] = Layout.WIDE,
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
    card: Annotated[
        bool,
        typer.Option(
            "--card",
            help="Also write a data set card (README.md) and croissant.json beside the records; needs the next four.",
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="For the card: what the set is called.")] = None,
    creator: Annotated[str | None, typer.Option(help="For the card: who publishes it.")] = None,
    license_name: Annotated[
        str | None,
        typer.Option("--license", help="For the card: an SPDX name such as CC-BY-4.0, or an address."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="For the card: where the set will be found.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Draw synthetic records from a release, as many as you like.

    Text cells of a CSV that begin with =, +, - or @ and are no numbers get an apostrophe before them, so that no
    spreadsheet computes them.

    Examples:
        understudy sample release/ --rows 100000 --out synthetic.parquet

        understudy sample release/ --rows 10 --out - | head

        understudy sample release/ --rows 1000 --given sex=f --given age=60..70 --out older-women.csv

        understudy sample release/ --complete partial.csv --out whole.csv

        understudy sample release/ --out set/rows.csv --card --title Visits --creator "A house" --license CC-BY-4.0
        --url https://example.org/visits
    """
    from understudy.records.given import given_from_text
    from understudy.release.long_layout import laid_out
    from understudy.release.release import Release
    from understudy.release.sampling import sample_chunks
    from understudy.release.write import print_records, write_records

    loaded = Release.load(release)
    if not loaded.card.private:
        warn_not_private(loaded.card.warnings)
    wanted = None if counts is None else _parse_counts(counts)
    total: int | None = rows if wanted is None else sum(wanted.values())
    if complete is not None:
        _refuse_conditions(given, balance, label, counts, certainty)
        total = None
    if sets > 1 and "-" in (str(out), str(complete)):
        raise typer.BadParameter("several sets need files; - is one stream", param_hint="--sets")
    about = _publication(title=title, creator=creator, license=license_name, url=url, card=card)
    if about is not None:
        from understudy.release.description import check_describable

        if sets > 1 or complete is not None or str(out) == "-":
            raise typer.BadParameter("a card describes one file of drawn records", param_hint="--card")
        check_describable(loaded, out)

    def drawn(number: int) -> Iterator[pd.DataFrame | Images]:
        own_seed = None if seed is None else seed + number
        if complete is not None:
            return _completing(loaded, complete, own_seed)
        chunks = sample_chunks(
            loaded,
            total or 0,
            label=label,
            counts=wanted,
            given=given_from_text(given or ()),
            balance=balance,
            seed=own_seed,
            certainty=certainty,
        )
        return laid_out(chunks, layout, loaded.schema)

    paths = [out] if sets == 1 else [out.with_name(f"{out.stem}-{i + 1}{out.suffix}") for i in range(sets)]
    with progress_bar() as bar:
        task = bar.add_task("sampling", total=None if total is None else sets * total, note="")

        def on_progress(count: int) -> None:
            bar.advance(task, count)

        if str(out) == "-":
            written = print_records(
                drawn(0),
                sys.stdout,
                schema=loaded.schema,
                as_json=as_json,
                raw_text=raw_text,
                on_progress=on_progress,
            )
        else:
            written = sum(
                write_records(
                    drawn(number), path, schema=loaded.schema, raw_text=raw_text, on_progress=on_progress
                )
                for number, path in enumerate(paths)
            )
    written = written if layout is Layout.WIDE else sets * (total or 0)
    if about is not None:
        from understudy.release.description import describe

        balanced = () if balance is None else (f"as many with each {balance}",)
        only = () if label is None else (f"class {label}",)
        conditions = (*(given or ()), *balanced, *only, *(() if counts is None else (counts,)))
        describe(loaded, out, records=written, about=about, conditions=conditions, raw_text=raw_text)
    _tell(written, paths, as_json=as_json, private=loaded.card.private)


def _tell(written: int, paths: list[Path], *, as_json: bool, private: bool) -> None:
    names = [str(path) for path in paths]
    if names == ["-"]:
        err.print(f"{written:,} records written to standard output")
    elif as_json:
        print_json({"written": names[0] if len(names) == 1 else names, "rows": written, "private": private})
    else:
        err.print(f"{written:,} records written to {', '.join(names)}")


def _refuse_conditions(*conditions: object) -> None:
    if any(one not in (None, []) for one in conditions):
        raise typer.BadParameter(
            "rows are completed from their own cells alone; leave out --given, --balance, --label, --counts and "
            "--certainty",
            param_hint="--complete",
        )


def _publication(*, card: bool, **said: str | None) -> Publication | None:
    """What the card needs and nobody else can know; all of it, or nothing."""
    missing = [f"--{name}" for name, value in said.items() if not value]
    if not card:
        if len(missing) < len(said):
            raise typer.BadParameter("title, creator, license and url are for the card: add --card")
        return None
    if missing:
        raise typer.BadParameter(f"nobody else can know {', '.join(missing)}", param_hint="--card")
    from understudy.release.description import Publication

    return Publication(**{name: str(value) for name, value in said.items()})


def _completing(release: Release, path: Path, seed: int | None) -> Iterator[pd.DataFrame | Images]:
    from understudy.release.completing import complete_chunks, partial_rows

    rows = partial_rows(sys.stdin if str(path) == "-" else path, release.schema)
    return iter(complete_chunks(release, rows, seed=seed))


def _parse_counts(text: str) -> dict[str, int]:
    counts = {}
    for part in text.split(","):
        name, separator, number = part.rpartition("=")
        if not separator or not number.strip().isdigit():
            raise typer.BadParameter(f"{part!r} is not of the form class=number", param_hint="--counts")
        counts[name.strip()] = int(number)
    return counts
