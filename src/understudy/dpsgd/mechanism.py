"""One private step: sample, clip, sum, add noise, divide, add the fakes. The only place where the pieces meet.

The numbers that sample and that scale the noise are fields of the very `SubsampledGaussian` whose event the
accountant reads; there is no second copy. What leaves `PrivateStep.step` is a noisy gradient; anything
done with it afterwards (Adam, averaging, clamping) is post-processing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from understudy.door.poisson import poisson_indices
from understudy.dpsgd import memory
from understudy.dpsgd.batch import CriticBatch
from understudy.dpsgd.clipping import (
    GlobalClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
)
from understudy.dpsgd.gradients import clipped_sum, fakes_part, mean_norms
from understudy.dpsgd.losses import penalty_weight
from understudy.errors import BudgetError, PlanError

if TYPE_CHECKING:
    import dp_accounting
    from torch import Tensor, nn

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.dpsgd.batch import ClippedSum, FakesPart
    from understudy.dpsgd.clipping import Clipping, ConcreteClip
    from understudy.dpsgd.objectives import Objective
    from understudy.privacy.mechanisms import SubsampledGaussian

__all__ = ["PrivateStep", "draw_batch"]

_log = logging.getLogger(__name__)


class PrivateStep:
    """T noisy critic gradients from private records, and not one more.

    Args:
        mechanism: q, σ, T and the batch cap; what the accountant reads.
        clipping: the rule; it gives the sensitivity.
        objective: the loss.
        noise: the source of the noise and of the sampling; `SecureNoise()` unless this is a test.
        divisor: the public number by which the sum is divided, usually the expected batch q·N.
        taken: how many steps were taken before (after a resume).
        bound: the current bound of a `QuantileAdaptiveClip` (after a resume).
    """

    def __init__(
        self,
        mechanism: SubsampledGaussian,
        clipping: Clipping,
        objective: Objective,
        noise: Noise,
        divisor: float,
        *,
        taken: int = 0,
        bound: float | None = None,
    ) -> None:
        if mechanism.noise_multiplier <= 0:
            raise PlanError(
                "a private step needs a positive noise multiplier; for a baseline without privacy use "
                "NonPrivateStep."
            )
        if not (math.isfinite(divisor) and divisor > 0):
            raise PlanError(f"the divisor must be a positive public number, got {divisor}.")
        self.mechanism = mechanism
        self.clipping = clipping
        self.objective = objective
        self.noise = noise
        self.divisor = divisor
        self.taken = taken
        self.bound = bound
        self._pieces: int | None = None
        self._gradient_multiplier = mechanism.noise_multiplier
        if isinstance(clipping, QuantileAdaptiveClip):
            self.bound = clipping.first_bound if bound is None else bound
            self._gradient_multiplier = clipping.gradient_multiplier(mechanism.noise_multiplier)

    @property
    def private(self) -> bool:
        """Whether the noise comes from a source that may be called private."""
        return self.noise.private

    def event(self) -> dp_accounting.DpEvent:
        """What all T steps cost: exactly the mechanism's event."""
        return self.mechanism.event()

    def step(
        self, critic: nn.Module, records: Rows, fakes: Rows, public: Rows | None = None
    ) -> dict[str, Tensor]:
        """One noisy mean gradient of the critic's loss, by parameter name.

        Args:
            critic: the model; it is not changed.
            records: all private records; this draws its own batch from them.
            fakes: a public number of generated rows, drawn afresh for each step.
            public: declared public records, needed by `PublicAdaptiveClip` only.

        Raises:
            BudgetError: all T steps of the mechanism were taken.
            PlanError: the batch cap was accounted for fewer records than there are. Nothing was drawn.
            OutOfMemory: the step does not fit in memory, not even row by row. It counts as taken.
        """
        if self.taken >= self.mechanism.steps:
            raise BudgetError(
                f"all {self.mechanism.steps} steps of the plan were taken; one more would not be covered by "
                "the budget. Plan more steps before training."
            )
        if self.mechanism.batch_cap is not None and len(records) > (self.mechanism.rows or 0):
            raise PlanError(
                f"the batch cap was accounted for at most {self.mechanism.rows:,} records and there are more, "
                "which cut batches more often. Plan with a larger number of rows, or without a cap."
            )
        self.taken += 1
        with memory.explained():
            return self._step(critic, records, fakes, public)

    def _step(self, critic: nn.Module, records: Rows, fakes: Rows, public: Rows | None) -> dict[str, Tensor]:
        rule = self._rule_of_this_step(critic, fakes, public)
        unit_divisor = self.divisor / rule.unit
        indices = poisson_indices(
            len(records), self.mechanism.sampling_rate, self.noise, self.mechanism.batch_cap
        )
        bins = math.ceil(unit_divisor) if isinstance(rule, MicrobatchClip) else None
        batch = draw_batch(
            critic,
            self.objective,
            records,
            indices,
            fakes,
            self.noise,
            paired=rule.paired,
            microbatches=bins,
        )
        total, free = self._parts(critic, batch, rule)
        self._follow_quantile(total)
        noisy = self._noisy_mean(total, unit_divisor)
        released = {name: gradient.to(batch.fake.dtype) for name, gradient in noisy.items()}
        if free is not None:  # post-processing: in no sum and no product with a record
            for name, gradient in free.gradients.items():
                released[name] += gradient
        return released

    def _parts(
        self, critic: nn.Module, batch: CriticBatch, rule: ConcreteClip
    ) -> tuple[ClippedSum, FakesPart | None]:
        """The records' sum and the free fakes' mean; where memory runs out, in ever smaller pieces of the same draw.

        The sizes of the pieces follow from public numbers only, and the steps after this one keep to them.
        """
        pieces, free = self._pieces, None
        while True:
            try:
                if not rule.paired and len(batch.fake):
                    free = fakes_part(
                        critic, self.objective, batch.fake, batch.fake_labels, rule, chunk=pieces
                    )
                    batch = replace(batch, fake_values=free.values)
                total = clipped_sum(critic, self.objective, batch, rule, chunk=pieces)
                break
            except (MemoryError, RuntimeError) as error:
                if pieces == 1 or not memory.ran_out(error):
                    raise
                largest = max(math.ceil(self.divisor), len(batch.fake))
            pieces = math.ceil((largest if pieces is None else pieces) / 2)
        if pieces != self._pieces:
            self._pieces = pieces
            _log.warning(
                "memory ran out: steps now go through the critic in pieces of %d rows, which gives the same result and "
                "takes longer. A smaller batch would fit at once.",
                pieces,
            )
        return total, free

    def _noisy_mean(self, total: ClippedSum, divisor: float) -> dict[str, Tensor]:
        """(sum + σ · sensitivity · normal) / divisor for every parameter, in float64, in the memory of the sum."""
        scale = self._gradient_multiplier * total.sensitivity
        self.noise.perturb(total.gradients.values(), scale, 1.0 / divisor)
        return total.gradients

    def _rule_of_this_step(self, critic: nn.Module, fakes: Rows, public: Rows | None) -> ConcreteClip:
        if isinstance(self.clipping, QuantileAdaptiveClip):
            assert self.bound is not None
            return GlobalClip(self.bound)
        if isinstance(self.clipping, PublicAdaptiveClip):
            if public is None or not len(public):
                raise PlanError(
                    "PublicAdaptiveClip takes its bounds from public records, and none were given."
                )
            chosen = self._some(len(public), self.clipping.batch)
            paired = self.clipping.paired
            batch = draw_batch(critic, self.objective, public, chosen, fakes, self.noise, paired=paired)
            return self.clipping.adapted(mean_norms(critic, self.objective, batch, joint=paired))
        return self.clipping

    def _some(self, rows: int, most: int) -> Tensor:
        """Indices of public records: all if they are few, else a draw with replacement."""
        return torch.arange(rows) if rows <= most else self.noise.integers(rows, most)

    def _follow_quantile(self, total: ClippedSum) -> None:
        """Release the noisy shifted count and move the bound; part of the same Gaussian mechanism."""
        if isinstance(self.clipping, QuantileAdaptiveClip):
            assert self.bound is not None
            noisy = total.shifted_count + self.clipping.count_noise * self.noise.normal((1,)).item()
            self.bound = self.clipping.next_bound(self.bound, noisy, self.divisor)


def draw_batch(
    critic: nn.Module,
    objective: Objective,
    records: Rows,
    indices: Tensor,
    fakes: Rows,
    noise: Noise,
    *,
    paired: bool = False,
    microbatches: int | None = None,
) -> CriticBatch:
    """The rows at `indices`, each with a partner, a mixing coefficient and a microbatch of its own if needed.

    All three are drawn for each record independently of the others: the presence of one record does not
    change what the others are paired with.
    """
    like = next(critic.parameters()).detach()
    real, real_labels = records.take(indices, like)
    fake, fake_labels = fakes.all(like)
    rows = len(indices)
    mixing, partner = None, None
    if paired or penalty_weight(objective):
        mixing = noise.uniform((rows,)).to(like)
        partner = noise.integers(max(len(fakes), 1), rows).to(like.device)
    bins = None if microbatches is None else noise.integers(microbatches, rows).to(like.device)
    return CriticBatch(
        real=real,
        real_labels=real_labels,
        fake=fake,
        fake_labels=fake_labels,
        mixing=mixing,
        partner=partner,
        microbatch=bins,
    )
