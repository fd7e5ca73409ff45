"""Synthetic images as files: a folder by class that can be read again, and a sheet with one class per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from understudy.data import read
from understudy.errors import ReleaseError
from understudy.records.images import Images
from understudy.release.write import write_records
from understudy.schema import ImageSchema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = ImageSchema(4, 5, 1, ("cat", "dog"))
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 5, 1), dtype=np.uint8)
LABELS = np.array([1, 0, 1, 1, 0])


def test_a_folder_comes_back_as_a_folder(tmp_path: Path) -> None:
    """What is written by class is read again with the same pixels and classes, and nothing is written over."""
    chunks = [Images(PIXELS[:3], LABELS[:3]), Images(PIXELS[3:], LABELS[3:])]
    assert write_records(iter(chunks), tmp_path / "made", schema=SCHEMA) == 5
    again = read(tmp_path / "made", SCHEMA).images
    assert again.labels is not None
    for one in (0, 1):
        assert np.array_equal(again.pixels[again.labels == one], PIXELS[one == LABELS])
    with pytest.raises(ReleaseError, match="exists already"):
        write_records(iter(chunks), tmp_path / "made", schema=SCHEMA)


def test_names_that_leave_the_folder_are_numbered(tmp_path: Path) -> None:
    """A class called ../x writes into its own numbered folder."""
    strange = ImageSchema(4, 5, 1, ("../x", "dog"))
    write_records(iter([Images(PIXELS, LABELS)]), tmp_path / "made", schema=strange)
    assert sorted(one.name for one in (tmp_path / "made").iterdir()) == ["0", "1"]
    assert not (tmp_path / "x").exists()


def test_a_sheet_has_a_row_for_each_class(tmp_path: Path) -> None:
    """The first class stands in the first row, after its name."""
    write_records(iter([Images(PIXELS, LABELS)]), tmp_path / "made.png", schema=SCHEMA)
    sheet = np.asarray(Image.open(tmp_path / "made.png"))
    scale, left = 800 // 18, 8 + 7 * 3
    assert sheet.shape == (2 * scale * 5, left + 3 * scale * 6)
    for row, first in enumerate((1, 0)):
        shown = sheet[row * scale * 5 :: scale, left::scale][:4, :5]
        assert np.array_equal(shown, PIXELS[first, :, :, 0])
    assert (sheet[:, :left] < 128).any()
