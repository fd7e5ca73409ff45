"""The gradient of free fakes: public, in a pass of its own, so that not even its rounding knows how many records came.

In one matrix product with the records the fakes' part would round by the size of the private batch, and in one buffer
with them a record whose clipped gradient is small beside the fakes' would move the sum by more than its bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.dpsgd.batch import FakesPart
from understudy.dpsgd.clipping import SeparateClip
from understudy.dpsgd.gradients import bookkeeping, functional
from understudy.dpsgd.gradients.book import book_of_fakes, walk_fakes
from understudy.dpsgd.gradients.guard import trained_parameters
from understudy.dpsgd.gradients.layers import ConvLayer
from understudy.dpsgd.gradients.microbatch import gradients_of
from understudy.dpsgd.gradients.sums import joined, outer_products
from understudy.dpsgd.losses import fake_loss

if TYPE_CHECKING:
    from torch import Tensor, nn

    from understudy.dpsgd.clipping import Clipping
    from understudy.dpsgd.gradients.walk import Chain
    from understudy.dpsgd.objectives import Objective

__all__ = ["fakes_sum"]


def fakes_sum(
    critic: nn.Module,
    chain: Chain | None,
    objective: Objective,
    fake: Tensor,
    labels: Tensor | None,
    clipping: Clipping,
    weight: float,
) -> FakesPart:
    """Weight · the sum of the fakes' gradients, each clipped where the rule has a bound for fakes."""
    if not isinstance(clipping, SeparateClip):
        if chain is None:
            with torch.enable_grad():
                loss = fake_loss(objective, critic(fake, labels).reshape(-1)).sum()
                return FakesPart(gradients_of(critic, weight * loss))
        return _free(critic, chain, objective, fake, labels, weight)
    params = trained_parameters(critic)
    partition = clipping.fake_partition(params)
    if chain is None:
        clipped = functional.clipped_fakes(critic, objective, fake, labels, partition)
    else:
        with torch.no_grad():
            book = book_of_fakes(chain, objective, fake, labels)
            clipped, _ = bookkeeping.clipped_book(book, params, partition, 0)
    return FakesPart({name: g.to(params[name].dtype).mul_(weight) for name, g in clipped.items()})


@torch.no_grad()
def _free(
    critic: nn.Module, chain: Chain, objective: Objective, fake: Tensor, labels: Tensor | None, weight: float
) -> FakesPart:
    """Weight · the sum without clipping: every place is one product over all fakes."""
    tape, values = walk_fakes(chain, objective, fake, labels, weight)
    parts: dict[tuple[str, int], Tensor] = {}

    def add(name: str, offset: int, gradient: Tensor) -> None:
        parts[name, offset] = parts[name, offset].add_(gradient) if (name, offset) in parts else gradient

    for place in tape.places:
        layer, a, d = place.layer, place.a, place.d
        if layer.bias_name is not None and place.forward:
            add(layer.bias_name, 0, bookkeeping.over_positions(d).sum(0).to(d.dtype))
        if layer.weight_name is not None:
            product = (
                layer.weight_gradient(a, d)
                if isinstance(layer, ConvLayer)
                else outer_products([(a, d)], len(a))
            )
            add(layer.weight_name, layer.offset, product)
    for name, rows in tape.rows:
        add(name, 0, rows.sum(0))
    return FakesPart(joined(parts, trained_parameters(critic)), values)
