"""`understudy reproduce`: the papers' claims, tables and figures, made again."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from understudy.cli.console import out, print_json

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="The five papers: their claims recomputed, their tables and figures made again.",
)

_Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.command("claims")
def claims_command(as_json: _Json = False) -> None:
    """What each paper claims, what its formula gives, what its code costs, and what is certified when done right.

    Every ε but the claimed one is computed now, from the documented settings; δ is 1e-5.
    """
    from understudy.papers.claims import claims

    found = claims()
    if as_json:
        print_json([claim.plain() for claim in found])
        return
    table = Table(title="claims at δ = 1e-5, one record added or removed", show_lines=True)
    headings = ("paper", "setting", "claimed ε", "ε of its formula", "ε of its code", "certified ε", "why")
    for heading in headings:
        table.add_column(heading, overflow="fold", justify="right" if "ε" in heading else "left")
    for claim in found:
        numbers = (
            claim.claimed_epsilon,
            claim.formula_epsilon,
            claim.published_code_epsilon,
            claim.certified_epsilon,
        )
        table.add_row(claim.paper, claim.setting, *(_number(value) for value in numbers), claim.note)
    out.print(table)


@app.command("iterations")
def iterations_command(as_json: _Json = False) -> None:
    """Table 7 of the dp-gan paper: iterations before and after grouping, its bookkeeping, and what is right."""
    from understudy.papers.claims import allowed_iterations

    found = allowed_iterations()
    if as_json:
        print_json([row.plain() for row in found])
        return
    table = Table(title="dp-gan table 7: generator iterations that the budget allows")
    for heading in ("data", "paper", "its bookkeeping", "right, noise per group", "right, joint noise"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in found:
        table.add_row(
            row.dataset,
            f"{row.printed_before:,} → {row.printed_after:,}",
            f"{row.bookkeeping_before:,} → {row.bookkeeping_after:,}",
            "–" if row.shared_before is None else f"{row.shared_before:,} → {row.shared_after:,}",
            "–" if row.joint is None else f"{row.joint:,}",
        )
    out.print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if value >= 1e6 else f"{value:,.2f}"
