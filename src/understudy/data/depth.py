"""The pixels of one file, whatever their depth, and how they become 8 bits: by a declared range or not at all."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from understudy.errors import DataError
from understudy.files import read_plain

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["in_eight_bits", "picture_values"]

_MAX_SIDE = 4096
_MAX_PICTURE = 2**28
_DICOM = (".dcm", ".dicom")
_FORMATS = ("PNG", "JPEG", "TIFF")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")


def in_eight_bits(values: NDArray[Any], known: tuple[float, float] | None) -> NDArray[np.uint8]:
    """Values from 0 to 255: as they are if they are bytes, else by the declared range, whose ends are black and white.

    Raises:
        DataError: there are more than 8 bits, and no range was declared; guessing one would tell about the images.
    """
    if known is None:
        if values.dtype != np.uint8:
            raise DataError(
                f"has {values.dtype} pixels, which are more than 8 bits; declare in the schema which values become "
                "black and white, such as range = [0, 4095]"
            )
        return values
    lower, upper = known
    share = (np.nan_to_num(values.astype(np.float32), nan=lower) - lower) / (upper - lower)
    pixels: NDArray[np.uint8] = np.rint(share.clip(0, 1) * 255).astype(np.uint8)
    return pixels


def picture_values(path: Path) -> NDArray[Any]:
    """The pixels of a file as they are, of shape (height, width, 1 or 3).

    Raises:
        DataError: it is damaged, of no known kind or too large; a sentence that goes on after the file's number.
    """
    content = read_plain(path, _MAX_PICTURE, error=DataError)
    values = _dicom_values(content) if path.suffix.lower() in _DICOM else _plain_values(content)
    return values if values.ndim == 3 else values[..., None]


def _plain_values(content: bytes) -> NDArray[Any]:
    try:
        # From memory: a chunk that claims gibibytes then reads no further than the file goes.
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            _refuse_large(image.height, image.width)
            if image.mode in _DEEP:
                return np.asarray(image)
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as cause:
        raise DataError("is damaged, or no PNG, JPEG or TIFF image", str(cause)) from None


def _dicom_values(content: bytes) -> NDArray[Any]:
    """Stored values with the file's own slope and intercept, such as Hounsfield units; low is dark."""
    try:
        import pydicom
    except ImportError:
        raise DataError("is a DICOM file: pip install 'understudy[medical]' to read it") from None
    try:
        found = pydicom.dcmread(io.BytesIO(content))
        _refuse_large(int(found.Rows), int(found.Columns))
        slope, shift = float(found.get("RescaleSlope", 1)), float(found.get("RescaleIntercept", 0))
        return np.asarray(found.pixel_array, dtype=np.float32) * np.float32(slope) + np.float32(shift)
    except DataError:
        raise
    except Exception as cause:  # noqa: BLE001 - decoders of many vendors raise what they like
        raise DataError("is damaged, or no DICOM image", str(cause)) from None


def _refuse_large(height: int, width: int) -> None:
    if max(height, width) > _MAX_SIDE:
        raise DataError(f"claims more than {_MAX_SIDE} pixels per side", f"{height} × {width} pixels")
