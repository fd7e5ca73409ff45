"""Input noise of generators, and the shape of images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from understudy.errors import PlanError
from understudy.synthesizers.shared.parts import LatentLaw

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.synthesizers.shared.parts import Latent

__all__ = ["draw_latent", "image_shape"]


def draw_latent(latent: Latent, rows: int, source: torch.Generator) -> Tensor:
    """Input noise for `rows` records."""
    match latent.law:
        case LatentLaw.NORMAL:
            return torch.randn(rows, latent.dim, generator=source)
        case LatentLaw.UNIFORM:
            return torch.rand(rows, latent.dim, generator=source) * 2 - 1


def image_shape(shape: tuple[int, ...], recipe: str) -> tuple[int, int, int]:
    """(channels, height, width), or an explanation why this recipe does not fit the data."""
    if len(shape) != 3:
        raise PlanError(
            f"recipe {recipe!r} has convolutional networks and needs images, but the schema describes vectors of "
            f"{math.prod(shape)} values. Use a recipe with dense networks, such as dp-cgan."
        )
    return shape[0], shape[1], shape[2]
