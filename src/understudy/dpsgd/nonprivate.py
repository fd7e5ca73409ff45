"""The same step without clipping and noise, for baselines: what it gives is NOT PRIVATE and says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.door.poisson import poisson_indices
from understudy.dpsgd.gradients.guard import refuse_unsafe_layers, trained_parameters
from understudy.dpsgd.gradients.microbatch import fake_gradient, summed_gradient
from understudy.dpsgd.losses import fake_loss, real_loss
from understudy.dpsgd.mechanism import draw_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.objectives import Objective

__all__ = ["NonPrivateStep"]


class NonPrivateStep:
    """Plain mean gradients from Poisson batches, by ordinary autograd.

    The records' part is the mean over the records that were drawn and the fakes' part the mean over the fakes. A private
    step has to divide by a public number instead, and pays for it with a sum that swings with the batch.

    Args:
        sampling_rate: q, the probability with which each record joins a batch.
        objective: the loss.
        noise: the source of the sampling.
        with_loss: whether each step leaves the critic's mean loss on its batch, records and fakes, without a penalty,
            in `loss`. It reads the records without noise, so no private step has anything like it.
    """

    private: ClassVar[bool] = False

    def __init__(
        self, sampling_rate: float, objective: Objective, noise: Noise, *, with_loss: bool = False
    ) -> None:
        self.sampling_rate = sampling_rate
        self.objective = objective
        self.noise = noise
        self.taken = 0
        self.loss = math.nan
        self._with_loss = with_loss

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
        if self._with_loss:
            self.loss = self._loss(critic, batch)
        gradient = {name: torch.zeros_like(p) for name, p in trained_parameters(critic).items()}
        for part in self._means(critic, batch):
            for name, mean in part.items():
                gradient[name] += mean
        return gradient

    def _means(self, critic: nn.Module, batch: CriticBatch) -> Iterator[dict[str, Tensor]]:
        """The mean gradients of the records and of the fakes, of those that there are."""
        if len(batch.real):
            yield summed_gradient(critic, self.objective, batch, 1.0 / len(batch.real))
        if len(batch.fake):
            summed = fake_gradient(critic, self.objective, batch.fake, batch.fake_labels)
            yield {name: g / len(batch.fake) for name, g in summed.items()}

    @torch.no_grad()
    def _loss(self, critic: nn.Module, batch: CriticBatch) -> float:
        parts = (
            (real_loss, critic(batch.real, batch.real_labels)),
            (fake_loss, critic(batch.fake, batch.fake_labels)),
        )
        return sum(float(loss(self.objective, logits).mean()) for loss, logits in parts if len(logits))
