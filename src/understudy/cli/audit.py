"""`understudy audit`: attack the running step, a foreign step, or the museum of published errors."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from understudy.cli.console import err, out, print_json
from understudy.cli.options import RecipeName
from understudy.cli.running import chosen_recipe, saved_plan
from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from understudy.auditing import Audit
    from understudy.auditing.leakage import Leakage
    from understudy.auditing.museum import Exhibit
    from understudy.planning import Plan

__all__ = ["app"]


class _RunByDefault(TyperGroup):
    """`audit --recipe R` is short for `audit run --recipe R`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help=(
        "Attack the promise until it is believed; `audit --recipe R` is short for `audit run --recipe R`.\n\n"
        "Exit code 0: PASS. 3: FAIL, the claim is contradicted. 4: INCONCLUSIVE, too few canaries."
    ),
)

_USUAL: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "rows": 60_000}

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Steps = Annotated[int, typer.Option(min=8, help="Releases with some of the canaries in; a multiple of 4.")]


@app.command("run")
def run_command(
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="A plan written by `understudy plan --save`.")
    ] = None,
    recipe: RecipeName = None,
    epsilon: Annotated[float | None, typer.Option(help="Without a plan: ε.  [default: 8]")] = None,
    delta: Annotated[float | None, typer.Option(help="Without a plan: δ.  [default: 1e-5]")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Without a plan: the number of rows.  [default: 60000]")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Without a plan: what a record looks like.")] = None,
    release: Annotated[
        Path | None,
        typer.Option(
            "--attach", help="Audit the plan of this release, and write the result into its folder."
        ),
    ] = None,
    canaries: Annotated[
        int | None, typer.Option(min=16, help="How many canaries are used; by default what suits the critic.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=8, help="Releases with some of the canaries in; a multiple of 4.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise, for tests; by default secure.")] = None,
    as_json: AsJson = False,
) -> None:
    """Audit a plan: its private step, and all that it publishes, on stand-in records; no private record is read.

    Examples:
        understudy audit --recipe small-images --epsilon 8

        understudy audit --plan plan.json --json > audit.json

        understudy audit --attach release/
    """
    from dataclasses import replace

    from understudy.auditing.configuration import audit, effort_of
    from understudy.errors import PlanError

    if plan_file is not None or release is not None:
        if (plan_file and release) or any(value is not None for value in (epsilon, delta, rows, schema)):
            raise PlanError(
                "give a plan, or a release, or the numbers of a new plan, and not several of them."
            )
        plan = saved_plan(plan_file) if plan_file is not None else _plan_of(release)
        _refuse_other(plan, recipe)
    else:
        plan = _new_plan(recipe, schema, epsilon=epsilon, delta=delta, rows=rows)
    effort = effort_of(plan)
    how = effort if steps is None else replace(effort, rounds=steps)
    with _bar("releases of the step") as on_progress:
        result = audit(plan, canaries=canaries, thoroughness=how, seed=seed, on_progress=on_progress)
    if release is not None:
        from understudy.auditing.attachment import attach

        err.print(f"audit written to {attach(release, result)}")
    _finish(result, as_json)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that appears with the first news of how far the work is."""
    with progress_bar() as bar:
        task = bar.add_task(what, total=None, visible=False, note="")
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _new_plan(recipe: str | None, schema: Path | None, **given: Any) -> Plan:
    """A plan by the numbers that were given, and by usual ones for the rest."""
    from understudy.planning import plan
    from understudy.schema import load_schema

    found = None if schema is None else load_schema(schema)
    numbers = _USUAL | {name: value for name, value in given.items() if value is not None}
    return plan(found, recipe=chosen_recipe(recipe, found), **numbers)


def _refuse_other(plan: Plan, recipe: str | None) -> None:
    """A recipe beside a plan must be that of the plan."""
    from understudy.errors import PlanError
    from understudy.synthesizers.registry import find_recipe

    if recipe is not None and find_recipe(recipe).name != plan.recipe.name:
        raise PlanError(f"this is a plan of the recipe {plan.recipe.name!r}, not of {recipe!r}.")


def _plan_of(folder: Path | None) -> Plan:
    from understudy.release.release import Release

    assert folder is not None
    return Release.load(folder).card.plan


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
    canaries: Annotated[int, typer.Option(min=16, help="How many canaries are used.")] = 200,
    steps: Steps = 240,
    seed: Annotated[int, typer.Option(help="Of the auditor's coins and of the critic.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Audit somebody else's step. The script is executed: audit only code you trust."""
    from understudy.auditing import Claim, Thoroughness
    from understudy.auditing.foreign import audit_foreign
    from understudy.privacy.mechanisms import SubsampledGaussian

    claim = Claim(SubsampledGaussian(sampling_rate, noise_multiplier, iterations), delta)
    how = Thoroughness(rounds=steps, opposed_rounds=max(100, 5 * steps // 2))
    with _bar("releases of the step") as on_progress:
        result = audit_foreign(
            target,
            claim,
            sensitivity=sensitivity,
            canaries=canaries,
            thoroughness=how,
            seed=seed,
            on_progress=on_progress,
        )
    _finish(result, as_json)


@app.command("membership")
def membership_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    members: Annotated[
        str, typer.Option(help="Rows it was trained on: a file, or a name such as digits:train.")
    ],
    non_members: Annotated[str, typer.Option(help="Rows it was not trained on, such as digits:test.")],
    members_query: Annotated[
        str | None, typer.Option(help="What --members is, in the SQL of its database.")
    ] = None,
    non_members_query: Annotated[
        str | None, typer.Option(help="What --non-members is, in the SQL of its database.")
    ] = None,
    rows: Annotated[int, typer.Option(min=20, help="Members, and non-members, tried at most.")] = 1000,
    synthetic: Annotated[int, typer.Option(min=10, help="Synthetic records the attacker draws.")] = 10_000,
    shadow: Annotated[
        int, typer.Option(min=0, help="Shadow generators to train for a likelihood ratio; 0 for none.")
    ] = 0,
    false_positive_rate: Annotated[float, typer.Option(help="Where true positives are counted.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Of the attacker's choices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Attack the samples of a release: who was in its training rows? INTERNAL: reads private rows.

    Exit code 3 if an attack reaches more than the release's (ε, δ) allows, else 0.

    Example: `understudy audit membership release/ --members mnist:train --non-members mnist:test`
    """
    from understudy.auditing.leakage import attack_release
    from understudy.codec import to_plain
    from understudy.data import read
    from understudy.data.databases import source_of
    from understudy.release.release import Release

    err.print("INTERNAL: this attack reads private rows; its result must not be published.")
    loaded = Release.load(release)
    with progress_bar() as bar:
        task = bar.add_task("shadow generators", total=shadow, visible=shadow > 0, note="")
        found = attack_release(
            loaded,
            read(source_of(members, members_query), loaded.schema),
            read(source_of(non_members, non_members_query), loaded.schema),
            rows=rows,
            synthetic=synthetic,
            shadows=shadow,
            false_positive_rate=false_positive_rate,
            seed=seed,
            on_progress=lambda done: bar.update(task, completed=done),
        )
    if as_json:
        print_json({"internal": True} | to_plain(found))
    else:
        _print_leakage(found)
    if found.contradicted:
        raise typer.Exit(3)


def _print_leakage(found: Leakage) -> None:
    table = Table(
        "attack",
        "false positives",
        "true positives",
        "99 % interval",
        "allowed by (ε, δ)",
        title="membership (internal)",
    )
    for result in found.results:
        table.add_row(
            result.attack,
            f"{100 * result.false_positive_rate:.2f} %",
            f"{100 * result.true_positive_rate:.2f} %",
            f"{100 * result.low:.2f} to {100 * result.high:.2f} %",
            f"{100 * result.bound:.2f} %" + (" CONTRADICTED" if result.contradicts else ""),
        )
    out.print(table)
    out.print(
        f"{found.members} members, {found.non_members} others, {found.synthetic} synthetic records; ε = "
        f"{found.epsilon:.4g}, δ = {found.delta:g}. Finding nothing proves nothing."
    )


@app.command("museum")
def museum_command(
    seed: Annotated[int, typer.Option(help="Of noise and coins.")] = 0, as_json: AsJson = False
) -> None:
    """Audit re-enactments of published errors, and our own step among them.

    Exit code 0 if every error is caught and the correct step passes, 3 otherwise.
    """
    from understudy.auditing.museum import PIECES, museum
    from understudy.auditing.verdict import Outcome
    from understudy.codec import to_plain

    lines: list[Exhibit] = []
    with _bar("pieces") as on_progress:
        for line in museum(seed=seed):
            lines.append(line)
            on_progress(len(lines), len(PIECES))
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
        out.print(f"{result.verdict.outcome.value}: {result.verdict.says}")
        if result.verdict.canaries_needed is not None:
            out.print(f"about {result.verdict.canaries_needed} canaries would decide.")
    raise typer.Exit(result.verdict.exit_code)
