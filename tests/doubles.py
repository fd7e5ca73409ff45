"""Stand-ins that several tests share: a critic, a door, a source of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Published

if TYPE_CHECKING:
    from torch import Tensor


class Opaque(nn.Module):
    """A critic that book-keeping cannot read, so that vmap takes it."""

    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """One logit per row."""
        return self.body(x).reshape(len(x))


class Silent(Door):
    """Adds no noise, and keeps what it would have been added to, and how much of it."""

    heard: list[Tensor]
    scale: float

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        self.heard, self.scale = [one.double().clone() for one in sums], scale
        return Published(tuple(sums), scale)


class Repeatable(SeededNoise):
    """A seed in place of the operating system's entropy, so that no test hangs on chance."""

    private = True
