"""Fixed wavelet moduli of images: features that depend on no data, only on the size of the image.

Morlet wavelets in eight directions are applied at two scales; the moduli (first order) and the moduli of the wavelets
of the finer moduli (second order) are averaged over small windows. Such features hardly move when an
image is shifted or bent a little, which is why a linear classifier of them needs few noisy steps (Bruna and Mallat,
"Invariant scattering convolution networks", 2013; Tramèr and Boneh, "Differentially private learning needs better
features", 2021).

Memory is bounded by `planes`: all orders are taken of a small image only, and what a larger image has beside it
becomes first-order moduli over few windows. Colour is luminance, with all orders, and two opponent channels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.synthesizers.embedding.planes import Planes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Wavelets"]

_DIRECTIONS = 8
_SIZE = 7
_WIDTH = 0.8
_FREQUENCY = 3 * math.pi / 4
_SLANT = 0.5
_GAINS = (0.64, 1.63, 15.3)
"""Factors that make the three orders about equally large; found on Kuzushiji-MNIST, a public set."""
_WINDOWS = 8
"""The moduli of details are averaged over this many windows along each side."""
_CELLS_AT_ONCE = 2**20
_SMOOTHING = 1e-6
_DENSE_CELLS = 400
"""Grids of up to this many cells are filtered by one matrix product, which is faster than small convolutions."""


class Wavelets(nn.Module):
    """Moduli of images of one shape, as tables with a row for each image.

    They are those of order 0, 1 and 2 of luminance; in colour, order 0 and 1 of the two opponent channels; and of
    images too large for that, first-order moduli of each finer scale.

    Args:
        shape: (channels, height, width). Both sides are at least 8.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.planes = Planes(shape)
        filters, grid = _morlets(), self.planes.grid
        half = (math.ceil(grid[0] / 2), math.ceil(grid[1] / 2))
        self.fine = _Moduli(filters, grid, stride=2)
        self.coarse = _Moduli(filters, half, stride=1)
        self.second = _Moduli(filters, half, stride=2)
        self.details = nn.ModuleList(_Moduli(filters, one, stride=2) for one in self.planes.finer)
        quarter = [math.ceil(side / 2) for side in half]
        pooled = math.prod(side // 2 for side in half)
        last = math.prod((side - 1) // 2 + 1 for side in quarter)
        zero = math.ceil(grid[0] / 4) * math.ceil(grid[1] / 4)
        widths = [zero, 2 * _DIRECTIONS * pooled, _DIRECTIONS**2 * last]
        if self.planes.coloured:
            widths += [2 * zero, 2 * _DIRECTIONS * pooled]
        widths += [_DIRECTIONS * _WINDOWS**2] * len(self.planes.finer)
        self.widths = tuple(widths)
        """How many numbers each order has."""
        self.images_at_once = max(8, min(1000, _CELLS_AT_ONCE // (shape[1] * shape[2])))
        """So many images at a time keep the memory of their moduli within a bound."""

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Images of shape (n, channels, height, width) with values in [0, 1] to one table of n rows per order."""
        return self.parts(images)[1]

    def parts(self, images: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The small images that `planes` makes of images, and the moduli."""
        small, finer = self.planes(images)
        return small, tuple(order.reshape(len(small), -1) for order in self._orders(small, finer))

    def _orders(self, small: Tensor, finer: tuple[Tensor, ...]) -> Iterator[Tensor]:
        zero, first, second = _GAINS
        x = small[:, :1]
        fine = self.fine(x)
        coarse = self.coarse(functional.avg_pool2d(x, 2, ceil_mode=True))
        again = self.second(fine.reshape(-1, 1, *fine.shape[2:]))
        yield zero * functional.avg_pool2d(x, 4, ceil_mode=True)
        yield first * functional.avg_pool2d(torch.cat([fine, coarse], dim=1), 4, 2, 1)
        yield second * functional.avg_pool2d(again, 3, 2, 1)
        if self.planes.coloured:
            opponents = small[:, 1:].reshape(-1, 1, *small.shape[2:])
            halved = functional.avg_pool2d(opponents, 2, ceil_mode=True)
            yield zero * functional.avg_pool2d(opponents, 4, ceil_mode=True)
            yield first * functional.avg_pool2d(self.coarse(halved), 4, 2, 1)
        for moduli, image in zip(self.details, finer, strict=True):
            yield first * functional.adaptive_avg_pool2d(moduli(image), _WINDOWS)


class _Moduli(nn.Module):
    """The moduli of all wavelets on a grid: (n, 1, height, width) to (n, directions, height/stride, width/stride)."""

    filters: Tensor
    matrix: Tensor | None

    def __init__(self, filters: Tensor, grid: tuple[int, int], stride: int) -> None:
        super().__init__()
        self._grid = grid
        self._stride = stride
        self.register_buffer("filters", filters, persistent=False)
        cells = math.prod(grid)
        matrix = None
        if cells <= _DENSE_CELLS:
            matrix = self._convolve(torch.eye(cells).reshape(cells, 1, *grid)).reshape(cells, -1)
        self.register_buffer("matrix", matrix, persistent=False)

    def _convolve(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.filters, stride=self._stride, padding=_SIZE // 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.matrix is None:
            both = self._convolve(x)
        else:
            made = [math.ceil(side / self._stride) for side in self._grid]
            both = (x.reshape(len(x), -1) @ self.matrix).reshape(len(x), 2 * _DIRECTIONS, *made)
        real, imaginary = both.chunk(2, dim=1)
        return (real.square() + imaginary.square() + _SMOOTHING).sqrt()


def _morlets() -> Tensor:
    """Real and imaginary parts of the wavelets, as filters of shape (2 · directions, 1, size, size)."""
    reach = torch.arange(_SIZE, dtype=torch.float64) - _SIZE // 2
    y, x = torch.meshgrid(reach, reach, indexing="ij")
    parts = []
    for direction in range(_DIRECTIONS):
        angle = math.pi * direction / _DIRECTIONS
        along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
        window = torch.exp(-(along.square() + (_SLANT * across).square()) / (2 * _WIDTH**2))
        wave = torch.polar(window, _FREQUENCY * along)
        wave = wave - window * (wave.sum() / window.sum())  # no response to constant images
        parts.append(wave * (_SLANT / (2 * math.pi * _WIDTH**2)))
    waves = torch.stack(parts)
    return torch.cat([waves.real, waves.imag]).unsqueeze(1).to(torch.float32)
