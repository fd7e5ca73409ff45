"""The exact sum of clipped per-record gradients, by the fastest path that knows the critic.

`clipped_sum` is the one entrance. Which path it takes never changes the result beyond rounding, and `explain`
tells which one it will be and why.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.batch import ClippedSum
from understudy.dpsgd.clipping import MicrobatchClip
from understudy.dpsgd.gradients import bookkeeping, functional, microbatch
from understudy.dpsgd.gradients.guard import refuse_unsafe_layers, trained_parameters
from understudy.dpsgd.gradients.walk import Chain, read_chain
from understudy.dpsgd.losses import penalty_weight
from understudy.errors import UnsupportedModel
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import ConcreteClip
    from understudy.dpsgd.objectives import Objective

__all__ = ["Path", "clipped_sum", "explain", "mean_norms"]


class Path(enum.Enum):
    """How per-record gradients are found."""

    BOOK_KEEPING = "book-keeping"
    """One backward gives the factors of all gradients; norms from Gram matrices or small gradients."""

    VMAP = "vmap"
    """Every record's gradient is made whole, a chunk of records at a time."""


def clipped_sum(
    critic: nn.Module,
    objective: Objective,
    batch: CriticBatch,
    clipping: ConcreteClip,
    *,
    path: Path | None = None,
    chunk: int | None = None,
) -> ClippedSum:
    """The sum of the records' clipped gradients plus the weighted sum of the fakes' gradients.

    Args:
        critic: maps (x, labels) to one logit per row; layers that mix records are refused.
        objective: the loss of a record and of a fake.
        batch: the records and the fakes; no records is fine.
        clipping: the rule; it also gives the sensitivity.
        path: force one path (tests and benchmarks); by default the fast one where it applies.
        chunk: how many records or fakes are handled at once. Scheduling only: it bounds memory and does not
            change the sum.
    """
    refuse_unsafe_layers(critic)
    sensitivity = clipping.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)
    if isinstance(clipping, MicrobatchClip):
        gradients, count = microbatch.clipped_sum(critic, objective, batch, clipping, chunk)
        return ClippedSum(gradients, sensitivity, count)
    chain = _chain(critic, path)

    def one(piece: CriticBatch) -> tuple[dict[str, Tensor], float]:
        if chain is None:
            return functional.clipped_sum(critic, objective, piece, clipping, chunk)
        return bookkeeping.clipped_sum(critic, chain, objective, piece, clipping)

    if chunk is None:
        gradients, count = one(batch)
        return ClippedSum(gradients, sensitivity, count)
    gradients, count = {name: torch.zeros_like(p) for name, p in trained_parameters(critic).items()}, 0.0
    for piece in batch.pieces(chunk, joint=clipping.paired):
        found, within = one(piece)
        count += within
        for name, gradient in found.items():
            gradients[name] += gradient
    return ClippedSum(gradients, sensitivity, count)


def _chain(critic: nn.Module, path: Path | None) -> Chain | None:
    """The critic as known layers, or None where vmap is wanted or needed."""
    if path is Path.VMAP:
        return None
    chain = read_chain(critic)
    if isinstance(chain, Chain):
        return chain
    if path is Path.BOOK_KEEPING:
        raise UnsupportedModel(f"{chain}; leave `path` unset to use vmap.")
    return None


def mean_norms(
    critic: nn.Module, objective: Objective, batch: CriticBatch, *, joint: bool = False
) -> dict[str, float]:
    """For each parameter, the mean over the batch's records of the gradient norm; for public batches only.

    Args:
        critic: as for `clipped_sum`.
        objective: the loss of a record and of a fake.
        batch: PUBLIC records, and fakes.
        joint: whether the gradient of a record's fake partner belongs to the record's.
    """
    refuse_unsafe_layers(critic)
    chain = _chain(critic, None)
    if chain is None:
        squares = functional.squared_norms(critic, objective, batch, joint=joint, chunk=None)
    else:
        squares = bookkeeping.squared_norms(critic, chain, objective, batch, joint=joint)
    return {name: float(square.sqrt().mean()) for name, square in squares.items()}


def explain(critic: nn.Module, objective: Objective) -> str:
    """Which path `clipped_sum` takes for this critic and objective, and why, in one or two sentences."""
    refuse_unsafe_layers(critic)
    chain = read_chain(critic)
    if not isinstance(chain, Chain):
        return f"{Path.VMAP.value}: {chain}. Every record's gradient is made whole, in chunks."
    text = f"{Path.BOOK_KEEPING.value}: all {len(chain.layers)} layers of the body are known. "
    if not penalty_weight(objective):
        return text + "One backward gives the factors of all gradients."
    if chain.piecewise_linear:
        return text + "The penalty's input gradient is written out; its slopes are constant masks."
    return text + "The penalty's input gradient is written out, with second derivatives of the smooth layers."
