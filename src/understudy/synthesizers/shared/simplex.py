"""Noisy counts made possible: not negative, and with the sum that is known. Post-processing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["on_simplex"]


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest numbers that are not negative and have this sum (Duchi et al., 2008)."""
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > shift)[-1]
    nearest: Floats = np.maximum(values - shift[last], 0)
    return nearest
