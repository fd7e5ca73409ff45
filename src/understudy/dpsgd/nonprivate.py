"""The same step without clipping and noise, for baselines: what it gives is NOT PRIVATE and says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.door.poisson import poisson_indices
from understudy.dpsgd.gradients.guard import refuse_unsafe_layers
from understudy.dpsgd.gradients.microbatch import gradients_of, record_losses
from understudy.dpsgd.losses import fake_loss
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

    The records' part is the mean over the records that were drawn, and the fakes' part that over the fakes. A private
    step has to divide by a public number instead, and its sum swings with the size of the batch.

    Args:
        sampling_rate: q, the probability with which each record joins a batch.
        objective: the loss.
        noise: the source of the sampling.

    After each step `loss` is the critic's mean loss on that batch, records and fakes, without a penalty, as the forward
    pass of the gradient found it. It reads the records without noise, so no private step has anything like it.
    """

    private: ClassVar[bool] = False

    def __init__(self, sampling_rate: float, objective: Objective, noise: Noise) -> None:
        self.sampling_rate = sampling_rate
        self.objective = objective
        self.noise = noise
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
        batch = draw_batch(critic, self.objective, records, indices, fakes, self.noise)
        with torch.enable_grad():
            loss, penalty = self._means(critic, batch)
            self.loss = loss.item()
            return gradients_of(critic, loss + penalty)

    def _means(self, critic: nn.Module, batch: CriticBatch) -> tuple[Tensor, Tensor]:
        """The mean loss of the records plus that of the fakes, and the mean penalty; zero where there are no rows."""
        loss, penalty = record_losses(critic, self.objective, batch)
        records, fakes = max(len(batch.real), 1), max(len(batch.fake), 1)
        fake = fake_loss(self.objective, critic(batch.fake, batch.fake_labels).reshape(-1)).sum()
        return loss / records + fake / fakes, penalty / records
