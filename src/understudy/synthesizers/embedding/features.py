"""The mean embedding: what the generator learns from, published once with noise.

Every image becomes a vector φ(x) of cosines and sines of random projections of its pixels and of its wavelet
moduli. The frequencies follow from a public seed. For each frequency cos² + sin² = 1 and the weights sum to one, so
|φ(x)| = 1 whatever the image is; `queries` takes care of rounding.

What is published is one table with a row per class: the sum of φ(x) over the images of that class. Adding or removing
one image changes one row by a vector of norm 1 and no other row, so the L2 sensitivity of the whole table is 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.synthesizers.embedding.wavelets import Wavelets

if TYPE_CHECKING:
    from understudy.synthesizers.embedding.recipe import MeanEmbedding

__all__ = ["Embedding", "brightness", "class_means"]

_REFERENCE_PIXELS = 784
_REFERENCE_MODULI = 1857


def brightness(encoded: Tensor) -> Tensor:
    """Encoded images, from -1 to 1, as values from 0 to 1."""
    return (encoded.clamp(-1, 1) + 1) / 2


class Embedding(nn.Module):
    """The features φ of images of one shape; fixed by the recipe's part and the shape alone.

    Args:
        part: length scales, numbers of frequencies and the public seed.
        shape: (channels, height, width).
    """

    pixel_frequencies: Tensor
    wavelet_frequencies: Tensor

    def __init__(self, part: MeanEmbedding, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.wavelets = Wavelets(shape)
        source = torch.Generator().manual_seed(part.seed)
        pixels, moduli = math.prod(self.wavelets.planes.shape), sum(self.wavelets.widths)
        of_pixels = _frequencies(
            part.pixel_lengths, pixels, _REFERENCE_PIXELS, part.pixel_frequencies, source
        )
        of_moduli = _frequencies(
            part.wavelet_lengths, moduli, _REFERENCE_MODULI, part.wavelet_frequencies, source
        )
        self.register_buffer("pixel_frequencies", of_pixels, persistent=False)
        self.register_buffer("wavelet_frequencies", of_moduli, persistent=False)
        scales = len(part.pixel_lengths) + len(part.wavelet_lengths)
        self._pixel_weight = (scales * part.pixel_frequencies) ** -0.5
        self._wavelet_weight = (scales * part.wavelet_frequencies) ** -0.5

    @property
    def width(self) -> int:
        """The number of features."""
        return 2 * (self.pixel_frequencies.shape[1] + self.wavelet_frequencies.shape[1])

    def forward(self, encoded: Tensor) -> Tensor:
        """Encoded images to features of norm 1 (up to rounding)."""
        return self.of_parts(*self.wavelets.parts(brightness(encoded)))

    def of_parts(self, small: Tensor, moduli: tuple[Tensor, ...]) -> Tensor:
        """The features of what `Wavelets.parts` made of images."""
        pixels = small.flatten(1) @ self.pixel_frequencies
        waves = torch.cat(moduli, dim=1) @ self.wavelet_frequencies
        return torch.cat(
            [
                self._pixel_weight * torch.cat([pixels.cos(), pixels.sin()], dim=1),
                self._wavelet_weight * torch.cat([waves.cos(), waves.sin()], dim=1),
            ],
            dim=1,
        )


def _frequencies(
    lengths: tuple[float, ...], dimension: int, reference: int, count: int, source: torch.Generator
) -> Tensor:
    """Random frequencies, one block of columns for each length scale."""
    if not lengths:
        return torch.zeros(dimension, 0)
    stretch = math.sqrt(dimension / reference)
    blocks = [torch.randn(dimension, count, generator=source) / (length * stretch) for length in lengths]
    return torch.cat(blocks, dim=1)


def class_means(noisy_sums: Tensor, counts: Tensor) -> Tensor:
    """Post-processing: noisy sums over noisy or public counts, moved into the unit ball where every mean lies."""
    means = noisy_sums / counts.clamp(min=1.0).unsqueeze(1)
    inside: Tensor = means / means.norm(dim=1, keepdim=True).clamp(min=1.0)
    return inside.to(torch.float32)
