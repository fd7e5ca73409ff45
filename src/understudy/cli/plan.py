"""`understudy plan`: what a budget buys, before any data is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import out, print_json, show_plan
from understudy.cli.options import (
    AcceptLargeDelta,
    AsJson,
    Batch,
    BatchCap,
    Capacity,
    Clip,
    Delta,
    Neighbours,
    RecipeName,
    SchemaFile,
    Sigma,
    Steps,
)
from understudy.cli.running import chosen_recipe
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from rich.table import Table

    from understudy.planning import Plan

__all__ = ["plan_command"]


def plan_command(
    rows: Annotated[
        int, typer.Option(help="Number of records (of persons, if the schema names them); public.")
    ],
    epsilon: Annotated[float, typer.Option(help="The budget's ε.")],
    delta: Delta = 1e-5,
    recipe: RecipeName = None,
    batch: Batch = None,
    batch_cap: BatchCap = None,
    sigma: Sigma = None,
    steps: Steps = None,
    clip: Clip = None,
    capacity: Capacity = None,
    adjacency: Neighbours = Adjacency.ADD_OR_REMOVE_ONE,
    schema: SchemaFile = None,
    accept_large_delta: AcceptLargeDelta = False,
    time: Annotated[
        bool, typer.Option("--time", help="Also say how long it takes here; always said of private steps.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the plan as JSON to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a budget buys: steps for a σ, or σ for a number of steps, and ε by two accountants.

    No data is read. Example:

        understudy plan --rows 12000 --epsilon 3 --schema patients.toml

        understudy plan --recipe dp-cgan --rows 60000 --epsilon 9.6 --delta 1e-5 --batch 600 --sigma 1.15
    """
    from understudy.codec import to_json, to_plain
    from understudy.errors import PlanError
    from understudy.files import write_whole
    from understudy.planning import plan
    from understudy.schema import load_schema

    found = None if schema is None else load_schema(schema)
    made = plan(
        found,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        rows=rows,
        recipe=chosen_recipe(recipe, found, clip=clip, capacity=capacity),
        batch=batch,
        batch_cap=batch_cap,
        noise_multiplier=sigma,
        steps=steps,
        accept_large_delta=accept_large_delta,
    )
    if save is not None:
        write_whole(save, to_json(made), error=PlanError)
    if as_json:
        print_json(to_plain(made))
        return
    show_plan(made, out)
    if found is not None:
        out.print(_memory_line(made))
    if time or made.sampled is not None:
        line = _time_line(made)
        if line is not None:
            out.print(line)
    if made.sampled is not None:
        out.print(_alternatives(made))


def _memory_line(made: Plan) -> str:
    """What the records take in memory, from public facts: their number and the numbers in each."""
    import math

    from understudy.records.encode import encoded_shape
    from understudy.schema import with_stand_ins

    assert made.schema is not None
    assert made.rows is not None
    width = math.prod(encoded_shape(with_stand_ins(made.schema)))
    size = 4 * made.rows * width / 2**30
    held = f"{size:.1f} GiB" if size >= 0.1 else f"{max(1, round(1024 * size)):,} MiB"
    return (
        f"memory            {held} for {made.rows:,} records of {width:,} numbers, beside the program's own"
    )


def _time_line(made: Plan) -> str | None:
    """How long the steps take here, by a few of them on stand-in records; without a schema, on images of 28×28."""
    from understudy.run.pace import in_words, seconds_per_step
    from understudy.run.threads import choose_threads
    from understudy.schema import ImageSchema

    assumed = ""
    if made.schema is None:
        schema = ImageSchema(28, 28, 1, tuple("0123456789"))
        if made.recipe.refuses(schema) is not None:
            return None
        made, assumed = replace(made, schema=made.recipe.sees(schema)), ", for 28×28 images: pass --schema"
    choose_threads(made, None)
    seconds = seconds_per_step(made)
    total = in_words(seconds * (made.steps + made.recipe.warm_steps))
    return f"time              about {total} on this machine ({seconds:.3g} s a step{assumed})"


def _alternatives(made: Plan) -> Table:
    """What the same steps would cost with other noise, and what other batches would cost."""
    from rich.table import Table

    from understudy.privacy.accounting import rough_epsilon
    from understudy.privacy.mechanisms import Charge, SubsampledGaussian

    assert made.budget is not None
    base, budget = made.training, made.budget
    table = Table(title="the same number of steps otherwise (RDP, a safe upper bound)")
    for heading in ("", "batch rate", "σ", "ε"):
        table.add_column(heading, justify="left" if not heading else "right")
    choices = [
        ("this plan", 1.0, 1.0),
        ("half the noise", 1.0, 0.5),
        ("1.5 times the noise", 1.0, 1.5),
        ("twice the noise", 1.0, 2.0),
        ("half the batch", 0.5, 1.0),
        ("twice the batch", 2.0, 1.0),
    ]
    for name, rate_factor, noise_factor in choices:
        rate = min(1.0, base.sampling_rate * rate_factor)
        sigma = base.noise_multiplier * noise_factor
        charges = [Charge(name, SubsampledGaussian(rate, sigma, base.steps))]
        cost = rough_epsilon(charges, budget.delta, budget.adjacency)
        table.add_row(name, f"{rate:.5f}", f"{sigma:.3f}", f"{cost:.3f}")
    return table
