"""Random distortions of generated images: rotation, scale, shear, shift and mirroring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from understudy.synthesizers.embedding.recipe import Warp

__all__ = ["warped"]


def warped(encoded: Tensor, warp: Warp, source: torch.Generator) -> Tensor:
    """Encoded images, each distorted by its own random draw; what enters from outside repeats the border."""
    grid = functional.affine_grid(
        _affine(len(encoded), warp, source), list(encoded.shape), align_corners=False
    )
    moved = functional.grid_sample(encoded, grid, mode="bicubic", padding_mode="border", align_corners=False)
    return moved.clamp(-1, 1)


def _affine(rows: int, warp: Warp, source: torch.Generator) -> Tensor:
    """One 2×3 matrix per image, in the coordinates of `affine_grid`, where a side has length 2."""
    draws = torch.rand(6, rows, generator=source) * 2 - 1
    angle, shear = draws[0] * warp.rotation, draws[3] * warp.shear
    wide, high = 1 + draws[1] * warp.scale, 1 + draws[2] * warp.scale
    right, down = draws[4] * 2 * warp.shift, draws[5] * 2 * warp.shift
    if warp.mirrored:
        wide = torch.where(torch.rand(rows, generator=source) < 0.5, -wide, wide)
    cosine, sine = angle.cos(), angle.sin()
    first = torch.stack([cosine * wide, shear - sine * high, right], dim=1)
    second = torch.stack([sine * wide, cosine * high, down], dim=1)
    return torch.stack([first, second], dim=1)
