"""`understudy statistics`: what a release knows, as numbers with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.console import err, print_json, print_markdown, warn_not_private
from understudy.escaping import for_markdown

__all__ = ["statistics_command"]

_MOST_SHOWN = 1000
"""Lines of a table that are printed."""


def statistics_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    query: Annotated[
        list[str] | None,
        typer.Option(help='"outcome by ward", "mean age by sex"; repeatable. All columns by default.'),
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="The noisy counts themselves, as they were published.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="How many rows there were, if the release does not say.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write .csv or .json instead (one query for .csv).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Cross-tabs, rates and means from a release, with intervals that include the noise. Costs no ε.

    Examples:
        understudy statistics release/ --query "outcome by ward" --query "mean age by sex"

        understudy statistics release/ --query "outcome by ward" --out rates.csv

        understudy statistics release/ --counts --out counts.csv
    """
    import json

    from understudy import files
    from understudy.errors import ReleaseError
    from understudy.release.release import Release
    from understudy.release.statistics import COUNTS, COVERS, all_queries, published_counts, statistics
    from understudy.release.write import spreadsheet_safe

    loaded = Release.load(release)
    if not loaded.card.private:
        warn_not_private(loaded.card.warnings)
    if counts and (query or rows):
        raise ReleaseError("--counts tells all counts as they were published: leave --query and --rows out.")
    covers = COUNTS if counts else COVERS
    answers = (
        {"counts": published_counts(loaded)}
        if counts
        else {one: statistics(loaded, one, rows=rows) for one in query or all_queries(loaded)}
    )
    plain = {one: json.loads(table.to_json(orient="records")) for one, table in answers.items()}
    told = {"answers": plain, "intervals": covers}
    if out is not None:
        if out.suffix == ".json":
            text = json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        elif out.suffix == ".csv" and len(answers) == 1:
            text = spreadsheet_safe(next(iter(answers.values()))).to_csv(index=False)
        else:
            raise ReleaseError(f"{out.name}: write .json, or .csv for one query.")
        files.write_whole(out, text, error=ReleaseError)
        err.print(f"written to {out}. {covers}")
    elif as_json:
        print_json(told)
    else:
        for one, table in answers.items():
            left = len(table) - _MOST_SHOWN
            table = table.head(_MOST_SHOWN)  # noqa: PLW2901
            shown = table.map(
                lambda cell: f"{cell:.4g}" if isinstance(cell, float) else str(cell or "missing")
            )
            shown = shown.mask(table.isna() & table.columns.isin(["noise", "low", "high"]), "unknown")
            lines = [
                "| " + " | ".join(map(for_markdown, row)) + " |" for row in [shown.columns, *shown.to_numpy()]
            ]
            lines.insert(1, "|---" * len(shown.columns) + "|")
            more = f"\n\n{left:,} more: write them with --out." if left > 0 else ""
            print_markdown(f"## {for_markdown(one)}\n\n" + "\n".join(lines) + more)
        err.print(covers)
