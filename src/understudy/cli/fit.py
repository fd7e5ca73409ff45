"""`understudy fit`: train privately and release."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import complain, err, print_json, say, show_plan, warn_not_private
from understudy.cli.count import release_from_parts
from understudy.cli.options import (
    AcceptLargeDelta,
    AsJson,
    Batch,
    BatchCap,
    Capacity,
    Clip,
    DatasetName,
    Delta,
    LedgerFile,
    Neighbours,
    PrivateData,
    Query,
    RecipeName,
    Rows,
    SchemaFile,
    Sigma,
    SkipDamaged,
    Steps,
)
from understudy.cli.running import (
    chosen_recipe,
    command_line,
    remove_finished_checkpoint,
    saved_plan,
    shown_to_the_curator,
    skipping_damaged,
    stopping,
)
from understudy.privacy.budget import Adjacency
from understudy.run.devices import Device
from understudy.run.progress import progress_bar
from understudy.run.record import beside, open_account
from understudy.run.threads import choose_threads

if TYPE_CHECKING:
    from understudy.door.ranks import Ranks
    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.run.checkpoint import Checkpoints
    from understudy.schema import Schema

__all__ = ["fit_command"]


def fit_command(
    out: Annotated[Path, typer.Option(help="Folder of the release; must not exist yet.")],
    data: PrivateData = "",
    epsilon: Annotated[float | None, typer.Option(help="The budget's ε.")] = None,
    delta: Delta = 1e-5,
    schema: SchemaFile = None,
    query: Query = None,
    recipe: RecipeName = None,
    rows: Rows = None,
    batch: Batch = None,
    batch_cap: BatchCap = None,
    sigma: Sigma = None,
    steps: Steps = None,
    clip: Clip = None,
    capacity: Capacity = None,
    time_budget: Annotated[
        float | None,
        typer.Option(min=0, help="Minutes for all steps, instead of --steps; the noise follows."),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(help="Steps after which to release, such as 1000,2000,4000: OUT-1000, OUT-2000, OUT."),
    ] = None,
    losses: Annotated[
        Path | None,
        typer.Option(help="Write the losses to this CSV; only of runs that are NOT PRIVATE anyway."),
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="A plan saved by `understudy plan --save`.")] = None,
    parts: Annotated[
        Path | None,
        typer.Option(help="Instead of DATA: a folder of parts from `understudy count`, with --plan."),
    ] = None,
    public: Annotated[str | None, typer.Option(help="Declared public data of the same schema.")] = None,
    adjacency: Neighbours = Adjacency.ADD_OR_REMOVE_ONE,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 500,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after an interruption; same options.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; chosen by the networks if left out.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Where networks are trained.")] = Device.CPU,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes on this machine; for several machines use torchrun.")
    ] = None,
    own_shards: Annotated[
        bool,
        typer.Option(
            "--own-shards", help="Each process reads a shard of its own; {rank} in DATA is its number."
        ),
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Minutes after which a silent process counts as lost.")
    ] = 30.0,
    cache: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            exists=True,
            envvar="UNDERSTUDY_CACHE",
            help="Folder for a working copy of large data on disk; private, without a name, gone at the end.",
        ),
    ] = None,
    skip_damaged: SkipDamaged = False,
    no_privacy: Annotated[
        bool, typer.Option("--no-privacy", help="Train a baseline that is NOT PRIVATE.")
    ] = False,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, for tests; the release is NOT PRIVATE.")
    ] = None,
    accept_large_delta: AcceptLargeDelta = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Spend the budget although noise will drown what it buys.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a generator under differential privacy and release it.

    Examples:
        understudy fit digits --epsilon 5 --out digits-release

        understudy fit patients.csv --schema patients.toml --rows 12000 --epsilon 3 --out release

        understudy fit mnist --recipe dp-cgan-printed --epsilon 9.6 --out paper-release

        understudy fit mnist --recipe small-images --epsilon 10 --stages 1000,2000,5000 --out curve
    """
    from understudy.data.databases import source_of
    from understudy.data.read import refuse_absent
    from understudy.errors import PlanError
    from understudy.planning import plan as make_plan
    from understudy.run.asked import refuse_useless
    from understudy.run.checkpoint import Checkpoints
    from understudy.run.fit import stages_of
    from understudy.run.processes import joined, started

    if parts is not None:
        others: tuple[object, ...] = (
            data,
            epsilon,
            schema,
            query,
            recipe,
            rows,
            batch,
            batch_cap,
            sigma,
            steps,
            clip,
            capacity,
        )
        others += (
            time_budget,
            stages,
            losses,
            public,
            threads,
            processes,
            cache,
            resume,
            own_shards,
            no_privacy,
        )
        plan = _alone_with_parts(plan, others)
        _tell(release_from_parts(parts, plan, out, ledger, dataset, insecure_seed), as_json=as_json)
        return
    if not data:
        raise PlanError("say what to train on: DATA, or --parts with --plan.")
    stops = _stops(stages, steps, time_budget)
    steps = stops[-1] if stops else steps
    with started(processes, sys.argv[1:]), joined(timedelta(minutes=wait), device) as ranks:
        err.quiet = not ranks.first
        working = Checkpoints(beside(out, "checkpoint"), checkpoint_every, resume)
        with ranks.agreed():
            if ranks.first:
                _refuse_taken(out, stops, ledger, resume=resume)
            place = data.replace("{rank}", str(ranks.rank)) if own_shards else data
            records: object = source_of(place, query)
            refuse_absent(records)
            if plan is not None:
                made = _saved(plan, skip_damaged=skip_damaged)
            else:
                if epsilon is None and not no_privacy:
                    raise PlanError(
                        "say how much may be spent with --epsilon (or --no-privacy for a baseline)."
                    )
                records, found, counted = _known_or_described(records, schema, rows)
                found = skipping_damaged(found, skip_damaged)
                made = make_plan(
                    found,
                    epsilon=None if no_privacy else epsilon,
                    delta=delta,
                    adjacency=adjacency,
                    rows=counted,
                    recipe=chosen_recipe(recipe, found, clip=clip, capacity=capacity),
                    batch=batch,
                    batch_cap=batch_cap,
                    noise_multiplier=sigma,
                    steps=steps,
                    accept_large_delta=accept_large_delta,
                )
            choose_threads(made, threads)
            if time_budget is not None:
                if steps is not None or sigma is not None:
                    raise PlanError(
                        "--time-budget chooses steps and noise itself: leave --steps and --sigma out."
                    )
                made = _in_time(made, time_budget, working, device) if ranks.first else made
            if not as_json:
                show_plan(made, err)
            if not anyway:
                refuse_useless(made)
        made = _of_the_first(made, ranks) if time_budget is not None else made
        released = _train(
            records,
            stages_of(made, stops[:-1]),
            ranks,
            out,
            ledger,
            dataset,
            working,
            own_shards=own_shards,
            cache=cache,
            public=public,
            insecure_seed=insecure_seed,
            device=device,
            losses=losses,
        )
        if ranks.first:
            _tell(released, as_json=as_json)


def _alone_with_parts(plan: Path | None, others: tuple[object, ...]) -> Path:
    from understudy.errors import PlanError

    if plan is None or any(others):
        raise PlanError("--parts goes with --plan, --out, --ledger and --dataset, and with nothing else.")
    return plan


def _saved(path: Path, *, skip_damaged: bool) -> Plan:
    from understudy.errors import PlanError

    if skip_damaged:
        raise PlanError("a saved plan has its schema: set skip_damaged = true there, and plan anew.")
    return saved_plan(path)


def _refuse_taken(out: Path, stops: tuple[int, ...], ledger: Path | None, *, resume: bool) -> None:
    from understudy.errors import PlanError

    if out.exists():
        finished = " It is complete." if remove_finished_checkpoint(out, ledger) else ""
        raise PlanError(f"{out} exists already.{finished} Remove it or choose another name for --out.")
    for place in (_stage(out, one) for one in stops[:-1]):
        if place.exists() and not resume:
            raise PlanError(f"{place} exists already. Remove it or choose another name for --out.")


def _of_the_first(plan: Plan, ranks: Ranks) -> Plan:
    """The plan of the first process, whose clock decides."""
    from understudy import codec
    from understudy.errors import PlanError
    from understudy.planning import Plan

    return codec.from_json(Plan, ranks.shared_bytes(codec.to_json(plan).encode()).decode(), error=PlanError)


def _stops(stages: str | None, steps: int | None, minutes: float | None) -> tuple[int, ...]:
    """The numbers of steps in `--stages`, the last of which is the run's."""
    from understudy.errors import PlanError

    if stages is None:
        return ()
    if steps is not None or minutes is not None:
        raise PlanError("the last of --stages is the number of steps: leave --steps and --time-budget out.")
    try:
        return tuple(int(one) for one in stages.split(","))
    except ValueError:
        raise PlanError(f"--stages takes numbers of steps, such as 1000,2000,4000, got {stages!r}.") from None


def _stage(out: Path, steps: int) -> Path:
    """The folder of the release after so many steps."""
    return out.parent / f"{out.name}-{steps}"


def _in_time(plan: Plan, minutes: float, checkpoints: Checkpoints, device: Device) -> Plan:
    """The plan with as many steps as the time allows; a run that goes on keeps those that it began with."""
    from understudy.run.checkpoint import load_checkpoint
    from understudy.run.devices import chosen_device
    from understudy.run.pace import paced, with_steps

    if checkpoints.resume:
        return with_steps(plan, load_checkpoint(checkpoints.path)[0].plan.steps)
    return paced(plan, minutes, chosen_device(device))


def _train(
    data: object,
    plans: tuple[Plan, ...],
    ranks: Ranks,
    out: Path,
    ledger: Path | None,
    dataset: str | None,
    checkpoints: Checkpoints,
    *,
    own_shards: bool,
    cache: Path | None,
    public: str | None,
    insecure_seed: int | None,
    device: Device,
    losses: Path | None,
) -> dict[Path, Release]:
    """Run in the open: on record, with checkpoints, a bar, and signals that stop it in order."""
    from understudy.errors import Interrupted
    from understudy.files import remove_leftovers
    from understudy.run.progress import stages_with_bar
    from understudy.run.shards import Shards

    last, found = plans[-1], {}
    with (
        shown_to_the_curator(),
        stopping() as signals,
        open_account(last, out, ledger, dataset, checkpoints.every, command=command_line(), say=err.print)
        if ranks.first
        else nullcontext() as account,
        progress_bar(shown=ranks.first) as bar,
    ):
        try:
            for release in stages_with_bar(
                bar,
                data,
                plans,
                losses=losses,
                ranks=ranks,
                shards=Shards.OWN if own_shards else Shards.DEALT,
                cache=cache,
                public=public,
                account=account,
                checkpoints=checkpoints,
                stop=signals.asked,
                insecure_seed=insecure_seed,
                device=device,
                on_note=lambda note: say(f"note: {note}", to_err=True),
            ):
                steps = release.card.plan.steps
                place = out if steps == last.steps else _stage(out, steps)
                if not (checkpoints.resume and place.exists()):
                    release.save(place)
                found[place] = release
        except Interrupted as notice:
            bar.stop()
            complain(str(notice))
            raise typer.Exit(signals.exit_code) from notice
        if not ranks.first:
            return found
        checkpoints.path.unlink(missing_ok=True)
        for path in (out, checkpoints.path):
            remove_leftovers(path)
    return found


def _tell(released: dict[Path, Release], *, as_json: bool) -> None:
    if not released:
        return
    *_, (out, release) = released.items()
    if not release.card.private:
        warn_not_private(release.card.warnings)
    for note in release.card.notes:
        err.print(f"note: {note}", highlight=False, markup=False)
    costs = {path: one.card.plan.spent for path, one in released.items()}
    epsilons = {str(path): None if cost is None else cost.epsilon for path, cost in costs.items()}
    if as_json:
        stages = {} if len(released) == 1 else {"stages": epsilons}
        print_json(
            {"release": str(out), "private": release.card.private, "epsilon": epsilons[str(out)], **stages}
        )
        return
    for path in released:
        err.print(f"released to {path}; look at it with: understudy inspect {path}")
    if len(released) > 1 and release.card.private:
        err.print("each stage is certified for its own steps; together they cost what the last one does")


def _known_or_described(
    data: object, path: Path | None, rows: int | None
) -> tuple[object, Schema, int | None]:
    """What to train on, its schema, and its number of rows where that is public.

    A published data set is read here, once; private records are only named, and read after the charge.
    """
    from understudy.data import download_bar, known, known_names
    from understudy.errors import SchemaError
    from understudy.schema import load_schema

    if isinstance(data, str) and data in known_names():
        with download_bar() as progress:
            dataset = known(data, on_progress=progress)
        schema = dataset.schema if path is None else load_schema(path)
        return dataset.train, schema, rows or (None if schema.person_columns else len(dataset.train))
    if path is None:
        raise SchemaError(
            f"{data} needs a schema: write a draft with `understudy schema draft {data} --out schema.toml`, "
            "fill it in, and pass it with --schema."
        )
    return data, load_schema(path), rows
