"""`fit`: private records and a plan in, a release out. The only place where private rows meet training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from understudy.data import read
from understudy.encode import encode
from understudy.engine.clipping import PublicAdaptiveClip
from understudy.engine.mechanism import PrivateStep
from understudy.engine.noise import SecureNoise, SeededNoise
from understudy.engine.nonprivate import NonPrivateStep
from understudy.engine.sampling import Rows
from understudy.errors import PlanError
from understudy.gan.trainer import GradientSource, Trainer
from understudy.recipes.parts import DeclaredLabels, NoisyLabelHistogram, PublicWarmStart, UniformLabels
from understudy.release import Card, Release, packages_in_use

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.planning import Plan
    from understudy.schema import Schema

__all__ = ["Account", "Progress", "fit"]

INSECURE_SEED = "The noise came from a fixed seed, so anyone who knows the seed can remove it."
NO_NOISE = "It was trained without noise, as a baseline."

Noise = SecureNoise | SeededNoise


@dataclass(frozen=True)
class Progress:
    """How far a run is; depends on nothing private."""

    done: int
    total: int


class Account(Protocol):
    """What is told before anything is spent; the ledger is one."""

    def reserve(self, plan: Plan) -> None:
        """Set the whole plan aside; called before the first private row is read."""
        ...

    def charge(self, step: int) -> None:
        """Count training step number `step`; called before it runs."""
        ...

    def finish(self) -> str | None:
        """The run is over; returns the head of the record for the release card."""
        ...


def fit(
    data: object,
    plan: Plan,
    *,
    public: object | None = None,
    account: Account | None = None,
    insecure_seed: int | None = None,
    told: Callable[[Progress], None] | None = None,
) -> Release:
    """Train a generator on private records as the plan says, and release it.

    Args:
        data: a data frame, a pyarrow table, images, a path, or the name of a known data set.
        plan: what `understudy.plan` decided; it must have been made with a schema.
        public: declared public records of the same schema, for recipes with a warm start or adaptive bounds.
        account: told before anything is spent; see `understudy.privacy.ledger`.
        insecure_seed: makes the run repeatable and the release NOT PRIVATE; for tests only.
        told: called after each step, for a progress bar.

    Raises:
        PlanError: the plan has no schema, or the recipe needs public data that was not given.
        DataError: the records do not fit the schema.
        BudgetError: the account refuses the plan.
    """
    if plan.schema is None:
        raise PlanError(
            "this plan was made without a schema, so it cannot be trained: pass a schema to plan()."
        )
    public_rows = _public_rows(public, plan)
    if account is not None:
        account.reserve(plan)
    noise = SecureNoise() if insecure_seed is None else SeededNoise(insecure_seed)
    rows = _read_rows(data, plan.schema)
    label_weights = _label_weights(plan, plan.schema, rows, noise)
    trainer = Trainer(plan.recipe, plan.schema, label_weights, insecure_seed)
    if public_rows is not None and isinstance(plan.recipe.warm_start, PublicWarmStart):
        _warm_start(trainer, plan, plan.recipe.warm_start, public_rows, noise, told)
    source = _gradient_source(plan, noise, _divisor(plan, len(rows), noise))
    for step in range(1, plan.training.steps + 1):
        if account is not None:
            account.charge(step)
        trainer.advance(source, rows, public_rows)
        if told is not None:
            told(Progress(step, plan.training.steps))
    head = account.finish() if account is not None else None
    card = Card(
        plan=plan,
        label_weights=label_weights,
        warnings=_warnings(plan, seeded=insecure_seed is not None),
        public_source=None if public is None else str(public),
        ledger_head=head,
        packages=packages_in_use(),
    )
    return Release(card, trainer.released_weights())


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


def _label_weights(plan: Plan, schema: Schema, rows: Rows, noise: Noise) -> tuple[float, ...] | None:
    """The class frequencies of fakes: uniform, declared, or counted with noise as the plan charged."""
    classes = schema.label_classes
    if classes is None:
        return None
    match plan.recipe.labels:
        case UniformLabels():
            return (1 / len(classes),) * len(classes)
        case DeclaredLabels():
            if schema.label_weights is None:
                raise PlanError(
                    "the recipe takes class weights from the schema, but the schema declares none: add label_weights, "
                    "or choose another label prior."
                )
            return schema.label_weights
        case NoisyLabelHistogram():
            return _noisy_histogram(plan, len(classes), rows, noise)


def _noisy_histogram(plan: Plan, classes: int, rows: Rows, noise: Noise) -> tuple[float, ...]:
    assert rows.labels is not None
    counts = np.bincount(np.asarray(rows.labels), minlength=classes).astype(np.float64)
    if plan.label_release is not None:
        counts += plan.label_release.noise_multiplier * np.asarray(noise.normal((classes,)))
    positive = np.maximum(counts, 1.0)
    return tuple(float(weight) for weight in positive / positive.sum())


def _divisor(plan: Plan, count: int, noise: Noise) -> float:
    """The public number that a sum of gradients is divided by: the expected batch."""
    rate = plan.training.sampling_rate
    if plan.rows is not None:
        return rate * plan.rows
    assert plan.row_release is not None
    noisy = count + plan.row_release.noise_multiplier * float(np.asarray(noise.normal((1,)))[0])
    return max(1.0, rate * noisy)


def _gradient_source(plan: Plan, noise: Noise, divisor: float) -> GradientSource:
    if not plan.private:
        return NonPrivateStep(plan.training.sampling_rate, plan.recipe.objective, noise, divisor)
    return PrivateStep(plan.training, plan.recipe.clipping, plan.recipe.objective, noise, divisor)


def _warm_start(
    trainer: Trainer,
    plan: Plan,
    part: PublicWarmStart,
    rows: Rows,
    noise: Noise,
    told: Callable[[Progress], None] | None,
) -> None:
    """Train both networks on public rows, without noise: nothing private is read."""
    rate = min(1.0, part.batch / len(rows))
    source = NonPrivateStep(rate, plan.recipe.objective, noise, rate * len(rows))
    for _ in range(part.steps):
        trainer.advance(source, rows)
        if told is not None:
            told(Progress(0, plan.training.steps))


def _warnings(plan: Plan, *, seeded: bool) -> tuple[str, ...]:
    warnings = []
    if not plan.private:
        warnings.append(NO_NOISE)
    if seeded:
        warnings.append(INSECURE_SEED)
    return tuple(warnings)
