"""`understudy ledger`: what a data set has spent, what is left, and what a planned run would leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from understudy.cli.console import out, print_json
from understudy.errors import LedgerError
from understudy.files import write_whole
from understudy.ledger.ledger import Ledger, remaining_epsilon
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from understudy.ledger.entries import Statement

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="What a data set has spent over its whole life.")

LedgerFile = Annotated[Path, typer.Option("--ledger", help="The ledger file.", envvar="UNDERSTUDY_LEDGER")]
DatasetName = Annotated[str, typer.Option("--dataset", help="The name the data set is registered by.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command()
def register(
    ledger: LedgerFile,
    dataset: DatasetName,
    epsilon: Annotated[float, typer.Option(help="The overall ε for the life of the data set.")],
    delta: Annotated[float, typer.Option(help="The overall δ; well below 1 / rows.")],
    adjacency: Annotated[Adjacency, typer.Option(help="Which data sets count as neighbours.")] = (
        Adjacency.ADD_OR_REMOVE_ONE
    ),
) -> None:
    """Register a data set with its overall budget; makes the ledger file if there is none."""
    budget = Budget(epsilon, delta, adjacency)
    with Ledger(ledger, create=True) as book:
        book.register(dataset, budget)
    out.print(f"{dataset}: {budget}")


@app.command()
def show(
    ledger: LedgerFile,
    dataset: Annotated[str | None, typer.Option("--dataset", help="One data set; all if left out.")] = None,
    as_json: AsJson = False,
    head: Annotated[
        str | None, typer.Option(help="A head noted elsewhere (a release card) that the ledger must contain.")
    ] = None,
) -> None:
    """Print what is spent, after checking every record of the ledger."""
    with Ledger(ledger) as book:
        book.verify(head)
        names = sorted(book.datasets()) if dataset is None else [dataset]
        statements = [book.statement(name) for name in names]
    if as_json:
        if len(statements) != 1:
            raise LedgerError(
                f"choose one data set with --dataset: {', '.join(names) or 'none is registered'}."
            )
        print_json(statements[0].to_plain())
        return
    for statement in statements:
        _print_statement(statement)


@app.command()
def budget(
    ledger: LedgerFile,
    dataset: DatasetName,
    sampling_rate: Annotated[float | None, typer.Option(help="q of a planned run.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="σ of a planned run.")] = None,
    steps: Annotated[int | None, typer.Option(help="T of a planned run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what is left, now or after a planned run."""
    planned: tuple[Charge, ...] = ()
    if sampling_rate is not None and noise_multiplier is not None and steps is not None:
        planned = (Charge("planned training", SubsampledGaussian(sampling_rate, noise_multiplier, steps)),)
    elif (sampling_rate, noise_multiplier, steps) != (None, None, None):
        raise typer.BadParameter("a planned run needs --sampling-rate, --noise-multiplier and --steps.")
    with Ledger(ledger) as book:
        limit = book.datasets().get(dataset)
        total = book.would_leave(dataset, planned)
        counted = book.counted(dataset)
    assert limit is not None
    left = remaining_epsilon((*counted, *planned), limit)
    if as_json:
        print_json(
            {
                "dataset": dataset,
                "epsilon_spent": total.epsilon,
                "epsilon_budget": limit.epsilon,
                "epsilon_left": left,
                "delta": limit.delta,
                "adjacency": limit.adjacency.value,
            }
        )
        return
    when = "after the planned run" if planned else "now"
    out.print(
        f"{dataset}: {limit}\nspent {when}: ε = {total.epsilon:.4g}\n"
        f"left for one more release: ε = {left:.4g}",
    )


@app.command()
def export(
    ledger: LedgerFile,
    dataset: DatasetName,
    output: Annotated[Path | None, typer.Option(help="Where to write; standard output if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, which is also the default.")] = True,  # noqa: ARG001
) -> None:
    """Write the whole account of a data set as JSON, for an archive or an auditor."""
    with Ledger(ledger) as book:
        book.verify()
        plain = book.statement(dataset).to_plain()
    if output is None:
        print_json(plain)
    else:
        write_whole(output, json.dumps(plain, indent=2, ensure_ascii=False) + "\n", error=LedgerError)


@app.command()
def close(
    ledger: LedgerFile,
    entry: Annotated[
        str, typer.Option(help="The id of an open entry whose run is over and will not resume.")
    ],
) -> None:
    """Close a run that was interrupted: only the steps it charged count from now on."""
    with Ledger(ledger) as book:
        closed = book.finish(book.entry(entry))
    out.print(f"entry {closed.id}: {closed.steps_charged} of {closed.steps_planned} steps count")


def _print_statement(statement: Statement) -> None:
    limit, cost = statement.budget, statement.spent
    out.print(
        f"{statement.dataset}: spent ε = {cost.epsilon:.4g} of {limit.epsilon:g} at δ = {limit.delta:g}, "
        f"{limit.adjacency.value}, by {cost.certified_by.name}",
    )
    if statement.units:
        out.print(f"protected: {'; '.join(f'one {unit}' for unit in statement.units)}")
    if len(statement.units) > 1:
        out.print("note: these entries protect different things, so the total holds for none of them alone")
    table = Table("entry", "status", "for", "steps", "release", "reserved")
    for entry in statement.entries:
        purposes = ", ".join(charge.purpose for charge in entry.charges)
        steps = f"{entry.steps_charged} / {entry.steps_planned}"
        table.add_row(entry.id, entry.status.value, purposes, steps, (entry.release or "")[:12], entry.time)
    if statement.entries:
        out.print(table)
    out.print(f"head {statement.head}", soft_wrap=True)
