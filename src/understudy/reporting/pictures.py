"""Images as PNG inside the page: contact sheets of synthetic images, and neighbours side by side."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

__all__ = ["Picture", "contact_sheet"]

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """A picture with the words that stand for it."""

    data_uri: str
    alt: str
    width: int
    height: int


def contact_sheet(images: Pixels, columns: int, alt: str, *, gap: int = 1) -> Picture:
    """A grid of (rows, height, width, channels) images, row by row, enlarged to at least 32 pixels each."""
    scale = max(1, -(-32 // max(images.shape[1:3])))
    images = images.repeat(scale, axis=1).repeat(scale, axis=2)
    count, height, width, channels = images.shape
    lines = -(-count // columns)
    sheet = np.full((lines * (height + gap) - gap, columns * (width + gap) - gap, channels), 255, np.uint8)
    for place, image in enumerate(images):
        top, left = (height + gap) * (place // columns), (width + gap) * (place % columns)
        sheet[top : top + height, left : left + width] = image
    return Picture(_uri(sheet), alt, sheet.shape[1], sheet.shape[0])


def _uri(pixels: npt.NDArray[Any]) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
