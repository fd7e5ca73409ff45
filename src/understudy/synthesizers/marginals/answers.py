"""The door as the fitter of a table asks it: what was published is kept, and drawn towards declared public rows.

Public rows answer every question too, without noise. How near they are is judged by the noisy answer itself: a vector
of d noisy counts v with deviation σ is drawn towards the public ones p as Stein does, to p + f (v - p) with the factor
f = 1 - (d - 2) σ² / |v - p|², or 0 where that is negative. Its mean squared error is never greater than that of v,
however wrong p is (James and Stein 1961), so a wrong public table costs nothing, and a right one takes most of the
noise away, also from the sums by which questions are chosen. All of it is post-processing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from understudy.door.query import Published
from understudy.synthesizers.marginals.recipe import PURPOSES

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.query import Query
    from understudy.door.source import Rows
    from understudy.synthesizers.marginals.published import PublishedCounts

__all__ = ["Answers", "drawn_towards"]


class Answers:
    """What a door answers, kept as it was published.

    Args:
        door: of the private rows.
        public: declared public rows, or None.
        count: the public or noisy number of private rows.
        counts: what was published before.
    """

    def __init__(self, door: Door, public: Rows | None, count: float, counts: PublishedCounts) -> None:
        self._door = door
        self._public = None if public is None or not public.people else door.to_public(public, ())
        self._ratio = 0.0 if public is None else count / max(1, public.people)
        self.counts = counts

    def sigma(self, purpose: str) -> float:
        """The noise multiplier that was charged for a purpose."""
        return self._door.sigma(purpose)

    def publish(self, purpose: str, query: Query) -> Published:
        """The noisy sums, drawn towards those of public rows."""
        seen = self._door.publish(purpose, query)
        self.keep(purpose, seen)
        if self._public is None:
            return seen
        public = self._public.publish(purpose, query).values
        values = [
            drawn_towards(one, self._ratio * other, seen.deviation)
            for one, other in zip(seen.values, public, strict=True)
        ]
        return Published(tuple(values), seen.deviation)

    def keep(self, purpose: str, seen: Published) -> None:
        """Keep counts as they were published; of a baseline, whose counts have no noise, nothing."""
        if purpose in PURPOSES and self._door.private:
            self.counts = self.counts.with_counts(purpose, seen)

    def describe(self, **asked: Any) -> None:
        """Keep what was asked for: names of `PublishedCounts` and tensors."""
        if self._door.private:
            self.counts = replace(self.counts, **{name: one.numpy() for name, one in asked.items()})


def drawn_towards(noisy: Tensor, public: Tensor, noise: float) -> Tensor:
    """Noisy numbers, as near to public ones as they themselves allow."""
    far = float(((noisy - public) ** 2).sum())
    cut = max(0, noisy.numel() - 2) * noise**2
    return public + max(0.0, 1 - cut / far) * (noisy - public) if far > 0 else torch.clone(noisy)
