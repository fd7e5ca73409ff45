"""`Images`: pixels with their labels, real or synthetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Images"]


@dataclass(frozen=True, eq=False)
class Images:
    """A set of images of one size.

    Args:
        pixels: uint8 of shape (n, height, width, channels).
        labels: for each image the index of its class in the schema, or None.
        persons: for each image the number of its person, or None where nothing tells persons apart.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64] | None = None
    persons: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.pixels.dtype != np.uint8:
            raise DataError(
                "pixels must be uint8 of shape (n, height, width, channels), "
                f"got {self.pixels.dtype} of shape {self.pixels.shape}"
            )
        if self.labels is not None and self.labels.shape != (len(self.pixels),):
            raise DataError(f"{len(self.pixels)} images need as many labels, got shape {self.labels.shape}")
        if self.persons is not None and self.persons.shape != (len(self.pixels),):
            raise DataError(f"{len(self.pixels)} images need as many persons, got shape {self.persons.shape}")

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        height, width, channels = self.pixels.shape[1:]
        return f"Images({height} × {width} × {channels}, labelled: {self.labels is not None})"
