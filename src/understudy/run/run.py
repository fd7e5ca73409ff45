"""One run: it pays, asks the door, takes its steps, keeps its state on disk, and hands out the release.

Which rows stand behind the door is the business of `fit`. Where several processes run together, all of them take the
same steps from the same seed and see what the door publishes; the first alone pays and writes.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from understudy.discovery.asking import uncharged_discoveries
from understudy.discovery.discover import discovered
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.ranks import ALONE
from understudy.errors import CheckpointError, Interrupted, PlanError, RanksError
from understudy.release.notes import card_notes
from understudy.release.release import Card, Release, packages_in_use
from understudy.release.weights import weights_to_bytes
from understudy.run.checkpoint import RunState, checkpoint_of, read_checkpoint, save_checkpoint
from understudy.schema import open_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from understudy.discovery.discover import Discovered
    from understudy.door.noise import Noise
    from understudy.door.ranks import Ranks
    from understudy.door.source import Rows
    from understudy.ledger.account import Account
    from understudy.planning import Plan
    from understudy.run.checkpoint import Checkpoints
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Fitter, Losses

__all__ = ["Progress", "Run"]

INSECURE_SEED = "The noise came from a fixed seed, so anyone who knows the seed can remove it."
NO_NOISE = "It was trained without noise, as a baseline."

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """How far a run is; of a private run it depends on nothing private.

    Args:
        done: steps taken.
        total: steps of the plan.
        losses: of this step, for runs that are NOT PRIVATE only.
    """

    done: int
    total: int
    losses: Losses | None = None


class Run:
    """One call of `fit`: pay, discover (if the schema leaves anything open), open, train, release, in this order.

    Args:
        plan: what is decided; it must have been made with a schema.
        account: told before anything is drawn.
        checkpoints: where the state is kept, and whether to go on from it.
        seed: makes the run repeatable and the release NOT PRIVATE.
        device: where networks are trained.
        door: the class of the door; an audit listens with one of its own.
        watch_losses: tell losses; refused for a private run.
        on_progress: called after each step, in the first process.
        ranks: the processes of this run.
        fitter_seed: of what is free; drawn if left out.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        account: Account | None = None,
        checkpoints: Checkpoints | None = None,
        seed: int | None = None,
        device: torch.device | None = None,
        noise: Noise | None = None,
        door: Callable[..., Door] = Door,
        watch_losses: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        ranks: Ranks = ALONE,
        fitter_seed: int | None = None,
    ) -> None:
        if plan.schema is None:
            raise PlanError(
                "this plan was made without a schema, so it cannot be trained: pass a schema to plan()."
            )
        _refuse_missing(plan)
        if watch_losses and plan.private and seed is None:
            raise PlanError(
                "the losses of a private run read records without noise. They can be had of a baseline (--no-privacy), "
                "and on public data of a seeded run (--insecure-seed)."
            )
        if checkpoints is not None and account is None and ranks.first and plan.private and seed is None:
            raise PlanError(
                "a private run with checkpoints needs an account: without a record of what was drawn since the last "
                "checkpoint, a run that goes on after a crash would draw it again. Pass account=LedgerAccount(…)."
            )
        self._watch_losses = watch_losses
        self._plan, self._checkpoints, self._seed, self._ranks = plan, checkpoints, seed, ranks
        self._fitter_seed = seed if fitter_seed is None else fitter_seed
        self._account = account if ranks.first else None
        self._noise: Noise = noise or (SecureNoise() if seed is None else SeededNoise(seed, rank=ranks.rank))
        self._make_door, self._on_progress = door, on_progress if ranks.first else None
        self._device = device or torch.device("cpu")
        self._saved = self._load()
        self._taken = 0 if self._saved is None else self._saved[0].step
        self._discovered: Discovered | None = None if self._saved is None else self._saved[0].discovered
        self._used_before: dict[str, int] = {}
        self._fitter: Fitter
        self._door: Door
        if not open_columns(self.schema):
            self._make_fitter()

    @property
    def schema(self) -> Schema:
        """What records look like: as planned, with whatever was discovered."""
        assert self._plan.schema is not None
        return self._plan.schema if self._discovered is None else self._discovered.schema

    def _make_fitter(self) -> None:
        together = self._fitter_seed is None and self._ranks.size > 1
        seed = self._ranks.shared_seed() if together else self._fitter_seed
        self._fitter = self._plan.recipe.fitter(self.schema, seed=seed, device=self._device)

    def _load(self) -> tuple[RunState, dict[str, Tensor]] | None:
        if self._checkpoints is None or not self._checkpoints.resume:
            return None
        path, blob = self._checkpoints.path, b""
        with self._ranks.agreed():
            blob = read_checkpoint(path) if self._ranks.first else blob
        state, tensors = checkpoint_of(path, self._ranks.shared_bytes(blob))
        if state.plan != self._plan:
            raise CheckpointError(f"{self._checkpoints.path} belongs to a run with another plan.")
        if (state.draws is None) != (self._seed is None):
            raise CheckpointError(
                "a seeded run cannot go on without its seed, nor a private one with a seed."
            )
        if self._seed is not None:
            self._noise = SeededNoise(self._seed, state.draws or 0, self._ranks.rank)
        return state, tensors

    def pay(self) -> None:
        """Reserve the plan, or take up the entry of the interrupted run, before a row is read in any process."""
        with self._ranks.agreed():
            self._pay()

    def _pay(self) -> None:
        if self._account is None:
            return
        if self._saved is None:
            self._account.reserve(self._plan)
            return
        assert self._checkpoints is not None
        state, free = self._saved[0], self._plan.sampled is None
        charged = self._account.resume(state.entry, 0 if free else state.step, self._checkpoints.every)
        self._taken = self._taken if free else charged

    @property
    def taken(self) -> int:
        """Steps that lie behind, counting those that a crash lost."""
        return self._taken

    def give_back(self) -> None:
        """Nothing was drawn and nothing will be: the reservation is not needed."""
        if self._account is not None and self._saved is None:
            self._account.cancel()

    def discover(self, rows: Rows) -> None:
        """Find out what the schema leaves open; after a resume it is known, and nothing is asked again.

        Args:
            rows: PRIVATE: made by `undescribed_rows`.
        """
        if self._discovered is None:
            door = self._door_to(rows)
            self._discovered = discovered(door, self.schema)
            self._used_before = door.used
            self._make_fitter()

    def _door_to(self, rows: Rows) -> Door:
        plan = self._plan
        return self._make_door(
            rows,
            plan.run_charges,
            self._noise,
            private=plan.private,
            insecure=self._seed is not None,
            rows=plan.rows,
            account=self._account,
            used=self._used(),
            ranks=self._ranks,
        )

    def open(self, rows: Rows, public: Rows | None) -> None:
        """Put the rows behind a door and ask what is needed before the first step, or go on from the checkpoint."""
        self._door = self._door_to(rows)
        if self._watch_losses:
            self._door.watch()
        if self._saved is None:
            self._fitter.begin(self._door, public, self._tick)
        else:
            self._fitter.restore(self._saved[1])
            self._door.counted = self._saved[0].counted
        self._save()  # also after a resume: the steps that a crash lost are behind this state now

    def _used(self) -> dict[str, int]:
        """How often each purpose was drawn before; after a resume by the record of it, wherever there is one.

        The first process knows the record and tells the others, which take up the run at the same step.
        """
        if self._saved is None:
            return dict(self._used_before)
        told = json.dumps([self._taken, self._own_used()]).encode()
        self._taken, used = json.loads(self._ranks.shared_bytes(told))
        return dict(used)

    def _own_used(self) -> dict[str, int]:
        assert self._saved is not None
        used = dict(self._saved[0].used)
        if self._account is not None:
            for purpose, count in self._account.draws.items():
                used[purpose] = max(count, used.get(purpose, 0))
        if self._plan.sampled is not None:
            used[self._plan.sampled.purpose] = self._taken
        return used

    def _tick(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(0, self._plan.steps))

    def train(
        self, public: Rows | None, stop: Callable[[], bool] | None = None, until: int | None = None
    ) -> None:
        """Take the steps that are left (until some step), each private one charged before it is drawn."""
        total = self._plan.steps
        for step in range(self._taken + 1, (until or total) + 1):
            if not self._ranks.first and self._plan.sampled is None and not self.owing:
                return  # what is left is free, and the first process does it
            asked = sum(self._door.used.values())
            self._advance_or_keep(public)
            self._taken = step
            if self._on_progress is not None:
                self._on_progress(Progress(step, total, self._fitter.losses))
            published = self._plan.sampled is None and sum(self._door.used.values()) > asked
            if self._checkpoints is not None and (step % self._checkpoints.every == 0 or published):
                self._save()
            settled = self._account is None or self._account.settled
            asked_to = step < total and settled and stop is not None and stop()
            if self._ranks.shared_answer(asked_to) if self._with_others else asked_to:
                self._save()
                raise Interrupted(
                    f"stopped after {step:,} of {total:,} steps, as asked; go on with --resume."
                )
        self._save()  # so that a crash between closing the account and saving the release loses nothing

    @property
    def _with_others(self) -> bool:
        """Whether other processes take the same steps."""
        return self._ranks.size > 1 and (self._plan.sampled is not None or self.owing)

    def _advance_or_keep(self, public: Rows | None) -> None:
        """One step; if a process is lost meanwhile, the state is kept, and a step that was charged counts as taken."""
        try:
            self.advance(public)
        except RanksError:
            if self._plan.sampled is not None:
                self._taken = max(self._taken, self._door.used.get(self._plan.sampled.purpose, 0))
            self._save()
            raise

    @property
    def owing(self) -> bool:
        """Whether the recipe has not yet asked for all that it declares."""
        asked = self._plan.recipe.releases(self._plan.schema, self._plan.rows)
        return any(self._door.left(one.purpose) for one in asked)

    def advance(self, public: Rows | None) -> None:
        """One step of the fitter."""
        self._fitter.advance(self._door, public)

    def _save(self) -> None:
        """Write the state; where the disk refuses, say so and go on: stopping would lose what was drawn."""
        if self._checkpoints is None or not self._ranks.first:
            return
        state = RunState(
            plan=self._plan,
            step=self._taken,
            used=dict(self._door.used),
            discovered=self._discovered,
            counted=self._door.counted,
            draws=self._noise.draws if isinstance(self._noise, SeededNoise) else None,
            entry=self._account.entry if self._account is not None else None,
        )
        try:
            save_checkpoint(self._checkpoints.path, state, self._fitter.state())
        except CheckpointError as problem:
            _log.warning("%s The run goes on; until this is mended, a crash would lose it.", problem)

    def state(self) -> dict[str, Tensor]:
        """A copy of all that a checkpoint holds."""
        weights = torch.tensor(self._fitter.label_weights or (), dtype=torch.float64)
        held: Mapping[str, Tensor] = self._fitter.state()
        return {"label-weights": weights} | {name: value.clone() for name, value in held.items()}

    def release(self, public_source: str | None, stage: Plan | None = None) -> Release:
        """Hand out the model with its card, which may be that of a stage; the account is closed by the last."""
        weights = {name: one.detach().cpu().numpy() for name, one in self._fitter.released().items()}
        head = None
        if self._account is not None and stage in (None, self._plan):
            head = self._account.finish(hashlib.sha256(weights_to_bytes(weights)).hexdigest())
        plan = stage or self._plan
        card = Card(
            plan=plan,
            discovered=None if self._discovered is None else self.schema,
            label_weights=self._fitter.label_weights,
            warnings=_warnings(plan, seeded=self._seed is not None),
            notes=card_notes(
                plan,
                self._door.counted or 1.0,
                () if self._discovered is None else self._discovered.unseen,
            ),
            public_source=public_source,
            ledger_head=head,
            packages=packages_in_use(),
        )
        return Release(card, weights)


def _refuse_missing(plan: Plan) -> None:
    """Refuse a plan that lacks a charge, before anything is drawn; how often it is charged, the door counts."""
    charged = {one.purpose for one in plan.run_charges}
    asked = [one.purpose for one in plan.recipe.releases(plan.schema, plan.rows)]
    missing = [purpose for purpose in asked if plan.private and purpose not in charged]
    missing += uncharged_discoveries(plan.schema, plan.run_charges) if plan.private else ()
    if missing:
        raise PlanError(
            f"recipe {plan.recipe.name!r} asks for the {', the '.join(missing)}, which the plan does not charge. "
            "Make a new plan."
        )


def _warnings(plan: Plan, *, seeded: bool) -> tuple[str, ...]:
    found = [(not plan.private, NO_NOISE), (seeded, INSECURE_SEED)]
    return tuple(text for holds, text in found if holds)
