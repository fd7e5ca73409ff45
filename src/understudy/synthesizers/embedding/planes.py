"""What features see of an image: luminance and opponent colours of a small version of it, and the scales above.

A transform that is fixed by the shape of the images: the small version has at most `LARGEST` pixels along a side, so
the number of features and their memory do not grow with the size of the images.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LARGEST", "Planes", "halvings"]

LARGEST = 40
"""Along a side of the small version."""
_OPPONENTS = ((1.0, -1.0, 0.0), (0.5, 0.5, -1.0))
"""Red against green, and yellow against blue."""
_COLOUR_GAIN = 1.5
"""Opponent colours of photographs vary less than their luminance."""


def halvings(height: int, width: int) -> int:
    """How often an image is halved until both sides are small."""
    return max(0, math.ceil(math.log2(max(height, width) / LARGEST)))


class Planes(nn.Module):
    """Planes of images of one shape.

    Args:
        shape: (channels, height, width).
    """

    opponents: Tensor

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = shape
        self.coloured = channels == 3
        self.size = (height, width)
        sizes = [(height, width)]
        for _ in range(halvings(height, width)):
            sizes.append((math.ceil(sizes[-1][0] / 2), math.ceil(sizes[-1][1] / 2)))
        self.grid = sizes[-1]
        self.finer = tuple(sizes[:-1])
        self.shape = (channels, *self.grid)
        """That of the small version."""
        self.register_buffer("opponents", _COLOUR_GAIN * torch.tensor(_OPPONENTS), persistent=False)

    def forward(self, images: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Images with values in [0, 1] to their small version, luminance first, and the luminance of finer scales."""
        finer = []
        for _ in self.finer:
            finer.append(images.mean(dim=1, keepdim=True))
            images = functional.avg_pool2d(images, 2, ceil_mode=True)
        if not self.coloured:
            return images, tuple(finer)
        colours = torch.einsum("kc,nchw->nkhw", self.opponents, images)
        return torch.cat([images.mean(dim=1, keepdim=True), colours], dim=1), tuple(finer)
