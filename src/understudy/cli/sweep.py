"""`understudy sweep`: privacy-utility curves of a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, out, progress_bar
from understudy.evaluation.learners import Learner

if TYPE_CHECKING:
    from understudy.schema import Schema

__all__ = ["sweep_command"]


def sweep_command(
    data: Annotated[str, typer.Argument(help="Private training records: a file, or a known name.")],
    test: Annotated[str, typer.Option(help="Real test records: a file, or a name such as digits:test.")],
    folder: Annotated[
        Path, typer.Option("--out", help="Folder for outcomes, releases and curves.html; resumable.")
    ],
    epsilon: Annotated[str, typer.Option(help="Budgets to try, such as 1,2,4,8.")] = "1,2,4,8",
    delta: Annotated[float, typer.Option(help="The δ of every run.")] = 1e-5,
    recipe: Annotated[str, typer.Option(help="Name of a recipe, or a TOML file.")] = "dp-cgan",
    vary: Annotated[
        list[str] | None,
        typer.Option(help="name=v1,v2 of noise_multiplier, steps, batch, clip or capacity; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeats of every setting.")] = 3,
    schema: Annotated[Path | None, typer.Option(help="Schema file; known data sets have their own.")] = None,
    rows: Annotated[int | None, typer.Option(help="Number of training rows, if it is public.")] = None,
    learner: Annotated[
        Learner, typer.Option(help="The classifier that is tested.")
    ] = Learner.LOGISTIC_REGRESSION,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as cores by default.")
    ] = None,
) -> None:
    """Run a grid of settings and draw utility against ε, with intervals, ceiling and floor.

    The curves read real rows and are internal. Publishing the best run costs more than one run; the cost is
    printed. Interrupt it when you like: the same command goes on where it stopped.

    Example:
        understudy sweep digits --test digits:test --epsilon 1,4 --vary clip=0.1,1 --vary steps=200 --out sweep
    """
    from understudy.evaluation.sweep import grid, run_sweep, selection_cost, sweep_of
    from understudy.report.curves import curves_page

    settings = grid(_numbers(epsilon, "--epsilon"), dict(_varied(one) for one in vary or []), seeds)
    found, counted = _schema(data, schema, rows)
    sweep = sweep_of(data, test, found, recipe, delta, counted, learner)
    with progress_bar() as bar:
        tasks = {one: bar.add_task(str(one), total=100, note="", visible=False) for one in settings}
        whole = bar.add_task("all runs", total=len(settings), note="")
        shares = dict.fromkeys(settings, 0.0)

        def told(setting: object, share: float) -> None:
            shares[setting] = share  # type: ignore[index]
            bar.update(tasks[setting], completed=round(100 * share), visible=share < 1)  # type: ignore[index]
            bar.update(whole, completed=sum(one >= 1 for one in shares.values()))

        outcomes, limits = run_sweep(
            sweep, settings, folder, workers=workers or os.cpu_count() or 1, told=told
        )
    costs = {
        e: selection_cost(sweep, [s for s in settings if s.epsilon == e])
        for e in {s.epsilon for s in settings}
    }
    page = folder / "curves.html"
    page.write_text(
        curves_page(f"{sweep.recipe.name} on {Path(data).name}", outcomes, limits, costs), encoding="utf-8"
    )
    for one, best in sorted(costs.items()):
        out.print(f"ε {one:g}: publishing the best of these runs would cost ε {best:.3f}", highlight=False)
    err.print(f"curves written to {page} (internal, not for publication)")


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as problem:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers such as 1,2,4.", param_hint=option
        ) from problem


def _varied(text: str) -> tuple[str, list[float]]:
    name, separator, values = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not of the form clip=0.1,1.", param_hint="--vary")
    return name.strip().replace("-", "_"), _numbers(values, "--vary")


def _schema(data: str, path: Path | None, rows: int | None) -> tuple[Schema, int | None]:
    from understudy.data import known, known_names
    from understudy.errors import SchemaError
    from understudy.schema import load_schema

    if data in known_names():
        dataset = known(data)
        return (dataset.schema if path is None else load_schema(path)), rows or len(dataset.train)
    if path is None:
        raise SchemaError(f"{data} needs a schema: pass it with --schema.")
    return load_schema(path), rows
