"""The pixels of one file, whatever their depth, and how they become 8 bits: by a declared range or not at all."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from understudy.errors import DataError
from understudy.files import read_plain

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from understudy.schema import ImageSchema

__all__ = ["DamagedError", "Picture", "as_declared", "in_eight_bits", "is_dicom", "read_picture"]

_MAX_SIDE = 4096
_MAX_PICTURE = 2**28
_DICOM = (".dcm", ".dicom")
_FORMATS = ("PNG", "JPEG", "TIFF")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")
_LUMINANCE = np.array([19595, 38470, 7471], dtype=np.uint32)
"""Of ITU-R 601, in parts of 2¹⁶."""


class DamagedError(DataError):
    """A file that cannot be read as an image at all, as opposed to one that is not as the schema says."""


@dataclass(frozen=True, eq=False)
class Picture:
    """PRIVATE: the pixels of one file as they are.

    Args:
        values: of shape (height, width, 1 or 3).
        inverted: whether large values are dark.
    """

    values: NDArray[Any]
    inverted: bool = False


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


def as_declared(pixels: NDArray[np.uint8], schema: ImageSchema) -> NDArray[np.uint8]:
    """Images of any number of axes, of which the last counts channels, in as many channels as the schema says.

    Raises:
        DataError: they have others, and the schema does not let them be converted.
    """
    if pixels.shape[-1] == schema.channels:
        return pixels
    if not schema.convert or pixels.shape[-1] not in (1, 3):
        raise DataError(
            f"is {_colour(pixels.shape[-1])}, and the schema says {_colour(schema.channels)}; correct channels, or set "
            "convert = true to have it converted"
        )
    if schema.channels == 3:
        return np.repeat(pixels, 3, axis=-1)
    grey: NDArray[np.uint8] = ((pixels @ _LUMINANCE + 2**15) >> 16).astype(np.uint8)
    return grey[..., None]


def _colour(channels: int) -> str:
    return {1: "grey (1 channel)", 3: "in colour (3 channels)"}.get(channels, f"of {channels} channels")


def read_picture(path: Path) -> Picture:
    """The pixels of a file as they are.

    Raises:
        DamagedError: it cannot be read; a sentence that goes on after the file's number.
        DataError: it is of a kind that is not taken; the same.
    """
    content = read_plain(path, _MAX_PICTURE, error=DamagedError)
    if path.suffix.lower() in _DICOM or content[128:132] == b"DICM":
        return _dicom(content)
    values = _plain_values(content)
    return Picture(values if values.ndim == 3 else values[..., None])


def is_dicom(path: Path) -> bool:
    """Whether a file begins as DICOM files do, whatever its name is."""
    try:
        with path.open("rb") as file:
            return file.read(132)[128:] == b"DICM"
    except OSError:
        return False


def _plain_values(content: bytes) -> NDArray[Any]:
    try:
        # From memory: a chunk that claims gibibytes then reads no further than the file goes.
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            _refuse_large(image.height, image.width)
            if getattr(image, "n_frames", 1) > 1:
                raise DataError("has several pages; save each as a file of its own")
            if any("RGB;16" in str(tile) for tile in image.tile):
                raise DataError("is in colour of 16 bits, which is not taken; save it in 8 bits")
            if image.mode in _DEEP:
                return np.asarray(image)
            return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as cause:
        raise DamagedError("is damaged, or no PNG, JPEG or TIFF image", str(cause)) from None


def _dicom(content: bytes) -> Picture:
    """Stored values with the file's own slope and intercept, such as Hounsfield units, or colours of 8 bits."""
    try:
        import pydicom
        from pydicom.pixels.processing import apply_modality_lut
        from pydicom.pixels.utils import pixel_array
    except ImportError:
        raise DataError("is a DICOM file: pip install 'understudy[medical]' to read it") from None
    try:
        found = pydicom.dcmread(io.BytesIO(content))
        _refuse_large(int(found.Rows), int(found.Columns))
        kind = str(found.PhotometricInterpretation)
    except Exception as cause:  # noqa: BLE001 - files of many vendors raise what they like
        raise DamagedError("is damaged, or no DICOM image", str(cause)) from None
    _refuse_strange(found, kind)
    try:
        stored = pixel_array(found)
        if stored.ndim == 3:
            return Picture(np.asarray(stored))
        values = np.asarray(apply_modality_lut(stored, found))
    except Exception as cause:  # noqa: BLE001 - decoders of many vendors raise what they like
        raise DamagedError("is damaged, or no DICOM image", str(cause)) from None
    values = values if values.dtype == np.uint8 else values.astype(np.float32)
    return Picture(values[..., None], inverted=kind == "MONOCHROME1")


def _refuse_strange(found: Any, kind: str) -> None:
    """Refuse what is no damage, and so is never skipped: several frames, palettes, and codes without a decoder."""
    from pydicom.pixels.decoders.base import get_decoder

    if int(found.get("NumberOfFrames") or 1) > 1:
        raise DataError("has several frames; save each as a file of its own")
    if not kind.startswith(("MONOCHROME", "RGB", "YBR")):
        raise DataError("has colours by a palette; save it as grey or RGB", f"it is {kind}")
    if not kind.startswith("MONOCHROME") and int(found.BitsAllocated) != 8:
        raise DataError("is in colour of more than 8 bits, which is not taken; save it in 8 bits")
    code = found.file_meta.get("TransferSyntaxUID") if hasattr(found, "file_meta") else None
    if code is not None and code.is_compressed and not get_decoder(code).is_available:
        raise DataError(
            f"is packed as {code.name}, for which no decoder is installed: pip install 'pylibjpeg[all]', or save it "
            "unpacked"
        )


def _refuse_large(height: int, width: int) -> None:
    if max(height, width) > _MAX_SIDE:
        raise DamagedError(f"claims more than {_MAX_SIDE} pixels per side", f"{height} × {width} pixels")
