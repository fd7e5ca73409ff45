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
from understudy.dpsgd.gradients.microbatch import fake_gradient

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
) -> FakesPart:
    """The sum of the fakes' gradients, each clipped where the rule has a bound for fakes."""
    if not isinstance(clipping, SeparateClip):
        if chain is None:
            return FakesPart(fake_gradient(critic, objective, fake, labels))
        return _free(critic, chain, objective, fake, labels)
    params = trained_parameters(critic)
    partition = clipping.fake_partition(params)
    if chain is None:
        return FakesPart(functional.clipped_fakes(critic, objective, fake, labels, partition))
    with torch.no_grad():
        book = book_of_fakes(chain, objective, fake, labels)
        return FakesPart(bookkeeping.clipped_book(book, params, partition, book.records)[0])


@torch.no_grad()
def _free(
    critic: nn.Module, chain: Chain, objective: Objective, fake: Tensor, labels: Tensor | None
) -> FakesPart:
    """The sum without clipping: every place is one product over all fakes."""
    tape, values = walk_fakes(chain, objective, fake, labels)
    total = {name: torch.zeros_like(p) for name, p in trained_parameters(critic).items()}
    for place in tape.places:
        layer, a, d = place.layer, place.a, place.d
        if layer.bias_name is not None and place.forward:
            total[layer.bias_name] += bookkeeping.over_positions(d).sum(0)
        if layer.weight_name is None:
            continue
        if isinstance(layer, ConvLayer):
            total[layer.weight_name] += layer.weight_gradient(a, d)
        else:
            columns = slice(layer.offset, layer.offset + layer.weight.shape[1])
            total[layer.weight_name][:, columns].addmm_(d.T, a)
    for name, rows in tape.rows:
        total[name] += rows.sum(0)
    return FakesPart(total, values)
