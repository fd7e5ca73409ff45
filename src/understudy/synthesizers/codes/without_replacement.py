"""Drawing some number of different codes in proportion to their rates, and the chances of that.

Think of a race: each code arrives after an exponential time with its own rate, and the first L of them make up the
record. That is drawing L codes one by one without replacement (Luce, 1959). By the time t at which L codes are expected
to have arrived, each has arrived with chance 1 − exp(−t·rate), independently of the others. With many codes these are
close to the chances of the draw, and unlike those they can be written down and differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["arrivals", "first_arrivals"]

_ROUNDS = 8


def arrivals(rates: Tensor, lengths: Tensor) -> Tensor:
    """The chance of each code to arrive among the first L.

    Args:
        rates: of shape (…, 1, codes), each row with sum 1.
        lengths: L of shape (…, lengths), broadcast against the rates.

    Returns:
        chances of shape (…, lengths, codes); they sum to L along the last axis, where L is below the number of codes.

    The time t solves Σ (1 − exp(−t·rate)) = L. The left side is concave and at most t, so Newton's method from t = L
    rises towards the solution. The last round is differentiated, which gives the exact derivative there.
    """
    wanted = lengths.clamp(max=rates.shape[-1] - 0.5).unsqueeze(-1)
    time = wanted
    with torch.no_grad():
        for _ in range(_ROUNDS):
            left = torch.exp(-time * rates)
            time = time + _missing(left, wanted) / _speed(left, rates)
    left = torch.exp(-time * rates)
    time = time + _missing(left, wanted) / _speed(left, rates).detach()
    return 1 - torch.exp(-time * rates)


def _missing(left: Tensor, wanted: Tensor) -> Tensor:
    """How many codes are still expected."""
    return wanted - (1 - left).sum(dim=-1, keepdim=True)


def _speed(left: Tensor, rates: Tensor) -> Tensor:
    """How many codes arrive per unit of time."""
    return (left * rates).sum(dim=-1, keepdim=True).clamp(min=1e-12)


def first_arrivals(scores: Tensor, lengths: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw the first codes of each row's race.

    Args:
        scores: logarithms of rates, one row per record.
        lengths: how many codes each record gets.
        source: where the randomness comes from.

    Returns:
        codes in the order of their arrival, and which of them count; both of shape (rows, longest).
    """
    uniform = torch.rand(scores.shape, generator=source).clamp(min=1e-12)
    keys = scores - torch.log(-torch.log(uniform))
    longest = min(int(lengths.max()) if len(lengths) else 0, scores.shape[1])
    order = keys.topk(longest, dim=1).indices
    return order, torch.arange(longest) < lengths[:, None]
