"""`understudy sweep`: privacy-utility curves of a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, out
from understudy.cli.options import (
    DatasetName,
    Delta,
    LedgerFile,
    PrivateData,
    Query,
    RecipeName,
    Rows,
    SchemaFile,
    TestQuery,
)
from understudy.cli.running import bill_for, chosen_recipe
from understudy.errors import PlanError
from understudy.evaluation.learners import Learner
from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.tuning.selection import Choice
    from understudy.tuning.sweep import Bill, Sweep
    from understudy.tuning.variation import Setting

__all__ = ["sweep_command"]

_EPSILONS = "1,2,4,8"


def sweep_command(
    data: PrivateData,
    test: Annotated[str, typer.Option(help="Real test records: a file, or a name such as digits:test.")],
    folder: Annotated[
        Path, typer.Option("--out", help="Private folder for outcomes, releases and curves; resumable.")
    ],
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help=f"Budgets of one run to try, such as 1,4; repeatable. Without it {_EPSILONS}."),
    ] = None,
    delta: Delta = 1e-5,
    recipe: RecipeName = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="name=v1,v2 of steps, batch or, with a critic, noise_multiplier, clip, capacity; repeatable."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeats of every setting.")] = 3,
    schema: SchemaFile = None,
    rows: Rows = None,
    query: Query = None,
    test_query: TestQuery = None,
    learner: Annotated[
        Learner, typer.Option(help="The classifier that is tested.")
    ] = Learner.LOGISTIC_REGRESSION,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as cores by default.")
    ] = None,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    select: Annotated[
        bool, typer.Option("--select", help="Publish the best of a random number of runs, and pay for it.")
    ] = False,
    mean_runs: Annotated[
        float | None,
        typer.Option(help="With --select: mean number of runs; the size of the grid if left out."),
    ] = None,
    score_noise: Annotated[
        float, typer.Option(help="With --select: noise on the number of test rows classified right.")
    ] = 10.0,
    public_test: Annotated[
        bool, typer.Option("--public-test", help="With --select: the test records are public.")
    ] = False,
) -> None:
    """Run a grid of settings and draw scores against ε, with intervals, ceiling and floor.

    Where the recipe knows a label, the scores are a classifier's; else they are those of fidelity: inception score,
    Fréchet distance and Jensen-Shannon score of images, marginal errors of tables, prevalences and pairs of codes.
    What cannot be measured is refused before anything is charged.

    Every run is charged to the ledger, and what all of them cost together is printed. The curves read real rows and are
    internal. Interrupt it when you like: the same command goes on where it stopped.

    --select publishes the best run instead of drawing curves. The number of runs is drawn at random (geometric, with
    the given mean), each run draws its setting from the grid, and the runs are compared by a noisy count of test rows
    (exact only if these are declared public). All of it is one charge, made before a record is read; the release
    OUT/best carries the total, every other run is deleted, and how many there were must not be told.

    Examples:
        understudy sweep digits --test digits:test --epsilon 1,4 --vary steps=100,200 --out sweep

        understudy sweep digits --test digits:test --recipe dp-cgan --epsilon 2 --vary clip=0.1,1 --select --out chosen
    """
    from understudy.data.databases import source_of
    from understudy.data.read import refuse_absent
    from understudy.tuning.selection import Choice, refuse_unlabelled
    from understudy.tuning.sweep import sweep_of
    from understudy.tuning.variation import grid

    settings = grid(_numbers(",".join(epsilon or [_EPSILONS]), "--epsilon"), _varied(vary or []), seeds)
    train, held = source_of(data, query), source_of(test, test_query)
    for source in (train, held):
        refuse_absent(source)
    found, counted = _schema(train, schema, rows)
    sweep = sweep_of(train, held, found, chosen_recipe(recipe, found), delta, counted, learner)
    pool = workers or os.cpu_count() or 1
    if select:
        choice = Choice(mean_runs or float(len(settings)), None if public_test else score_noise)
        refuse_unlabelled(sweep, settings)
        _refuse_known_budgets(settings, folder)
        _select(sweep, settings, folder, choice, bill_for(folder, ledger, dataset, delta), pool)
    else:
        _curves(sweep, settings, folder, bill_for(folder, ledger, dataset, delta), pool)


def _refuse_known_budgets(settings: tuple[Setting, ...], folder: Path) -> None:
    """What `select` would refuse, before a ledger is made."""
    if len({setting.epsilon for setting in settings}) != 1:
        raise PlanError("--select needs one --epsilon: among several, the largest would always win.")
    if (folder / "best").exists():
        raise PlanError(f"{folder / 'best'} exists already. Remove it or choose another folder.")


def _select(
    sweep: Sweep, settings: tuple[Setting, ...], folder: Path, choice: Choice, bill: Bill, workers: int
) -> None:
    from understudy.tuning.selection import select, selection_cost

    cost = selection_cost(sweep, settings, choice)
    err.print(f"one run: ε = {settings[0].epsilon:g}; the choice of the best: {cost}")
    with progress_bar() as bar:
        task = bar.add_task("choosing the best run", total=100, note="")
        shares: dict[int, float] = {}

        def on_progress(number: int, runs: int, share: float) -> None:
            shares[number] = share
            bar.update(task, completed=round(100 * sum(shares.values()) / runs))

        chosen = select(sweep, settings, folder, choice, bill, workers=workers, on_progress=on_progress)
    out.print(f"chosen: {chosen.setting.label}")
    out.print(f"score: {chosen.right:.1f} test rows right" + (", with noise" if choice.score_noise else ""))
    out.print(f"ε of the choice: {cost.epsilon:.4f} (by {cost.certified_by.value})")
    err.print(f"released to {folder / 'best'}; look at it with: understudy inspect {folder / 'best'}")


def _curves(sweep: Sweep, settings: tuple[Setting, ...], folder: Path, bill: Bill, workers: int) -> None:
    from understudy.files import write_whole
    from understudy.reporting.curves import curves_page
    from understudy.tuning.selection import selection_cost
    from understudy.tuning.sweep import run_sweep, runs_cost

    with progress_bar() as bar:
        tasks = {one: bar.add_task(str(one), total=100, note="", visible=False) for one in settings}
        whole = bar.add_task("all runs", total=len(settings), note="")
        shares = dict.fromkeys(settings, 0.0)

        def on_progress(setting: Setting, share: float) -> None:
            shares[setting] = share
            bar.update(tasks[setting], completed=round(100 * share), visible=share < 1)
            bar.update(whole, completed=sum(one >= 1 for one in shares.values()))

        outcomes, limits = run_sweep(
            sweep, settings, folder, workers=workers, bill=bill, on_progress=on_progress
        )
    together = runs_cost(sweep, settings)
    choices = {}
    for epsilon in sorted({one.epsilon for one in settings}):
        runs = [one for one in settings if one.epsilon == epsilon]
        if len(runs) > 1:
            choices[epsilon] = selection_cost(sweep, runs).epsilon
    page = folder / "curves.html"
    title = f"{sweep.recipe.name} on {Path(str(sweep.data)).name}"
    write_whole(page, curves_page(title, outcomes, limits, together.epsilon, choices), private=True)
    out.print(f"these {len(settings)} runs together cost {together}")
    for one, best in choices.items():
        out.print(f"a new choice with --select among runs of ε {one:g} would cost ε {best:.3f}")
    err.print(f"curves written to {page} (internal, not for publication)")


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as problem:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers such as 1,2,4.", param_hint=option
        ) from problem


def _varied(texts: list[str]) -> dict[str, list[float]]:
    """What each name takes in turn; a name that is given twice takes the values of both."""
    found: dict[str, list[float]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"{text!r} is not of the form clip=0.1,1.", param_hint="--vary")
        found.setdefault(name.strip().replace("-", "_"), []).extend(_numbers(values, "--vary"))
    return found


def _schema(data: object, path: Path | None, rows: int | None) -> tuple[Schema, int | None]:
    from understudy.data import known, known_names
    from understudy.errors import SchemaError
    from understudy.schema import load_schema

    if isinstance(data, str) and data in known_names():
        dataset = known(data)
        return (dataset.schema if path is None else load_schema(path)), rows or len(dataset.train)
    if path is None:
        raise SchemaError(f"{data} needs a schema: pass it with --schema.")
    return load_schema(path), rows
