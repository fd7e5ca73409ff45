"""Drawing from many tables of chances at once, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["cumulative", "drawn"]

_BELOW_ONE = 1 - 2**-30
"""The greatest random number: with the number of a row added it must not round to the next row."""


def cumulative(chances: NDArray[np.floating[Any]]) -> Floats:
    """Cumulative chances of each row plus its number, in one increasing line, so that one search finds all."""
    found: Floats = np.cumsum(chances.astype(np.float64), axis=-1)
    found = np.minimum(found / found[:, -1:], 1.0) + np.arange(len(found))[:, None]
    return found.ravel()


def drawn(line: Floats, rows: Ints, uniform: Floats, width: int) -> Ints:
    """An outcome of each of these rows of `cumulative`, all of this width."""
    below_one = np.minimum(uniform, _BELOW_ONE)
    found: Ints = np.searchsorted(line, rows + below_one, side="right") - rows * width
    return np.clip(found, 0, width - 1)
