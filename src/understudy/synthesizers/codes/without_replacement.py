"""The chances of drawing some number of different codes in proportion to their rates.

Think of a race: each code arrives after an exponential time with its own rate, and the first L of them make up the
record. That is drawing L codes one by one without replacement (Luce, 1959). By the time t at which L codes are expected
to have arrived, each has arrived with chance 1 − exp(−t·rate), independently of the others. With many codes these are
close to the chances of the draw, and unlike those they can be written down and differentiated.

Rare codes run in groups: a group arrives again and again at its rate, and each time one of its codes is drawn.
That is the same race, and takes no longer for ten thousand rare codes than for ten.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["arrivals"]

_ROUNDS = 8


def arrivals(rates: Tensor, lengths: Tensor, single: int) -> tuple[Tensor, Tensor]:
    """The chance of each item to arrive by the time at which L codes are expected, and that time.

    Args:
        rates: of shape (…, 1, items), each row with sum 1.
        lengths: L of shape (…, lengths), broadcast against the rates.
        single: how many items are single codes, which arrive once; those after them are groups.

    Returns:
        chances of shape (…, lengths, items), and times of shape (…, lengths, 1). Those of single codes and the numbers
        of arrivals of groups (time · rate) sum to L, where L is below the number of codes.

    The time t solves Σ (1 − exp(−t·rate)) + t·Σ rates of groups = L. The left side is concave and at most t, so
    Newton's method from t = L rises towards the solution. The last round is differentiated, which gives the exact
    derivative there.
    """
    once, again = rates[..., :single], rates[..., single:].sum(dim=-1, keepdim=True)
    wanted = lengths.unsqueeze(-1)
    if rates.shape[-1] == single:
        wanted = wanted.clamp(max=single - 0.5)
    time = wanted
    with torch.no_grad():
        for _ in range(_ROUNDS):
            left = torch.exp(-time * once)
            time = time + _missing(left, time * again, wanted) / _speed(left, once, again)
    left = torch.exp(-time * once)
    time = time + _missing(left, time * again, wanted) / _speed(left, once, again).detach()
    return 1 - torch.exp(-time * rates), time


def _missing(left: Tensor, again: Tensor, wanted: Tensor) -> Tensor:
    """How many codes are still expected."""
    return wanted - (1 - left).sum(dim=-1, keepdim=True) - again


def _speed(left: Tensor, rates: Tensor, again: Tensor) -> Tensor:
    """How many codes arrive per unit of time."""
    return ((left * rates).sum(dim=-1, keepdim=True) + again).clamp(min=1e-12)
