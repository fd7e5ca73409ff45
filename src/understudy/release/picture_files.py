"""Synthetic images as files to look at: a folder of PNG files by class, and a sheet with one class per row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw

from understudy import files
from understudy.errors import ReleaseError
from understudy.schema import ImageSchema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from understudy.schema import Schema

__all__ = ["write_picture_folder", "write_sheet"]

_MARGIN = 1
_CAPTION = 7
"""Pixels of a caption per character."""


def write_picture_folder(chunks: Iterator[Any], path: Path, schema: Schema | None) -> int:
    """Write `path/<class>/<number>.png`, as `fit` reads them; returns how many. The folder must not exist.

    Classes whose names cannot be those of folders are numbered.
    """
    names, written = _folder_names(schema), 0
    with files.new_folder(path, error=ReleaseError) as work:
        for chunk in chunks:
            for place, pixels in enumerate(chunk.pixels):
                folder = work if chunk.labels is None or not names else work / names[int(chunk.labels[place])]
                folder.mkdir(exist_ok=True)
                _picture(pixels).save(folder / f"{written:07}.png", "PNG")
                written += 1
    return written


def write_sheet(chunks: Iterator[Any], path: Path, schema: Schema | None) -> int:
    """Write all images as one PNG, a row for each class with its name before it; without classes ten in a row."""
    from understudy.records.images import Images
    from understudy.release.write import write_grid

    parts = list(chunks)
    pixels = np.concatenate([part.pixels for part in parts])
    names = _class_names(schema)
    if parts[0].labels is None or not names:
        write_grid(Images(pixels), path)
        return len(pixels)
    labels = np.concatenate([part.labels for part in parts])
    rows = [pixels[labels == one] for one in range(len(names))]
    _, height, width, channels = pixels.shape
    most = max(len(row) for row in rows)
    scale = max(1, 800 // max(len(names) * (height + _MARGIN), most * (width + _MARGIN)))
    left, step = 8 + _CAPTION * max(map(len, names)), scale * (height + _MARGIN)
    sheet = Image.new(
        "L" if channels == 1 else "RGB", (left + most * scale * (width + _MARGIN), len(names) * step), "white"
    )
    pen = ImageDraw.Draw(sheet)
    for line, (name, row) in enumerate(zip(names, rows, strict=True)):
        pen.text(
            (2, line * step + step // 2 - 6),
            name.encode("latin-1", "replace").decode("latin-1"),
            fill="black",
        )
        for place, one in enumerate(row):
            large = _picture(one).resize((width * scale, height * scale), Image.Resampling.NEAREST)
            sheet.paste(large, (left + place * scale * (width + _MARGIN), line * step))
    sheet.save(path, "PNG")
    return len(pixels)


def _class_names(schema: Schema | None) -> tuple[str, ...]:
    return (schema.classes if isinstance(schema, ImageSchema) else None) or ()


def _folder_names(schema: Schema | None) -> tuple[str, ...]:
    names = _class_names(schema)
    plain = all(re.fullmatch(r"\w[\w .+-]*", name) and not name.endswith((" ", ".")) for name in names)
    if plain and len({name.casefold() for name in names}) == len(names):
        return names
    return tuple(str(number) for number in range(len(names)))


def _picture(pixels: Any) -> Image.Image:
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
