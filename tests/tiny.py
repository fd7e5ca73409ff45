"""Tiny data and tiny plans that many tests share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from understudy.planning import Plan, plan
from understudy.records.images import Images
from understudy.schema import Binary, Categorical, Continuous, ImageSchema, Integer, TableSchema

TINY_TABLE = TableSchema(
    (
        Continuous("height", 0.0, 2.0),
        Integer("visits", 0, 30),
        Binary("smoker", ("no", "yes")),
        Categorical("town", ("north", "south", "west")),
        Categorical("outcome", ("well", "ill")),
    ),
    label="outcome",
)
TINY_IMAGES = ImageSchema(8, 8, 1, classes=("ring", "bar"))


def tiny_frame(rows: int = 64, seed: int = 0) -> pd.DataFrame:
    """Rows that fit TINY_TABLE."""
    source = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "height": source.uniform(1.0, 2.0, rows),
            "visits": source.integers(0, 31, rows),
            "smoker": source.choice(["no", "yes"], rows),
            "town": source.choice(["north", "south", "west"], rows),
            "outcome": source.choice(["well", "ill"], rows, p=[0.75, 0.25]),
        }
    )


def three_sets(rows: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, hold-out and honest synthetic rows of one distribution."""
    training, holdout, fresh = np.random.default_rng(0).normal(size=(3, rows, 4))
    return training, holdout, fresh


def tiny_images(rows: int = 64, seed: int = 0) -> Images:
    """Images that fit TINY_IMAGES."""
    source = np.random.default_rng(seed)
    return Images(source.integers(0, 256, (rows, 8, 8, 1), dtype=np.uint8), source.integers(0, 2, rows))


def tiny_plan(schema: TableSchema | ImageSchema | None = TINY_TABLE, **options: object) -> Plan:
    """Three private steps of a critic on 64 rows."""
    settings: dict[str, object] = {
        "epsilon": 2.0,
        "delta": 1e-3,
        "rows": 64,
        "batch": 8,
        "steps": 3,
        "recipe": "dp-cgan",
    }
    return plan(schema, **{**settings, **options})  # type: ignore[arg-type]


def stop_after(steps: int) -> Callable[[], bool]:
    """A stop request that comes after this many steps; it is asked once before them, when the rows are read."""
    left = [steps + 1]

    def asked() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return asked
