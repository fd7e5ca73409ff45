"""A run of training: it pays, publishes, takes its steps, keeps its state on disk, and hands out the release.

There are two kinds. A `CriticRun` sees private rows in every step, through noisy gradients; a `StatisticRun` sees them
once, through what it publishes at the start. Which rows they are is the business of `fitting`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from understudy.door.noise import SecureNoise, SeededNoise
from understudy.dpsgd.mechanism import PrivateStep
from understudy.dpsgd.nonprivate import NonPrivateStep
from understudy.errors import CheckpointError, Interrupted
from understudy.recipes.parts import FixedCriticSteps, NoisyCodeCounts, NoisyMarginals, PublicWarmStart
from understudy.release.release import Card, Release, packages_in_use
from understudy.release.weights import weights_to_bytes
from understudy.run.checkpoint import Checkpoints, RunState, load_checkpoint, save_checkpoint
from understudy.synthesizers.codes.fit import CodeApprentice
from understudy.synthesizers.codes.publishing import publish_codes
from understudy.synthesizers.embedding.fit import Apprentice
from understudy.synthesizers.gan.fit import Trainer
from understudy.synthesizers.gan.schedule import Turns
from understudy.synthesizers.marginals.fit import TableApprentice
from understudy.synthesizers.marginals.publishing import publish_marginals
from understudy.synthesizers.shared.publishing import (
    label_weights,
    mean_embedding,
    row_count,
    trained_teacher,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.ledger.account import Account
    from understudy.planning import Plan

__all__ = ["CriticRun", "Losses", "Progress", "Run", "StatisticRun"]

INSECURE_SEED = "The noise came from a fixed seed, so anyone who knows the seed can remove it."
NO_NOISE = "It was trained without noise, as a baseline."


@dataclass(frozen=True)
class Losses:
    """Mean losses of one step of a baseline without privacy; the critic's reads records without noise."""

    critic: float
    generator: float


@dataclass(frozen=True)
class Progress:
    """How far a run is; of a private run it depends on nothing private.

    Args:
        done: steps taken.
        total: steps of the plan.
        losses: of this step, for baselines without privacy only.
    """

    done: int
    total: int
    losses: Losses | None = None


@dataclass(frozen=True)
class _Published:
    """What was released before training: drawn once, kept in the checkpoint, never drawn again.

    Args:
        label_weights: class frequencies.
        divisor: the number that sums are divided by: an expected batch, or the number of rows.
    """

    label_weights: tuple[float, ...] | None
    divisor: float


class Run(ABC):
    """One call of `fit`: pay, prepare, train, release, in this order."""

    def __init__(
        self,
        plan: Plan,
        account: Account | None,
        checkpoints: Checkpoints | None,
        seed: int | None,
        device: torch.device | None = None,
    ) -> None:
        assert plan.schema is not None
        self._device = device
        self._plan = plan
        self._schema = plan.schema
        self._account = account
        self._checkpoints = checkpoints
        self._seed = seed
        self._noise: Noise = SecureNoise() if seed is None else SeededNoise(seed)
        self._saved = self._load()
        self._taken = 0 if self._saved is None else self._saved[0].step
        self._published: _Published

    def _load(self) -> tuple[RunState, dict[str, Tensor]] | None:
        if self._checkpoints is None or not self._checkpoints.resume:
            return None
        state, tensors = load_checkpoint(self._checkpoints.path)
        if state.plan != self._plan:
            raise CheckpointError(f"{self._checkpoints.path} belongs to a run with another plan.")
        if (state.draws is None) != (self._seed is None):
            raise CheckpointError(
                "a seeded run cannot go on without its seed, nor a private one with a seed."
            )
        if self._seed is not None:
            self._noise = SeededNoise(self._seed, state.draws or 0)
        return state, tensors

    def replace_noise(self, noise: Noise) -> None:
        """Take noise from another source; for rehearsals."""
        self._noise = noise

    def revealed(self) -> dict[str, Tensor]:
        """A copy of all that a checkpoint holds."""
        weights = self._published.label_weights
        published = {
            "published:divisor": torch.tensor(self._published.divisor, dtype=torch.float64),
            "published:label-weights": torch.tensor(weights or (), dtype=torch.float64),
        }
        return published | {name: value.clone() for name, value in self._learner().state().items()}

    def pay(self) -> None:
        """Reserve the plan, or take up the entry of the interrupted run, before a row is read."""
        if self._account is None:
            return
        if self._saved is None:
            self._account.reserve(self._plan)
        else:
            assert self._checkpoints is not None
            self._take_up(self._account, self._saved[0], self._checkpoints.every)

    def give_back(self) -> None:
        """The rows cannot be read, so nothing will be drawn: the reservation is not needed."""
        if self._account is not None and self._saved is None:
            self._account.cancel()

    def prepare(self, rows: Rows, public: Rows | None, told: Callable[[Progress], None] | None) -> None:
        """Publish what is needed before training and build the networks, or restore both."""
        if self._saved is not None:
            state, tensors = self._saved
            self._published = _Published(state.label_weights, state.divisor)
            self._restore(state, tensors)
            return
        if self._account is not None:
            self._account.announce()
        self._begin(rows, public, told)
        self._save()

    def train(
        self,
        rows: Rows,
        public: Rows | None,
        stop: Callable[[], bool] | None,
        told: Callable[[Progress], None] | None,
        until: int | None = None,
    ) -> None:
        """Take the steps that are left (until some step), each private one charged before it is drawn."""
        total = self._plan.steps
        for step in range(self._taken + 1, (until or total) + 1):
            self.advance(rows, public)
            self._taken = step
            if told is not None:
                told(Progress(step, total, self._losses()))
            if self._checkpoints is not None and step % self._checkpoints.every == 0:
                self._save()
            settled = self._account is None or self._account.settled
            if step < total and settled and stop is not None and stop():
                self._save()
                raise Interrupted(
                    f"stopped after {step:,} of {total:,} steps, as asked; go on with --resume."
                )
        self._save()  # so that a crash between closing the account and saving the release loses nothing

    def _save(self) -> None:
        if self._checkpoints is None:
            return
        state = RunState(
            plan=self._plan,
            step=self._drawn(),
            label_weights=self._published.label_weights,
            divisor=self._published.divisor,
            bound=self._bound(),
            draws=self._noise.draws if isinstance(self._noise, SeededNoise) else None,
            entry=self._account.entry if self._account is not None else None,
        )
        save_checkpoint(self._checkpoints.path, state, self._learner().state())

    def release(self, public_source: str | None, stage: Plan | None = None) -> Release:
        """Close the account and hand out the generator with its card, which may be that of a stage."""
        weights = self._learner().released_weights()
        head = None
        if self._account is not None:
            head = self._account.finish(hashlib.sha256(weights_to_bytes(weights)).hexdigest())
        card = Card(
            plan=stage or self._plan,
            label_weights=self._published.label_weights,
            warnings=_warnings(self._plan, seeded=self._seed is not None),
            public_source=public_source,
            ledger_head=head,
            packages=packages_in_use(),
        )
        return Release(card, weights)

    @abstractmethod
    def _take_up(self, account: Account, state: RunState, every: int) -> None:
        """Claim the entry of the interrupted run."""

    @abstractmethod
    def _begin(self, rows: Rows, public: Rows | None, told: Callable[[Progress], None] | None) -> None:
        """Publish what is needed before training and build the networks."""

    @abstractmethod
    def _restore(self, state: RunState, tensors: dict[str, Tensor]) -> None:
        """Build the networks as they were."""

    @abstractmethod
    def advance(self, rows: Rows, public: Rows | None) -> None:
        """One step of training."""

    @abstractmethod
    def _learner(self) -> Trainer | Apprentice | TableApprentice | CodeApprentice:
        """What holds the networks."""

    @abstractmethod
    def _drawn(self) -> int:
        """The number of the last step, counting those that a crash lost."""

    def _bound(self) -> float | None:
        """The current bound of a quantile-adaptive rule."""
        return None

    def _losses(self) -> Losses | None:
        """What the last step's losses were, of a baseline without privacy."""
        return None


class CriticRun(Run):
    """Training against a critic that sees private records through noisy gradients."""

    def _take_up(self, account: Account, state: RunState, every: int) -> None:
        self._taken = account.resume(state.entry, state.step, every)

    def _begin(self, rows: Rows, public: Rows | None, told: Callable[[Progress], None] | None) -> None:
        recipe = self._plan.recipe
        count = row_count(self._plan, len(rows), self._noise)
        weights = label_weights(self._plan, self._schema, rows, self._noise)
        divisor = self._plan.training.sampling_rate * count
        self._published = _Published(weights, divisor if self._plan.rows is not None else max(1.0, divisor))
        self._trainer = Trainer(recipe, self._schema, weights, self._seed, self._device)
        if public is not None and isinstance(recipe.warm_start, PublicWarmStart):
            _warm_start(self._trainer, self._plan, recipe.warm_start, public, self._noise, told)
        self._source = self._gradients(None)

    def _restore(self, state: RunState, tensors: dict[str, Tensor]) -> None:
        weights = state.label_weights
        self._trainer = Trainer(self._plan.recipe, self._schema, weights, self._seed, self._device)
        self._trainer.restore(tensors)
        self._source = self._gradients(state.bound)

    def _gradients(self, bound: float | None) -> PrivateStep | NonPrivateStep:
        recipe, divisor = self._plan.recipe, self._published.divisor
        if not self._plan.private:
            rate = self._plan.training.sampling_rate
            return NonPrivateStep(rate, recipe.objective, self._noise)
        return PrivateStep(
            self._plan.training,
            recipe.clipping,
            recipe.objective,
            self._noise,
            divisor,
            taken=self._taken,
            bound=bound,
        )

    def advance(self, rows: Rows, public: Rows | None) -> None:
        """One private step, on record before it is drawn."""
        if self._account is not None:
            self._account.charge()
        self._trainer.advance(self._source, rows, public)

    def _learner(self) -> Trainer:
        return self._trainer

    def _drawn(self) -> int:
        return self._source.taken if self._plan.private else self._trainer.steps

    def _bound(self) -> float | None:
        return self._source.bound if isinstance(self._source, PrivateStep) else None

    def _losses(self) -> Losses | None:
        if isinstance(self._source, PrivateStep):
            return None
        return Losses(self._source.loss, self._trainer.generator_loss)


class StatisticRun(Run):
    """Training on a private statistic that is published at the start; all steps after that are free."""

    def _take_up(self, account: Account, state: RunState, every: int) -> None:
        account.resume(state.entry, 0, every)

    def _begin(self, rows: Rows, public: Rows | None, told: Callable[[Progress], None] | None) -> None:
        del public, told  # nothing here learns from public rows
        plan, schema, noise = self._plan, self._schema, self._noise
        count = row_count(plan, len(rows), noise)
        weights = label_weights(plan, schema, rows, noise)
        self._published = _Published(weights, count)
        self._apprentice: Apprentice | TableApprentice | CodeApprentice
        match plan.recipe.statistic:
            case NoisyMarginals():
                marginals = publish_marginals(plan, schema, rows, weights, count, noise)
                self._apprentice = TableApprentice(plan.recipe, schema, marginals, self._seed)
            case NoisyCodeCounts():
                statistics = publish_codes(plan, schema, rows, weights, count, noise)
                self._apprentice = CodeApprentice(plan.recipe, schema, statistics, self._seed)
            case _:
                assert weights is not None
                means = mean_embedding(plan, schema, rows, weights, count, noise)
                teacher = trained_teacher(plan, schema, rows, count, noise)
                self._apprentice = Apprentice(plan.recipe, schema, means, teacher, self._seed, self._device)

    def _restore(self, state: RunState, tensors: dict[str, Tensor]) -> None:
        del state  # what was published is among the tensors
        recipe, schema = self._plan.recipe, self._schema
        match recipe.statistic:  # tables and codes take seconds on any machine, so always on the CPU
            case NoisyMarginals():
                self._apprentice = TableApprentice.restored(recipe, schema, tensors, self._seed)
            case NoisyCodeCounts():
                self._apprentice = CodeApprentice.restored(recipe, schema, tensors, self._seed)
            case _:
                self._apprentice = Apprentice.restored(recipe, schema, tensors, self._seed, self._device)

    def advance(self, rows: Rows, public: Rows | None) -> None:
        """One free step, which looks at no rows."""
        del rows, public
        self._apprentice.advance()

    def _learner(self) -> Apprentice | TableApprentice | CodeApprentice:
        return self._apprentice

    def _drawn(self) -> int:
        return self._apprentice.steps


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
    source = NonPrivateStep(rate, plan.recipe.objective, noise)
    turns = None if part.critic_steps is None else Turns(FixedCriticSteps(part.critic_steps))
    for _ in range(part.steps):
        trainer.advance(source, rows, turns=turns)
        if told is not None:
            told(Progress(0, plan.steps))


def _warnings(plan: Plan, *, seeded: bool) -> tuple[str, ...]:
    warnings = []
    if not plan.private:
        warnings.append(NO_NOISE)
    if seeded:
        warnings.append(INSECURE_SEED)
    return tuple(warnings)
