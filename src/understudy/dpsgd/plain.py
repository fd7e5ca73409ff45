"""Gradients without clipping, for baselines and for public records: what they give is NOT PRIVATE.

A door to private records refuses such a query: it has no bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.dpsgd.gradients.guard import refuse_unsafe_layers, trained_parameters
from understudy.dpsgd.gradients.microbatch import gradients_of, summed_losses
from understudy.dpsgd.losses import fake_loss, penalty_weight
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

    def __init__(self, critic: nn.Module, objective: Loss, fakes: tuple[Tensor, Tensor | None]) -> None:
        self._critic, self._objective, self._fakes = critic, objective, fakes

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
        with torch.enable_grad():
            loss, penalty = summed_losses(self._critic, self._objective, records)
            found = gradients_of(self._critic, loss + penalty)
        for place, gradient in enumerate(found.values()):
            sums[place] += gradient
        sums[-1] += torch.tensor([len(batch), loss.item()])


class PlainGradients:
    """Plain mean gradients from Poisson batches, by ordinary autograd.

    The records' part is the mean over the records that were drawn and the fakes' part the mean over the fakes. A
    private step has to divide by a public number instead, and pays for it with a sum that swings with the batch.

    After each step `loss` is the critic's mean loss on that batch, records and fakes, without a penalty, as the forward
    pass of the gradient found it. It reads the records without noise, so no private step has anything like it.

    Args:
        purpose: the steps of the door's plan.
        objective: the loss.
    """

    bound: ClassVar[None] = None

    def __init__(self, purpose: str, objective: Loss) -> None:
        self.purpose, self.objective = purpose, objective
        self.loss: float | None = None

    def step(
        self, door: Door, critic: nn.Module, fakes: Rows = NO_FAKES, public: Rows | None = None
    ) -> dict[str, Tensor]:
        """The mean gradient of the critic's loss, by parameter name; not private."""
        del public
        refuse_unsafe_layers(critic)
        parameters = trained_parameters(critic)
        like = next(iter(parameters.values())).detach()
        made, labels = fakes.all(like)
        seen = door.step(self.purpose, _Sums(critic, self.objective, (made, labels)), like)
        rows, loss = (float(one) for one in seen.values[-1])
        mean = {
            name: (one / max(rows, 1.0)).to(like.dtype)
            for name, one in zip(parameters, seen.values, strict=False)
        }
        self.loss = loss / max(rows, 1.0)
        if len(made):
            assert isinstance(self.objective, Objective)
            with torch.enable_grad():
                unreal = fake_loss(self.objective, critic(made, labels).reshape(-1)).mean()
                for name, one in gradients_of(critic, unreal).items():
                    mean[name] += one
            self.loss += unreal.item()
        return mean
