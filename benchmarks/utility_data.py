"""The labelled images that the utility benchmark measures on: known sets, or folders with a train and a test part.

`/data/cifar10` may hold `train/<class>/*.jpg` and `test/<class>/*.jpg`, or `train.npz` and `test.npz` with `images` and
`labels`. They are taken for public: their sizes and classes become the schema.
"""

from __future__ import annotations

from pathlib import Path

from understudy.data import known, known_names, read
from understudy.data.pictures import folder_classes
from understudy.data.records import Dataset
from understudy.errors import DataError
from understudy.schema import ImageSchema

__all__ = ["image_set"]


def image_set(name: str) -> Dataset:
    """A known set by its name, or the two parts that lie in a folder.

    Raises:
        DataError: it is neither, or has no labels.
    """
    if name in known_names():
        return known(name)
    parts = {part: _part(Path(name), part) for part in ("train", "test")}
    train = read(parts["train"])
    labels = train.images.labels
    if labels is None:
        raise DataError(f"{parts['train']} has no labels; the benchmark needs labelled images")
    numbered = tuple(str(number) for number in range(int(labels.max()) + 1))
    classes = folder_classes(parts["train"]) if parts["train"].is_dir() else numbered
    height, width, channels = train.images.pixels.shape[1:]
    schema = ImageSchema(height, width, channels, classes)
    return Dataset(Path(name).name, train, read(parts["test"], schema), schema)


def _part(folder: Path, part: str) -> Path:
    for place in (folder / part, folder / f"{part}.npz"):
        if place.exists():
            return place
    raise DataError(f"{folder} is no known set, and holds neither {part}/ nor {part}.npz")
