"""The same step without clipping and noise, for baselines: what it gives is NOT PRIVATE and says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.door.poisson import poisson_indices
from understudy.dpsgd.gradients.guard import refuse_unsafe_layers
from understudy.dpsgd.gradients.microbatch import fake_gradient, summed_gradient
from understudy.dpsgd.losses import fake_loss, real_loss
from understudy.dpsgd.mechanism import draw_batch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.objectives import Objective

__all__ = ["NonPrivateStep"]


class NonPrivateStep:
    """Plain mean gradients from Poisson batches, by ordinary autograd.

    Args:
        sampling_rate: q, the probability with which each record joins a batch.
        objective: the loss.
        noise: the source of the sampling.
        divisor: the number by which the sum is divided.

    After each step `loss` is the critic's mean loss on that batch, records and fakes, without a penalty. It reads the
    records without noise, so no private step has anything like it.
    """

    private: ClassVar[bool] = False

    def __init__(self, sampling_rate: float, objective: Objective, noise: Noise, divisor: float) -> None:
        self.sampling_rate = sampling_rate
        self.objective = objective
        self.noise = noise
        self.divisor = divisor
        self.taken = 0
        self.loss = math.nan

    def step(
        self,
        critic: nn.Module,
        records: Rows,
        fakes: Rows,
        public: Rows | None = None,  # noqa: ARG002 - the signature of PrivateStep.step
    ) -> dict[str, Tensor]:
        """The mean gradient of the critic's loss, by parameter name; not private."""
        refuse_unsafe_layers(critic)
        self.taken += 1
        indices = poisson_indices(len(records), self.sampling_rate, self.noise)
        batch = draw_batch(critic, self.objective, records, indices, fakes, self.noise, self.divisor)
        self.loss = self._loss(critic, batch)
        gradient = fake_gradient(critic, self.objective, batch)
        if len(batch.real):
            for name, part in summed_gradient(critic, self.objective, batch, 1.0).items():
                gradient[name] += part
        return {name: g / self.divisor for name, g in gradient.items()}

    @torch.no_grad()
    def _loss(self, critic: nn.Module, batch: CriticBatch) -> float:
        parts = (
            (real_loss, critic(batch.real, batch.real_labels)),
            (fake_loss, critic(batch.fake, batch.fake_labels)),
        )
        return sum(float(loss(self.objective, logits).mean()) for loss, logits in parts if len(logits))
