"""`understudy audit`: attack the running step, a foreign step, or the museum of published errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from understudy.cli.console import out, print_json

if TYPE_CHECKING:
    from understudy.audit import Audit

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Attack the promise until it is believed.\n\n"
        "Exit code 0: PASS. 3: FAIL, the claim is contradicted. 4: INCONCLUSIVE, too few canaries."
    ),
)

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Canaries = Annotated[int, typer.Option(min=90, help="How many canaries are used.")]
Steps = Annotated[
    int, typer.Option(min=8, help="Releases with about half of the canaries in; a multiple of 4.")
]


@app.command("run")
def run_command(
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", exists=True, dir_okay=False, help="A plan written by `understudy plan`."),
    ] = None,
    recipe: Annotated[str, typer.Option(help="Without a plan: the recipe.")] = "dp-cgan",
    epsilon: Annotated[float, typer.Option(help="Without a plan: ε.")] = 8.0,
    delta: Annotated[float, typer.Option(help="Without a plan: δ.")] = 1e-5,
    rows: Annotated[int, typer.Option(min=1, help="Without a plan: the number of rows.")] = 60_000,
    canaries: Canaries = 400,
    steps: Steps = 120,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise, for tests; by default secure.")] = None,
    as_json: AsJson = False,
) -> None:
    """Audit the private step of a plan on stand-in records; no private record is read."""
    from understudy import codec, planning
    from understudy.audit import Thoroughness
    from understudy.audit.configuration import audit_plan
    from understudy.errors import PlanError

    if plan_file is None:
        plan = planning.plan(epsilon=epsilon, delta=delta, rows=rows, recipe=recipe)
    else:
        plan = codec.from_json(planning.Plan, plan_file.read_text(encoding="utf-8"), error=PlanError)
    _finish(audit_plan(plan, canaries=canaries, thoroughness=Thoroughness(rounds=steps), seed=seed), as_json)


@app.command("foreign")
def foreign_command(
    target: Annotated[
        str, typer.Argument(help="script.py:function, called as function(critic, real, fake).")
    ],
    sampling_rate: Annotated[float, typer.Option(help="q in its books.")],
    noise_multiplier: Annotated[float, typer.Option(help="σ in its books.")],
    iterations: Annotated[int, typer.Option(min=1, help="T in its books.")],
    sensitivity: Annotated[
        float, typer.Option(help="What one record may change: C for a sum, C/B for a mean.")
    ],
    delta: Annotated[float, typer.Option(help="δ.")] = 1e-5,
    canaries: Canaries = 200,
    steps: Steps = 240,
    seed: Annotated[int, typer.Option(help="Of the auditor's coins and of the critic.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Audit somebody else's step. The script is executed: audit only code you trust."""
    from understudy.audit import Claim, Thoroughness
    from understudy.audit.foreign import audit_foreign
    from understudy.privacy.mechanisms import SubsampledGaussian

    claim = Claim(SubsampledGaussian(sampling_rate, noise_multiplier, iterations), delta)
    how = Thoroughness(rounds=steps)
    result = audit_foreign(
        target, claim, sensitivity=sensitivity, canaries=canaries, thoroughness=how, seed=seed
    )
    _finish(result, as_json)


@app.command("museum")
def museum_command(
    seed: Annotated[int, typer.Option(help="Of noise and coins.")] = 0, as_json: AsJson = False
) -> None:
    """Audit re-enactments of published errors, and our own step among them.

    Exit code 0 if every error is caught and the correct step passes, 3 otherwise.
    """
    from understudy.audit.museum import PIECES, museum
    from understudy.audit.verdict import Outcome
    from understudy.codec import to_plain

    lines = museum(seed=seed)
    if as_json:
        print_json([to_plain(line) for line in lines])
    else:
        table = Table("piece", "error", "claimed ε", "proved ε ≥", "reading", "verdict", title="museum")
        for line in lines:
            numbers = f"{line.claimed_epsilon:.3g}", f"{line.lower_bound:.3g}"
            table.add_row(line.piece, line.error or "none", *numbers, line.reading or "", line.verdict.value)
        out.print(table)
    expected = [Outcome.FAIL if piece.error else Outcome.PASS for piece in PIECES]
    if [line.verdict for line in lines] != expected:
        raise typer.Exit(3)


def _finish(result: Audit, as_json: bool) -> None:
    """Print an audit and leave with the exit code of its verdict."""
    from understudy.codec import to_plain

    if as_json:
        print_json(to_plain(result))
    else:
        table = Table("reading", "outcome", "what it says", title=f"audit of {result.subject}")
        for reading in result.readings:
            table.add_row(reading.name, reading.outcome.value, reading.says)
        out.print(table)
        out.print(
            f"claimed ε = {result.claimed_epsilon:.4g} at δ = {result.delta:g}; proved: ε ≥ {result.lower_bound:.4g} "
            f"(confidence {100 * result.confidence:g} %)"
        )
        out.print(f"[bold]{result.verdict.outcome.value}[/]: {result.verdict.says}")
        if result.verdict.canaries_needed is not None:
            out.print(f"about {result.verdict.canaries_needed} canaries would decide.")
    raise typer.Exit(result.verdict.exit_code)
