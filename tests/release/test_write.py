"""Writing synthetic records: every format, and never half a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from understudy.errors import ReleaseError
from understudy.records.images import Images
from understudy.release.release import Release
from understudy.release.sampling import sample_chunks
from understudy.release.write import image_grid, write_records


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_tables_come_back_equal(table_release: Release, tmp_path: Path, name: str) -> None:
    """What is read from the file is what was drawn."""
    told: list[int] = []
    written = write_records(
        sample_chunks(table_release, 5000, seed=1), tmp_path / name, on_progress=told.append
    )
    assert (written, sum(told)) == (5000, 5000)
    read = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
    drawn = table_release.sample(5000, seed=1)
    pd.testing.assert_frame_equal(read, drawn, check_dtype=False)  # type: ignore[arg-type]


def test_images_come_back_equal(image_release: Release, tmp_path: Path) -> None:
    """An npz holds pixels and labels, and opens without pickle."""
    write_records(sample_chunks(image_release, 20, seed=1), tmp_path / "set.npz")
    with np.load(tmp_path / "set.npz", allow_pickle=False) as file:
        drawn = image_release.sample(20, seed=1)
        assert isinstance(drawn, Images)
        assert np.array_equal(file["images"], drawn.pixels)
        assert np.array_equal(file["labels"], drawn.labels)


def test_a_png_shows_every_image(image_release: Release, tmp_path: Path) -> None:
    """The picture is a grid large enough to see."""
    write_records(sample_chunks(image_release, 20, seed=1), tmp_path / "look.png")
    with Image.open(tmp_path / "look.png") as picture:
        assert picture.width >= 400


def test_the_grid_places_images_in_reading_order() -> None:
    """The second image stands to the right of the first, the third below."""
    pixels = np.zeros((3, 2, 2, 1), np.uint8)
    pixels[1], pixels[2] = 100, 200
    grid = image_grid(Images(pixels), columns=2, margin=0)[:, :, 0]
    assert grid.tolist() == [[0, 0, 100, 100], [0, 0, 100, 100], [200, 200, 255, 255], [200, 200, 255, 255]]


@pytest.mark.parametrize(
    ("name", "text"),
    [("rows.xlsx", "unknown ending"), ("rows.png", "makes a table"), ("rows", "unknown ending")],
)
def test_a_wrong_ending_is_refused(table_release: Release, tmp_path: Path, name: str, text: str) -> None:
    """The ending must fit the records; nothing is written otherwise."""
    with pytest.raises(ReleaseError, match=text):
        write_records(sample_chunks(table_release, 5), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_file_behind(table_release: Release, tmp_path: Path) -> None:
    """If drawing fails in the middle, neither the target nor a temporary file remains."""

    def broken() -> object:
        yield from sample_chunks(table_release, 5)
        raise OSError("disk full")

    with pytest.raises(ReleaseError, match="disk full"):
        write_records(broken(), tmp_path / "rows.csv")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
