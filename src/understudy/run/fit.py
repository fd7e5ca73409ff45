"""`fit`: private records and a plan in, a release out."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy import codec
from understudy.calling import explained
from understudy.certificate import checked_plan
from understudy.data import known_names, read
from understudy.discovery.discover import undescribed_rows
from understudy.door.door import Door
from understudy.door.ranks import ALONE
from understudy.door.source import Rows
from understudy.errors import Interrupted, PlanError, UnderstudyError
from understudy.privacy.accounting import spent
from understudy.privacy.mechanisms import SubsampledGaussian
from understudy.records.encode import encode
from understudy.release.release import packages_in_use
from understudy.run.asked import planned, refuse_useless
from understudy.run.devices import Device, chosen_device
from understudy.run.reading import private_rows, watched
from understudy.run.record import recorded
from understudy.run.run import Progress, Run
from understudy.run.shards import Shards, refuse_differences, refuse_same_shard
from understudy.schema import open_columns, refuse_open, with_stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.door.ranks import Ranks
    from understudy.ledger.account import Account
    from understudy.planning import Plan
    from understudy.privacy.mechanisms import Charge
    from understudy.release.release import Release
    from understudy.run.checkpoint import Checkpoints
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe

__all__ = ["Progress", "fit", "fit_in_stages", "fit_together", "rehearse", "run_plan", "stages_of"]


@explained("understudy.fit(data, schema, epsilon=1)")
def fit(
    data: object,
    plan: Plan | Schema | str | Path,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rows: int | None = None,
    recipe: Recipe | str | None = None,
    steps: int | None = None,
    person: str | tuple[str, ...] | None = None,
    max_rows_per_person: int | None = None,
    out: str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    account: Account | None = None,
    anyway: bool = False,
    public: object | None = None,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] | None = None,
    insecure_seed: int | None = None,
    device: Device = Device.CPU,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    cache: Path | None = None,
) -> Release:
    """Make a generator from private records as the plan says, and release it.

    The run is charged to a ledger before a record is read: to the one given, or to one of its own beside `out`, or else
    beside the checkpoint. Without any of these and without an account it is charged nowhere, and a warning says so.

    Args:
        data: a data frame, a pyarrow table, images, a path, or the name of a known data set.
        plan: what `understudy.plan` decided, made with a schema; or the schema (or the path of its file), and the plan
            is made from the next five arguments, which are those of `understudy.plan`, and the two after them.
        epsilon: the budget's ε.
        delta: the budget's δ; 1e-5 if left out.
        rows: the number of records if it is PUBLIC; left out, it is estimated with noise.
        recipe: a recipe or the name of one.
        steps: how many steps, instead of the recipe's.
        person: the column (or columns) that tells persons apart, if one may have several rows; instead of the schema's.
        max_rows_per_person: how many rows of a person take part at most.
        out: the folder in which the release is saved, which must not exist.
        ledger: the ledger file to charge, together with `dataset`.
        dataset: the name that the data set is registered by in the ledger.
        account: what else is told before anything is spent.
        anyway: go on although the noise will drown what such a budget asks for; see `Plan.prospect`.
        public: declared public records of the same schema, for tables and for recipes with a warm start or adaptive
            bounds.
        checkpoints: where to write the state, and whether to go on from it.
        stop: asked after each step; when it says yes, the run writes a checkpoint and raises `Interrupted`.
        insecure_seed: makes the run repeatable and the release NOT PRIVATE; for tests only.
        device: where networks are trained; the records stay on the CPU, and only batches are moved.
        on_progress: called after each step, for a progress bar.
        on_note: told what readers took from the public part of files because nobody declared it; for the curator.
        cache: the folder of a working copy of the data on disk, which is made of files above 256 MiB in any case.

    Raises:
        CallError: arguments are missing, of the wrong kind or in the wrong order.
        PlanError: the plan has no schema, or states a smaller cost than its charges have, or buys nothing useful; the
            recipe needs public data that was not given; or there is no such device.
        DataError: the records do not fit the schema.
        BudgetError: the account refuses the plan.
        CheckpointError: the checkpoint is not one of this run.
        ReleaseError: `out` exists already.
        Interrupted: the run was asked to stop.
    """
    made = planned(
        data,
        plan,
        epsilon=epsilon,
        delta=delta,
        rows=rows,
        recipe=recipe,
        steps=steps,
        person=person,
        max_rows_per_person=max_rows_per_person,
    )
    if made is not plan and not anyway:
        refuse_useless(made)
    seeded = insecure_seed is not None
    with recorded(made, account, out, ledger, dataset, checkpoints, seeded=seeded) as charged:
        release = run_plan(
            data,
            made,
            public=public,
            account=charged,
            checkpoints=checkpoints,
            stop=stop,
            insecure_seed=insecure_seed,
            device=device,
            on_progress=on_progress,
            on_note=on_note,
            cache=cache,
        )
        if out is not None:
            release.save(out)
    return release


def run_plan(
    data: object,
    plan: Plan,
    *,
    public: object | None = None,
    account: Account | None = None,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] | None = None,
    insecure_seed: int | None = None,
    device: Device = Device.CPU,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    cache: Path | None = None,
) -> Release:
    """One run as the plan says, charged to the account and nowhere else; arguments are those of `fit`."""
    release = fit_together(
        data,
        plan,
        ALONE,
        public=public,
        account=account,
        checkpoints=checkpoints,
        stop=stop,
        insecure_seed=insecure_seed,
        device=device,
        on_progress=on_progress,
        on_note=on_note,
        cache=cache,
    )
    assert release is not None  # this process is the first
    return release


def fit_together(data: object, plan: Plan, ranks: Ranks, **options: Any) -> Release | None:
    """One run in several processes, which all call it with the same arguments: the release in the first, else None.

    Args:
        data: as for `fit`: all of it, or this process's own shard (`Shards.OWN`).
        plan: as for `fit`.
        ranks: this process among the others, such as `joined` gives it.
        options: those of `fit_in_stages`.

    Raises:
        RanksError: the processes disagree, two have the same shard, or one is lost.
        UnderstudyError: as for `fit`.
    """
    return next(fit_in_stages(data, (plan,), ranks=ranks, **options), None)


def fit_in_stages(
    data: object,
    plans: Sequence[Plan],
    *,
    public: object | None = None,
    account: Account | None = None,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] | None = None,
    insecure_seed: int | None = None,
    device: Device = Device.CPU,
    watch_losses: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    cache: Path | None = None,
    ranks: Ranks = ALONE,
    shards: Shards = Shards.DEALT,
) -> Iterator[Release]:
    """Train once, and release the generator after the steps of each plan as if the run had ended there.

    Every release is certified for its own steps. Whoever has several of them has seen the run as far as the longest,
    so together they cost what that one costs, which is what the account is charged. A run that goes on from a
    checkpoint leaves out the stages that lie behind it.

    Args:
        data: as for `fit`, like everything that is not said here.
        plans: one plan with growing numbers of steps, and nothing else that differs but the cost; see `stages_of`.
        public: declared public records.
        account: told before anything is spent.
        checkpoints: where to write the state; it is written at the end of each stage, too.
        stop: asked after each step.
        insecure_seed: makes the run repeatable and every release NOT PRIVATE.
        device: where networks are trained.
        watch_losses: tell losses with the progress of a seeded run, too; refused for a private one.
        on_progress: called after each step.
        on_note: told what readers took from the public part of files.
        cache: the folder of a working copy of the data, which is made of large files anyway.
        ranks: the processes that run together. Account, checkpoints, requests to stop and callbacks are those of the
            first, which alone yields releases.
        shards: what `data` is to each process.

    Raises:
        PlanError: the plans are not stages of one run, and whatever `fit` raises.
    """
    last = plans[-1]
    stop, on_note = (stop, on_note) if ranks.first else (None, None)
    with ranks.agreed():
        _refuse_other_runs(plans)
        if last.schema is not None and (cache is not None or ranks.size > 1):
            refuse_open(
                last.schema, "It is discovered in one process and in memory: leave --cache and others out."
            )
        for plan in plans:
            checked_plan(plan)
    resume = checkpoints is not None and checkpoints.resume
    said = f"{[codec.to_json(plan) for plan in plans]} {insecure_seed} {resume} {shards}"
    ranks.same("version of the package, or of one it uses", str(packages_in_use()))
    ranks.same("plan or other options", hashlib.sha256(said.encode()).hexdigest())
    run = Run(
        last,
        account=account,
        checkpoints=checkpoints,
        seed=insecure_seed,
        device=chosen_device(device),
        watch_losses=watch_losses,
        on_progress=on_progress,
        ranks=ranks,
    )
    with ranks.agreed():
        public_rows = _public_rows(public, last)
        source = _public_source(public, public_rows)
    ranks.same("public data", str(source))
    run.pay()
    run.open(_private_rows(data, run, last, stop, on_note, cache, ranks, shards), public_rows)
    for plan in plans:
        if plan is last or plan.steps >= run.taken:
            run.train(public_rows, stop, until=plan.steps)
            if ranks.first:
                yield run.release(source, plan)


def stages_of(plan: Plan, steps: Sequence[int]) -> tuple[Plan, ...]:
    """The plan of a run after those of its stages, each with the noise of the whole run and the cost of its own steps.

    Args:
        plan: of the whole run.
        steps: after which it is released as well, each fewer than the plan's.

    Raises:
        PlanError: the steps do not grow, or do not end before the plan's.
    """
    ends = (0, *steps, plan.steps)
    if any(after <= before for before, after in pairwise(ends)):
        raise PlanError(
            f"stages are numbers of steps that grow and end before {plan.steps:,}, got "
            f"{', '.join(f'{one:,}' for one in steps)}."
        )
    return (*(_ending_at(plan, count) for count in steps), plan)


def _ending_at(plan: Plan, steps: int) -> Plan:
    """The same run, shorter, with the cost of its own steps."""
    recipe, charges = replace(plan.recipe, steps=steps), _cut(plan.charges, steps)  # type: ignore[type-var]
    cost = None if plan.budget is None else spent(charges, plan.budget.delta, plan.budget.adjacency)
    return replace(plan, recipe=recipe, charges=charges, spent=cost)


def _cut(charges: Sequence[Charge], steps: int) -> tuple[Charge, ...]:
    return tuple(
        replace(one, mechanism=replace(one.mechanism, steps=steps))
        if isinstance(one.mechanism, SubsampledGaussian)
        else one
        for one in charges
    )


def _refuse_other_runs(plans: Sequence[Plan]) -> None:
    for before, after in pairwise(plans):
        shorter = replace(after.recipe, steps=before.steps)  # type: ignore[type-var]
        if before.steps >= after.steps or shorter != before.recipe or _else(before) != _else(after):
            raise PlanError(
                "stages of a run need one recipe, one noise and growing numbers of steps, "
                f"got {before.steps:,} and {after.steps:,} steps of {before.recipe.name!r} and {after.recipe.name!r}."
            )


def _else(plan: Plan) -> tuple[object, ...]:
    """Everything that stages of one run must have in common besides their recipe: also the noise of every release."""
    return plan.schema, plan.rows, plan.private, _cut(plan.run_charges, 0)


def rehearse(
    plan: Plan,
    rows: Rows,
    public: Rows | None = None,
    *,
    noise: Noise,
    door: Callable[..., Door] = Door,
    seed: int = 0,
) -> Iterator[dict[str, Tensor]]:
    """What checkpoints of a run on stand-in rows would reveal: before the first step, then after each.

    Steps are taken until everything that is charged was asked for, and at least one. For audits: everything that asks
    and trains is the code of `fit`, nothing is paid and nothing is released.

    Args:
        plan: what is to be trained; it must have been made with a schema.
        rows: encoded records that are not private.
        public: records for a recipe that learns from public ones.
        noise: the source of noise.
        door: the class of a door at which the auditor listens.
        seed: of networks and fakes; two rehearsals with one seed differ by rows and noise alone.
    """
    run = Run(plan, seed=seed, noise=noise, door=door)
    run.open(rows, None)  # a warm start on public records takes long and draws nothing
    yield run.state()
    for step in range(plan.steps):
        if step and not run.owing:
            break
        run.advance(public)
        yield run.state()


def _private_rows(
    data: object,
    run: Run,
    plan: Plan,
    stop: Callable[[], bool] | None,
    on_note: Callable[[str], None] | None,
    cache: Path | None,
    ranks: Ranks,
    shards: Shards,
) -> Rows:
    """The private rows of this process; if any process cannot read its own, the reservation is given back."""
    schema = plan.schema
    assert schema is not None
    key = ranks.shared_bytes(secrets.token_bytes(32))
    try:
        with ranks.agreed():
            if open_columns(schema):
                records = watched(data, schema, on_note)
                # What cannot be read, or does not tell persons apart, is found before a draw.
                encoded = encode(records, with_stand_ins(schema))
                Rows.of(encoded, schema)
            else:
                rows, said = private_rows(data, schema, ranks, shards, key=key, cache=cache, on_note=on_note)
            if stop is not None and stop():
                raise Interrupted(
                    "stopped while the data was read, as asked; nothing was drawn and nothing spent."
                )
        if shards is Shards.OWN:
            refuse_same_shard(rows, ranks)
        elif ranks.size > 1:
            refuse_differences(said, ranks)
    except UnderstudyError:
        run.give_back()
        raise
    if not open_columns(schema):
        return rows
    run.discover(undescribed_rows(records.frame, schema, encoded.persons))
    return Rows.of(encode(records, run.schema), run.schema)


def _public_rows(public: object | None, plan: Plan) -> Rows | None:
    if public is None and plan.recipe.learns_from_public:
        raise PlanError(
            f"recipe {plan.recipe.name!r} learns from public data: pass it with --public (public=…). It must not be "
            "part of the private data."
        )
    assert plan.schema is not None
    if public is None:
        return None
    schema = plan.schema.without_persons()
    refuse_open(schema, "Public records tell it for free: draft a schema from them with --from-public.")
    return Rows.of(encode(read(public, schema), schema), schema)


def _public_source(public: object | None, rows: Rows | None) -> str | None:
    """What the card says about public data: its name if it is a known set, never a path, and a hash of its records."""
    if public is None or rows is None:
        return None
    digest = hashlib.sha256(np.ascontiguousarray(np.asarray(rows.x)).tobytes()).hexdigest()
    known = str(public).partition(":")[0] in known_names() if isinstance(public, str | Path) else False
    name = str(public) if known else "a file" if isinstance(public, str | Path) else "records in memory"
    return f"{name}, {len(rows):,} records, sha256 {digest}"
