"""The exact sum of clipped per-record gradients, by the fastest path that knows the critic.

`clipped_sum` is the one entrance. Which path it takes never changes the result beyond rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.engine.batch import ClippedSum
from understudy.engine.clipping import MicrobatchClip
from understudy.engine.gradients import functional, microbatch
from understudy.engine.gradients.guard import refuse_unsafe_layers
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.engine.batch import CriticBatch
    from understudy.engine.clipping import ConcreteClip
    from understudy.engine.objectives import Objective

__all__ = ["clipped_sum", "mean_norms"]


def clipped_sum(
    critic: nn.Module,
    objective: Objective,
    batch: CriticBatch,
    clipping: ConcreteClip,
    *,
    chunk: int | None = None,
) -> ClippedSum:
    """The sum of the records' clipped gradients plus the weighted sum of the fakes' gradients.

    Args:
        critic: maps (x, labels) to one logit per row; layers that mix records are refused.
        objective: the loss of a record and of a fake.
        batch: the records and the fakes; no records is fine.
        clipping: the rule; it also gives the sensitivity.
        chunk: how many records are handled at once. Scheduling only: it bounds memory and does not change
        the sum.
    """
    refuse_unsafe_layers(critic)
    sensitivity = clipping.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)
    if isinstance(clipping, MicrobatchClip):
        gradients, count = microbatch.clipped_sum(critic, objective, batch, clipping)
    else:
        gradients, count = functional.clipped_sum(critic, objective, batch, clipping, chunk)
    return ClippedSum(gradients, sensitivity, count)


def mean_norms(critic: nn.Module, objective: Objective, batch: CriticBatch) -> dict[str, float]:
    """For each parameter, the mean over the batch's records of the gradient norm; for public batches only."""
    refuse_unsafe_layers(critic)
    squares: dict[str, Tensor] = functional.squared_norms(critic, objective, batch, joint=False, chunk=None)
    return {name: float(square.sqrt().mean()) for name, square in squares.items()}
