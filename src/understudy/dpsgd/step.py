"""Gradients of a critic, or of any model with a loss for each record: clipped, and summed and noised at a door.

What leaves `NoisyGradients.step` is a noisy gradient; anything done with it afterwards (Adam, averaging, clamping) is
post-processing. Fakes, their labels and their number are public: their gradient is computed apart and added after the
noise, so that it shares neither memory nor a matrix product with private records.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from understudy.door.source import Rows
from understudy.dpsgd import memory
from understudy.dpsgd.batch import CriticBatch
from understudy.dpsgd.clipping import (
    GlobalClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
)
from understudy.dpsgd.gradients import clipped_sum, fakes_part, mean_norms
from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.losses import fake_loss, penalty_weight, record_losses
from understudy.dpsgd.objectives import Objective
from understudy.errors import PlanError
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from understudy.door.door import Door
    from understudy.door.query import Batch, Chance
    from understudy.dpsgd.batch import ClippedSum, FakesPart
    from understudy.dpsgd.clipping import Clipping, ConcreteClip
    from understudy.dpsgd.critics import Critic
    from understudy.dpsgd.losses import Loss

__all__ = ["NO_FAKES", "ClippedGradients", "CriticStep", "NoisyGradients", "critic_batch"]

NO_FAKES = Rows(torch.zeros(0))
"""For models that are no critics."""

_ONE_BATCH = 2**62
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class CriticStep:
    """What an audit needs to attack a step: the critic with its loss and rule, and the expected batch."""

    critic: Critic
    objective: Objective
    clipping: Clipping
    batch: int


class ClippedGradients:
    """The sum of the records' clipped gradients: a query for one Poisson batch.

    Where persons have several records, the gradient of the mean loss of a person's records is clipped as one. It keeps
    more of its length than the mean of gradients that were clipped one by one, which may point apart.

    Where the rule follows a quantile, how many records are within the bound is part of the same vector, weighted so
    that one scale of noise suits both (`QuantileAdaptiveClip`).

    Args:
        critic: the model; it is not changed.
        objective: the loss of a record.
        rule: how a record's influence is bounded; it gives the sensitivity.
        fakes: rows and labels that records are paired with.
        microbatches: how many there are, for `MicrobatchClip`.
        count_weight: the weight of the count, or None without one.
        work: calls the computation, in pieces where memory runs out.
        watched: keep the mean loss of the records in `loss`, without noise: NOT PRIVATE.
        rows_at_once: how many records a door that walks over all of them hands over at a time.
    """

    def __init__(
        self,
        critic: nn.Module,
        objective: Loss,
        rule: ConcreteClip,
        fakes: tuple[Tensor, Tensor | None],
        *,
        microbatches: int | None = None,
        count_weight: float | None = None,
        work: Callable[[Callable[..., ClippedSum]], ClippedSum] | None = None,
        watched: bool = False,
        rows_at_once: int = _ONE_BATCH,
    ) -> None:
        self.rows_at_once = rows_at_once
        self._critic, self._objective, self._rule = critic, objective, rule
        self._trained = trained_parameters(critic)
        self.fakes, self._microbatches, self._weight = fakes, microbatches, count_weight
        self.fake_values: Tensor | None = None
        self.watched = watched
        self._begun = False
        self._work = work
        self.loss: float | None = None
        own = rule.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)
        self.sensitivity = own if count_weight is None else math.hypot(own, count_weight / 2)

    def zero(self) -> list[Tensor]:
        """No records."""
        self._begun = False
        sums = [self._nothing(one) for one in self._trained.values()]
        return sums if self._weight is None else [*sums, torch.zeros(1, dtype=torch.float64)]

    def _nothing(self, like: Tensor) -> Tensor:
        """Zeros that take no memory where there is one batch, perhaps an empty one, which brings its own."""
        if self.rows_at_once < _ONE_BATCH:
            return torch.zeros(like.shape, dtype=torch.float64, device=like.device)
        return torch.zeros((), dtype=torch.float64, device=like.device).expand(like.shape)

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the clipped gradients of a batch, of whole persons where it tells them apart."""
        records = critic_batch(
            batch.x,
            batch.labels,
            self.fakes,
            batch.chance,
            coupled=self._rule.paired or bool(penalty_weight(self._objective)),
            microbatches=self._microbatches,
            persons=batch.persons,
        )
        records = replace(records, fake_values=self.fake_values)
        if self.watched and len(batch):
            with torch.no_grad():
                outputs = self._critic(records.real, records.real_labels)
                found = record_losses(self._objective, outputs, records.real, records.real_labels)
            self.loss = float(found.mean())
        summed = partial(clipped_sum, self._critic, self._objective, records, self._rule)
        total = summed() if self._work is None else self._work(summed)
        for place, name in enumerate(self._trained):
            sums[place] = total.gradients[name].add_(sums[place]) if self._begun else total.gradients[name]
        self._begun = True
        if self._weight is not None:
            sums[-1] += self._weight * total.shifted_count

    def add_persons(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the clipped gradients of the persons of a batch."""
        self.add(sums, batch)


class NoisyGradients:
    """Noisy mean gradients of a critic or another model, one for every step that the door allows.

    Args:
        purpose: the charge that pays for the steps.
        clipping: the rule; it gives the sensitivity.
        objective: the loss.
        divisor: the public number by which sums are divided, usually the expected batch q·N.
        bound: the current bound of a `QuantileAdaptiveClip` (after a resume).
    """

    def __init__(
        self,
        purpose: str,
        clipping: Clipping,
        objective: Loss,
        divisor: float,
        *,
        bound: float | None = None,
    ) -> None:
        if not (math.isfinite(divisor) and divisor > 0):
            raise PlanError(f"the divisor must be a positive public number, got {divisor}.")
        self.purpose, self.clipping, self.objective, self.divisor = purpose, clipping, objective, divisor
        self.bound = bound
        if isinstance(clipping, QuantileAdaptiveClip) and bound is None:
            self.bound = clipping.first_bound
        self._records_at_once, self._fakes_at_once = memory.Pieces(divisor), memory.Pieces(divisor)
        self.loss: float | None = None

    def step(
        self, door: Door, critic: nn.Module, fakes: Rows = NO_FAKES, public: Rows | None = None
    ) -> dict[str, Tensor]:
        """One noisy mean gradient of the model's loss, by parameter name.

        Args:
            door: what holds the records; it draws the batch and the noise.
            critic: the model; it is not changed.
            fakes: a public number of generated rows for a critic, drawn afresh for each step.
            public: declared public records, needed by `PublicAdaptiveClip` only.

        Raises:
            PlanError: records are to be paired with fakes and there are none, or there are fakes and no loss for them.
            BudgetError: all steps of the plan were taken.
            OutOfMemory: the step does not fit in memory, not even row by row. It counts as taken.
        """
        _check_fakes(self.objective, self.clipping, len(fakes))
        with memory.explained():
            like = next(critic.parameters()).detach()
            rule = self._rule_of_this_step(door, critic, fakes, public, like)
            divisor = self.divisor / rule.unit
            weight = self._count_weight(door, rule)
            query = ClippedGradients(
                critic,
                self.objective,
                rule,
                fakes.all(like),
                microbatches=math.ceil(divisor) if isinstance(rule, MicrobatchClip) else None,
                count_weight=weight,
                work=self._records_at_once.of,
                watched=door.watched,
            )
            free = None
            if not rule.paired and len(fakes):  # post-processing: in no sum and no product with a record
                assert isinstance(self.objective, Objective)
                work = partial(fakes_part, critic, self.objective, *query.fakes, rule)
                free = self._of_fakes(work)
                query.fake_values = free.values
            seen = door.step(self.purpose, query, like)
            self._follow_quantile(seen.values, weight)
            self.loss = _whole_loss(query, critic, self.objective, len(fakes)) if door.watched else None
            mean = {
                name: one.div_(divisor).to(like.dtype)
                for name, one in zip(trained_parameters(critic), seen.values, strict=False)
            }
            for name, gradient in ({} if free is None else free.gradients).items():
                mean[name] += gradient
            return mean

    def _of_fakes(self, work: Callable[..., FakesPart]) -> FakesPart:
        """The fakes' part, in pieces where memory runs out; of records nothing is said, because that would tell."""
        before = self._fakes_at_once.rows
        free = self._fakes_at_once.of(work)
        if self._fakes_at_once.rows != before:
            _log.warning(
                "memory ran out: fakes now go through the critic in pieces of %d rows, which gives the same result and "
                "takes longer. A smaller batch would fit at once.",
                self._fakes_at_once.rows,
            )
        return free

    def _count_weight(self, door: Door, rule: ConcreteClip) -> float | None:
        """The weight w of the count at which noise σ·√(C² + w²/4) has the deviation `count_noise` on it."""
        if not isinstance(self.clipping, QuantileAdaptiveClip):
            return None
        sigma = door.sigma(self.purpose)
        own = rule.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)
        return own * self.clipping.gradient_multiplier(sigma) / self.clipping.count_noise if sigma else 1.0

    def _rule_of_this_step(
        self, door: Door, critic: nn.Module, fakes: Rows, public: Rows | None, like: Tensor
    ) -> ConcreteClip:
        if isinstance(self.clipping, QuantileAdaptiveClip):
            assert self.bound is not None
            return GlobalClip(self.bound)
        if isinstance(self.clipping, PublicAdaptiveClip):
            if public is None or not len(public):
                raise PlanError(
                    "PublicAdaptiveClip takes its bounds from public records, and none were given."
                )
            paired = self.clipping.paired
            rows, most, coins = len(public), self.clipping.batch, door.public_chance
            chosen = torch.arange(rows) if rows <= most else coins.integers(rows, most)
            coupled = paired or bool(penalty_weight(self.objective))
            batch = critic_batch(*public.take(chosen, like), fakes.all(like), coins, coupled=coupled)
            return self.clipping.adapted(mean_norms(critic, self.objective, batch, joint=paired))
        return self.clipping

    def _follow_quantile(self, values: tuple[Tensor, ...], weight: float | None) -> None:
        """Move the bound by the noisy shifted count, which is part of what the step published."""
        if isinstance(self.clipping, QuantileAdaptiveClip):
            assert self.bound is not None
            assert weight is not None
            self.bound = self.clipping.next_bound(self.bound, float(values[-1]) / weight, self.divisor)


@torch.no_grad()
def _whole_loss(query: ClippedGradients, critic: nn.Module, objective: Loss, fakes: int) -> float | None:
    """The critic's mean loss on the batch and on the fakes, as `PlainGradients` has it: NOT PRIVATE."""
    if query.loss is None or not fakes:
        return query.loss
    assert isinstance(objective, Objective)
    return query.loss + float(fake_loss(objective, critic(*query.fakes).reshape(-1)).mean())


def _check_fakes(objective: Loss, clipping: Clipping, fakes: int) -> None:
    if not fakes and (clipping.paired or penalty_weight(objective)):
        raise PlanError(
            f"{clipping} with {objective} pairs every record with a fake, and no fakes were given."
        )
    if fakes and not isinstance(objective, Objective):
        raise PlanError(
            f"{objective} has no loss for fakes, which only the objective of a critic has; give none."
        )


def critic_batch(
    records: Tensor,
    labels: Tensor | None,
    fakes: tuple[Tensor, Tensor | None],
    chance: Chance,
    *,
    coupled: bool,
    microbatches: int | None = None,
    persons: Tensor | None = None,
) -> CriticBatch:
    """Records, each with a partner, a mixing coefficient and a microbatch of its own where needed.

    All three are drawn for each record (the microbatch for each person) independently of the others: the presence of
    one does not change what the others are paired with.

    Args:
        records: PRIVATE rows, on the device of the critic.
        labels: PRIVATE, their classes.
        fakes: rows and labels to be paired with.
        chance: coins.
        coupled: whether records need partners and mixing coefficients.
        microbatches: how many there are, or None.
        persons: for each record the number of its person, or None if every record is a person of its own.
    """
    rows, like = len(records), records
    mixing, partner = None, None
    if coupled:
        mixing = chance.uniform((rows,)).to(like)
        partner = chance.integers(max(len(fakes[0]), 1), rows).to(like.device)
    sizes = None if persons is None else torch.bincount(persons)
    bins = None
    if microbatches is not None:
        bins = chance.integers(microbatches, rows if sizes is None else len(sizes))
        bins = (bins if persons is None else bins[persons]).to(like.device)
    return CriticBatch(
        real=records,
        real_labels=labels,
        fake=fakes[0],
        fake_labels=fakes[1],
        mixing=mixing,
        partner=partner,
        microbatch=bins,
        persons=None if persons is None else persons.to(like.device),
        weights=None if persons is None or sizes is None else (1.0 / sizes)[persons].to(like),
    )
