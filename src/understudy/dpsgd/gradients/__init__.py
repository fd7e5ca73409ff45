"""The exact sum of clipped per-record gradients, by the fastest path that knows the critic.

`clipped_sum` is the one entrance for records, `fakes_part` the one for fakes that are no partners. Which path they take
never changes the result beyond rounding, and `explain` tells which one it will be and why.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from understudy.dpsgd.batch import ClippedSum, FakesPart
from understudy.dpsgd.clipping import MicrobatchClip
from understudy.dpsgd.gradients import bookkeeping, functional, microbatch
from understudy.dpsgd.gradients.fakes import fakes_sum
from understudy.dpsgd.gradients.guard import refuse_unsafe_layers
from understudy.dpsgd.gradients.walk import Chain, read_chain
from understudy.dpsgd.losses import penalty_weight
from understudy.errors import UnsupportedModel
from understudy.privacy.budget import Adjacency

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.dpsgd.batch import CriticBatch
    from understudy.dpsgd.clipping import Clipping, ConcreteClip
    from understudy.dpsgd.losses import Loss
    from understudy.dpsgd.objectives import Objective

__all__ = ["Path", "clipped_sum", "explain", "fakes_part", "mean_norms"]


class Path(enum.Enum):
    """How per-record gradients are found."""

    BOOK_KEEPING = "book-keeping"
    """One backward gives the factors of all gradients; norms from Gram matrices or small gradients."""

    VMAP = "vmap"
    """Every record's gradient is made whole, a chunk of records at a time."""


def clipped_sum(
    critic: nn.Module,
    objective: Loss,
    batch: CriticBatch,
    clipping: ConcreteClip,
    *,
    path: Path | None = None,
    chunk: int | None = None,
) -> ClippedSum:
    """The sum of the records' (or persons') clipped gradients, in float64; fakes are in it as partners only.

    Args:
        critic: any model of (x, labels), row by row; layers that mix records are refused.
        objective: the loss of a record; a critic's objective knows fakes too.
        batch: the records, and the fakes that a penalty or a paired rule needs; no records is fine.
        clipping: the rule; it also gives the sensitivity.
        path: force one path (tests and benchmarks); by default the fast one where it applies.
        chunk: how many records are handled at once. Scheduling only: it bounds memory and does not change the sum.
    """
    refuse_unsafe_layers(critic)
    sensitivity = clipping.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)
    if isinstance(clipping, MicrobatchClip):
        gradients, count = microbatch.clipped_sum(critic, objective, batch, clipping, chunk)
        return ClippedSum(gradients, sensitivity, count)
    chain, people = _chain(critic, path), batch.people

    def one(piece: CriticBatch) -> tuple[dict[str, Tensor], float]:
        if chain is None:
            return functional.clipped_sum(critic, objective, piece, clipping, chunk, people)
        return bookkeeping.clipped_sum(critic, chain, objective, piece, clipping, people)

    if chunk is None or len(batch.real) <= chunk:
        gradients, count = one(batch)
        return ClippedSum(gradients, sensitivity, count)
    gradients, count = {}, 0.0
    for piece in batch.pieces(chunk):
        found, within = one(piece)
        count += within
        gradients = _added(gradients, found)
    return ClippedSum(gradients, sensitivity, count)


def _added(total: dict[str, Tensor], more: dict[str, Tensor]) -> dict[str, Tensor]:
    """Both sums together, in the memory of the first."""
    for name in total:
        total[name] += more[name]
    return total or more


def fakes_part(
    critic: nn.Module,
    objective: Objective,
    fake: Tensor,
    labels: Tensor | None,
    clipping: Clipping,
    *,
    path: Path | None = None,
    chunk: int | None = None,
) -> FakesPart:
    """The mean gradient of the critic's loss on fakes alone, each clipped where the rule has a bound for fakes.

    Args:
        critic: as for `clipped_sum`.
        objective: the loss of a fake.
        fake: at least one fake; a public number of them.
        labels: their labels, or None.
        clipping: the rule; all but `SeparateClip` leave fakes as they are.
        path: as for `clipped_sum`.
        chunk: how many fakes are handled at once; as for `clipped_sum`.
    """
    refuse_unsafe_layers(critic)
    chain, size = _chain(critic, path), chunk or len(fake)
    gradients: dict[str, Tensor] = {}
    for start in range(0, len(fake), size):
        own = None if labels is None else labels[start : start + size]
        part = fakes_sum(critic, chain, objective, fake[start : start + size], own, clipping, 1.0 / len(fake))
        gradients = _added(gradients, part.gradients)
    return FakesPart(gradients, part.values if size >= len(fake) else None)


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
    critic: nn.Module, objective: Loss, batch: CriticBatch, *, joint: bool = False
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


def explain(critic: nn.Module, objective: Loss) -> str:
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
