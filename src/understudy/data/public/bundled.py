"""The public sets that come inside scikit-learn, with schemas whose bounds are rounded published ranges.

The ranges of `breast-cancer`, `wine` and `iris` are those of the "Summary Statistics" in scikit-learn's own
descriptions (`sklearn.datasets.load_breast_cancer().DESCR`), rounded outwards; the pixels of `digits` lie in
0..16 by construction. Each set is split 4 : 1 by a hash of the row number, the same on every machine.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.data.records import Dataset, Records
from understudy.records.images import Images
from understudy.schema import Categorical, Continuous, ImageSchema, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from understudy.schema import Column, Schema

__all__ = ["BUNDLED_SCHEMAS", "load_bundled", "split"]

_CELL_RANGES = {
    "radius": ((6, 30), (0, 3), (6, 40)),
    "texture": ((8, 40), (0, 5), (10, 50)),
    "perimeter": ((40, 190), (0, 22), (50, 260)),
    "area": ((100, 2600), (0, 550), (150, 4300)),
    "smoothness": ((0.05, 0.17), (0, 0.04), (0.06, 0.24)),
    "compactness": ((0, 0.36), (0, 0.14), (0, 1.1)),
    "concavity": ((0, 0.44), (0, 0.4), (0, 1.3)),
    "concave points": ((0, 0.21), (0, 0.06), (0, 0.3)),
    "symmetry": ((0.1, 0.31), (0, 0.08), (0.15, 0.7)),
    "fractal dimension": ((0.04, 0.1), (0, 0.03), (0.05, 0.21)),
}

_WINE_RANGES = {
    "alcohol": (11, 15),
    "malic_acid": (0, 6),
    "ash": (1, 4),
    "alcalinity_of_ash": (10, 30),
    "magnesium": (70, 170),
    "total_phenols": (0, 4),
    "flavanoids": (0, 6),
    "nonflavanoid_phenols": (0, 1),
    "proanthocyanins": (0, 4),
    "color_intensity": (1, 13),
    "hue": (0, 2),
    "od280/od315_of_diluted_wines": (1, 4),
    "proline": (200, 1700),
}

_IRIS_RANGES = {
    "sepal length (cm)": (4, 8),
    "sepal width (cm)": (2, 5),
    "petal length (cm)": (1, 7),
    "petal width (cm)": (0, 3),
}


def _cells() -> TableSchema:
    columns: list[Column] = [
        Continuous(pattern.format(name), float(ranges[i][0]), float(ranges[i][1]))
        for i, pattern in enumerate(("mean {}", "{} error", "worst {}"))
        for name, ranges in _CELL_RANGES.items()
    ]
    return TableSchema((*columns, Categorical("diagnosis", ("malignant", "benign"))), label="diagnosis")


def _measures(ranges: dict[str, tuple[int, int]], label: str, classes: tuple[str, ...]) -> TableSchema:
    columns = tuple(Continuous(name, float(low), float(high)) for name, (low, high) in ranges.items())
    return TableSchema((*columns, Categorical(label, classes)), label=label)


BUNDLED_SCHEMAS: dict[str, Schema] = {
    "digits": ImageSchema(8, 8, 1, classes=tuple("0123456789")),
    "breast-cancer": _cells(),
    "wine": _measures(_WINE_RANGES, "cultivar", ("class_0", "class_1", "class_2")),
    "iris": _measures(_IRIS_RANGES, "species", ("setosa", "versicolor", "virginica")),
}
"""The ready schema of every set inside scikit-learn."""


def load_bundled(name: str) -> Dataset:
    """Return the named set with its two parts. The name must be a key of `BUNDLED_SCHEMAS`."""
    from sklearn import datasets

    schema = BUNDLED_SCHEMAS[name]
    loader: Callable[..., Any] = getattr(datasets, f"load_{name.replace('-', '_')}")
    if isinstance(schema, ImageSchema):
        bunch = loader()
        pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
        labels = bunch.target.astype(np.int64)
        train, test = (Images(pixels[part], labels[part]) for part in split(name, len(pixels)))
        return Dataset(name, Records(train), Records(test), schema)
    bunch = loader(as_frame=True)
    assert isinstance(schema, TableSchema)
    frame = bunch.data.copy()
    frame[schema.label] = np.array(bunch.target_names, dtype=object)[bunch.target.to_numpy()]
    parts = (frame.iloc[part].reset_index(drop=True) for part in split(name, len(frame)))
    return Dataset(name, Records(next(parts)), Records(next(parts)), schema)


def split(name: str, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of the train part (four fifths) and of the test part, both in order."""
    shuffled = sorted(range(rows), key=lambda row: hashlib.sha256(f"{name}/{row}".encode()).digest())
    cut = rows - rows // 5
    return np.sort(np.array(shuffled[:cut])), np.sort(np.array(shuffled[cut:]))
