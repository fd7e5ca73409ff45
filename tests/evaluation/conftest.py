"""Stand-ins for releases: objects with a schema that draw rows from a pool of real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from understudy.records.images import Images

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.schema import Schema


@dataclass(frozen=True)
class PoolRelease:
    """Draws rows with replacement; what an ideal generator would do if it kept the pool."""

    schema: Schema
    pool: pd.DataFrame | Images

    def sample(self, rows: int, *, seed: int | None = None) -> pd.DataFrame | Images:
        """Rows of the pool."""
        chosen = np.random.default_rng(seed).integers(0, len(self.pool), rows)
        if isinstance(self.pool, pd.DataFrame):
            return self.pool.iloc[chosen].reset_index(drop=True)
        labels = None if self.pool.labels is None else self.pool.labels[chosen]
        return Images(self.pool.pixels[chosen], labels)


@pytest.fixture
def pool_release() -> Callable[[Schema, pd.DataFrame | Images], PoolRelease]:
    """The constructor of the stand-in."""
    return PoolRelease
