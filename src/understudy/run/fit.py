"""`fit`: private records and a plan in, a release out. The only place where private rows meet training."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.data import known_names, read
from understudy.door.source import Rows
from understudy.dpsgd.clipping import PublicAdaptiveClip
from understudy.errors import PlanError, UnderstudyError
from understudy.planning import checked_plan
from understudy.recipes.parts import PublicWarmStart
from understudy.records.encode import encode
from understudy.run.devices import Device, chosen_device
from understudy.run.run import CriticRun, Losses, Progress, StatisticRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.ledger.account import Account
    from understudy.planning import Plan
    from understudy.release.release import Release
    from understudy.run.checkpoint import Checkpoints
    from understudy.run.run import Run
    from understudy.schema import Schema

__all__ = ["Losses", "Progress", "fit", "fit_in_stages", "rehearse"]


def fit(
    data: object,
    plan: Plan,
    *,
    public: object | None = None,
    account: Account | None = None,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] | None = None,
    insecure_seed: int | None = None,
    device: Device = Device.CPU,
    told: Callable[[Progress], None] | None = None,
) -> Release:
    """Train a generator on private records as the plan says, and release it.

    Args:
        data: a data frame, a pyarrow table, images, a path, or the name of a known data set.
        plan: what `understudy.plan` decided; it must have been made with a schema.
        public: declared public records of the same schema, for recipes with a warm start or adaptive bounds.
        account: told before anything is spent, such as `LedgerAccount`.
        checkpoints: where to write the state, and whether to go on from it.
        stop: asked after each step; when it says yes, the run writes a checkpoint and raises `Interrupted`.
        insecure_seed: makes the run repeatable and the release NOT PRIVATE; for tests only.
        device: where networks are trained; the records stay on the CPU, and only batches are moved.
        told: called after each step, for a progress bar.

    Raises:
        PlanError: the plan has no schema, or states a smaller cost than its charges have; the recipe needs public data
            that was not given; or there is no such device.
        DataError: the records do not fit the schema.
        BudgetError: the account refuses the plan.
        CheckpointError: the checkpoint is not one of this run.
        Interrupted: the run was asked to stop.
    """
    kind = _kind_of(checked_plan(plan))
    public_rows = _public_rows(public, plan)
    run = kind(plan, account, checkpoints, insecure_seed, chosen_device(device))
    run.pay()
    rows = _private_rows(data, run, plan)
    run.prepare(rows, public_rows, told)
    run.train(rows, public_rows, stop, told)
    return run.release(_public_source(public, public_rows))


def fit_in_stages(
    data: object,
    plans: Sequence[Plan],
    *,
    public: object | None = None,
    insecure_seed: int | None = None,
    told: Callable[[Progress], None] | None = None,
) -> Iterator[Release]:
    """Train once, and release the generator after the steps of each plan as if the run had ended there.

    Every release is certified for its own steps. Whoever has several of them has seen the run as far as the longest,
    so together they cost what that one costs. Nothing is put on an account.

    Args:
        data: as for `fit`.
        plans: one plan with growing numbers of steps, and nothing else that differs but the cost.
        public: as for `fit`.
        insecure_seed: as for `fit`.
        told: called after each step.

    Raises:
        PlanError: the plans are not stages of one run.
    """
    last = plans[-1]
    for before, after in pairwise(plans):
        same = replace(after.recipe, steps=before.steps) == before.recipe and after.rows == before.rows
        if before.steps >= after.steps or not same:
            raise PlanError(
                "stages of a run need one recipe, one noise and growing numbers of steps, "
                f"got {before.steps:,} and {after.steps:,} steps of {before.recipe.name!r} and {after.recipe.name!r}."
            )
    for plan in plans:
        checked_plan(plan)
    kind = _kind_of(last)
    public_rows = _public_rows(public, last)
    run = kind(last, None, None, insecure_seed)
    rows = _private_rows(data, run, last)
    run.prepare(rows, public_rows, told)
    for plan in plans:
        run.train(rows, public_rows, None, told, until=plan.steps)
        yield run.release(_public_source(public, public_rows), plan)


def rehearse(
    plan: Plan, rows: Rows, public: Rows | None = None, *, noise: Noise, steps: int = 0, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """What checkpoints of a run on stand-in rows would reveal: before the first step, then after each.

    For audits. Everything that publishes and trains is the code of `fit`; nothing is paid and nothing is released.

    Args:
        plan: what is to be trained; it must have been made with a schema.
        rows: encoded records that are not private.
        public: records for a recipe that learns from public ones.
        noise: the source of noise, which the auditor may watch.
        steps: how many training steps are taken.
        seed: of networks and fakes; two rehearsals with one seed differ by rows and noise alone.
    """
    run = _kind_of(plan)(plan, None, None, seed)
    run.replace_noise(noise)
    run.prepare(rows, public, None)
    yield run.revealed()
    for _ in range(steps):
        run.advance(rows, public)
        yield run.revealed()


def _kind_of(plan: Plan) -> type[Run]:
    if plan.schema is None:
        raise PlanError(
            "this plan was made without a schema, so it cannot be trained: pass a schema to plan()."
        )
    return CriticRun if plan.recipe.has_critic else StatisticRun


def _private_rows(data: object, run: Run, plan: Plan) -> Rows:
    """The private rows; if they cannot be read, nothing was drawn and the reservation is given back."""
    assert plan.schema is not None
    try:
        return _read_rows(data, plan.schema)
    except UnderstudyError:
        run.give_back()
        raise


def _read_rows(data: object, schema: Schema) -> Rows:
    encoded = encode(read(data, schema), schema)
    labels = None if encoded.labels is None else torch.from_numpy(encoded.labels)
    return Rows(torch.from_numpy(encoded.x), labels)


def _public_rows(public: object | None, plan: Plan) -> Rows | None:
    needed = isinstance(plan.recipe.warm_start, PublicWarmStart) or isinstance(
        plan.recipe.clipping, PublicAdaptiveClip
    )
    if needed and public is None:
        raise PlanError(
            f"recipe {plan.recipe.name!r} learns from public data: pass it with --public (public=…). It must not be "
            "part of the private data."
        )
    assert plan.schema is not None
    return None if public is None else _read_rows(public, plan.schema)


def _public_source(public: object | None, rows: Rows | None) -> str | None:
    """What the card says about public data: its name if it is a known set, never a path, and a hash of its records."""
    if public is None or rows is None:
        return None
    digest = hashlib.sha256(np.ascontiguousarray(np.asarray(rows.x)).tobytes()).hexdigest()
    known = str(public).partition(":")[0] in known_names() if isinstance(public, str | Path) else False
    name = str(public) if known else "a file" if isinstance(public, str | Path) else "records in memory"
    return f"{name}, {len(rows):,} records, sha256 {digest}"
