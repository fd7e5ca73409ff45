"""Gradients without clipping, for baselines and for public records: what they give is NOT PRIVATE.

A door to private records refuses such a query: it has no bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.dpsgd.gradients.guard import refuse_unsafe_layers, trained_parameters
from understudy.dpsgd.gradients.microbatch import fake_gradient, summed_gradient
from understudy.dpsgd.losses import fake_loss, penalty_weight, record_losses
from understudy.dpsgd.objectives import Objective
from understudy.dpsgd.step import NO_FAKES, critic_batch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.door.door import Door
    from understudy.door.query import Batch
    from understudy.door.source import Rows
    from understudy.dpsgd.losses import Loss

__all__ = ["PlainGradients"]


class _Sums:
    """The sum of the records' gradients as they are, their number, and the sum of their losses."""

    rows_at_once: ClassVar[int] = 2**62
    sensitivity: ClassVar[float] = math.inf

    def __init__(
        self, critic: nn.Module, objective: Loss, fakes: tuple[Tensor, Tensor | None], with_loss: bool
    ) -> None:
        self._critic, self._objective, self._fakes, self._with_loss = critic, objective, fakes, with_loss

    def zero(self) -> list[Tensor]:
        gradients = [
            torch.zeros_like(one, dtype=torch.float64) for one in trained_parameters(self._critic).values()
        ]
        return [*gradients, torch.zeros(2, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        coupled = bool(penalty_weight(self._objective))
        records = critic_batch(batch.x, batch.labels, self._fakes, batch.chance, coupled=coupled)
        if not len(batch):
            return
        found = summed_gradient(self._critic, self._objective, records, 1.0)
        for place, gradient in enumerate(found.values()):
            sums[place] += gradient
        sums[-1][0] += len(batch)
        if self._with_loss:
            with torch.no_grad():
                outputs = self._critic(batch.x, batch.labels)
                losses = record_losses(self._objective, outputs, batch.x, batch.labels)
            sums[-1][1] += float(losses.sum())


class PlainGradients:
    """Plain mean gradients from Poisson batches, by ordinary autograd.

    The records' part is the mean over the records that were drawn and the fakes' part the mean over the fakes. A
    private step has to divide by a public number instead, and pays for it with a sum that swings with the batch.

    Args:
        purpose: the steps of the door's plan.
        objective: the loss.
        with_loss: whether each step leaves the critic's mean loss on its batch, records and fakes, without a penalty,
            in `loss`. It reads the records without noise, so no private step has anything like it.
    """

    bound: ClassVar[None] = None

    def __init__(self, purpose: str, objective: Loss, *, with_loss: bool = False) -> None:
        self.purpose, self.objective, self._with_loss = purpose, objective, with_loss
        self.loss = math.nan

    def step(
        self, door: Door, critic: nn.Module, fakes: Rows = NO_FAKES, public: Rows | None = None
    ) -> dict[str, Tensor]:
        """The mean gradient of the critic's loss, by parameter name; not private."""
        del public
        refuse_unsafe_layers(critic)
        parameters = trained_parameters(critic)
        like = next(iter(parameters.values())).detach()
        made, labels = fakes.all(like)
        seen = door.step(self.purpose, _Sums(critic, self.objective, (made, labels), self._with_loss), like)
        rows, loss = (float(one) for one in seen.values[-1])
        mean = {
            name: (one / max(rows, 1.0)).to(like.dtype)
            for name, one in zip(parameters, seen.values, strict=False)
        }
        self.loss = loss / max(rows, 1.0) if self._with_loss else math.nan
        if len(made):
            assert isinstance(self.objective, Objective)
            for name, one in fake_gradient(critic, self.objective, made, labels).items():
                mean[name] += one / len(made)
            if self._with_loss:
                with torch.no_grad():
                    self.loss += float(fake_loss(self.objective, critic(made, labels)).mean())
        return mean
