"""Images from a folder with one subfolder per class, from `.npz` archives and from IDX files.

Nothing is unpickled, and a header that claims more than its file can hold is refused before memory is taken.
"""

from __future__ import annotations

import gzip
import lzma
import math
import struct
import warnings
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pandas as pd

from understudy.data.bounds import PIXEL_WEIGHT, refuse_swollen
from understudy.data.depth import DamagedError, Picture, as_declared, in_eight_bits, is_dicom, read_picture
from understudy.data.records import Records
from understudy.errors import CuratorWarning, DataError
from understudy.files import plain_size
from understudy.records.images import Images
from understudy.records.persons import person_numbers
from understudy.schema import ImageSchema

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "first_picture",
    "folder_classes",
    "is_idx",
    "read_folder",
    "read_idx",
    "read_idx_array",
    "read_npz",
]

_PERSONS = "persons.csv"
_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".dcm", ".dicom")
_DEFLATE_RATIO = 1032  # the best that zlib's deflate can do (zlib.net/zlib_tech.html)
_IDX_TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IMAGE_KEYS = ("images", "x", "arr_0")
_LABEL_KEYS = ("labels", "y", "arr_1")
_BROKEN_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # a member that claims to be encrypted
)


# ---------------------------------------------------------------------------------------------- folders


def folder_classes(root: Path) -> tuple[str, ...]:
    """Return the names of the subfolders, sorted; hidden ones do not count."""
    return tuple(sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")))


def read_folder(root: Path, schema: ImageSchema | None = None) -> Records:
    """Read `root/<class>/*.png` (or .jpg, .tif, .dcm); without classes `root/*.png`.

    DICOM files need no ending. All images must have one size, and be grey or colour as the schema says, unless it lets
    them be converted; without a schema all must be as the first one is. More than 8 bits need the schema's `range`. All
    files that cannot be read are told at once, or left out if the schema says so. Where the schema names a column of
    persons, `root/persons.csv` tells whose image each `file` is.
    """
    classes = folder_classes(root) if schema is None else schema.classes
    files: list[tuple[Path, int]] = []
    for label, name in enumerate(classes or (".",)):
        found = _pictures(root / name)
        if not found:
            raise DataError(
                f"{root / name} holds no {', '.join(_PICTURES)} file; expected {root}/<class>/<image>.png"
                + (f" for each of the classes {', '.join(classes)}" if classes else "")
            )
        files += [(path, label) for path in found]
    if classes and set(folder_classes(root)) - set(classes):
        stranger = min(set(folder_classes(root)) - set(classes))
        raise DataError(
            f"{root / stranger} is not a class of the schema; add it there or move the folder away"
        )
    pixels, kept = _load_all([path for path, _ in files], schema)
    files = [files[place] for place in kept]
    labels = np.array([label for _, label in files], dtype=np.int64) if classes else None
    return Records(Images(pixels, labels, _persons_of_files(root, [path for path, _ in files], schema)))


def _persons_of_files(root: Path, files: list[Path], schema: ImageSchema | None) -> NDArray[np.int64] | None:
    """The persons that `root/persons.csv` names for the images, each by its path from `root` in the column `file`."""
    listed = root / _PERSONS
    if schema is None or not schema.person_columns or not listed.exists():
        return None
    try:
        table = pd.read_csv(listed, dtype=str, skipinitialspace=True, encoding="utf-8-sig")
    except (OSError, ValueError) as cause:
        raise DataError(f"cannot read {listed} as CSV", str(cause)) from None
    absent = [name for name in ("file", *schema.person_columns) if name not in table.columns]
    if absent:
        raise DataError(
            f"{listed} has no column {absent[0]!r}; it needs file and {', '.join(schema.person_columns)}"
        )
    table = table.assign(file=table["file"].str.strip().str.replace("\\", "/")).drop_duplicates("file")
    found = table.set_index("file").reindex([path.relative_to(root).as_posix() for path in files])
    return person_numbers(found, schema.person_columns)


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    visible = sorted(p for p in folder.iterdir() if not p.name.startswith(".") and p.name != _PERSONS)
    return [p for p in visible if p.suffix.lower() in _PICTURES or (p.is_file() and is_dicom(p))]


def _load_all(paths: list[Path], schema: ImageSchema | None) -> tuple[NDArray[np.uint8], list[int]]:
    """The pixels of files, and the places of those that are not left out."""
    packed = sum(plain_size(path, error=DataError) for path in paths)
    schema = schema or ImageSchema(*_values_of_first(paths[0]).shape)
    shape = (schema.height, schema.width, schema.channels)
    _refuse_huge((len(paths), *shape), 1, packed, str(paths[0].parent))
    pixels = np.empty((len(paths), *shape), dtype=np.uint8)
    broken: dict[int, DataError] = {}
    for i, path in enumerate(paths):
        try:
            pixels[i] = _fitting(read_picture(path), schema)
        except DataError as cause:
            broken[i] = cause
    if not broken:
        return pixels, list(range(len(paths)))
    if not schema.skip_damaged or not all(isinstance(one, DamagedError) for one in broken.values()):
        raise _all_broken({i + 1: cause for i, cause in broken.items()}, paths)
    warnings.warn(
        f"{len(broken)} of {len(paths)} image files are damaged and are left out; nobody else is told.",
        CuratorWarning,
        stacklevel=2,
    )
    kept = [i for i in range(len(paths)) if i not in broken]
    if not kept:
        raise DataError(f"{paths[0].parent} holds no image that can be read")
    return pixels[kept], kept


def first_picture(root: Path) -> NDArray[Any]:
    """The pixels, as they are, of the first image of a folder: their shape and depth are those of all."""
    folders = [root / name for name in folder_classes(root)] or [root]
    found = [path for folder in folders for path in _pictures(folder)][:1]
    if not found:
        raise DataError(f"{root} holds no {', '.join(_PICTURES)} file; expected {root}/<class>/<image>.png")
    return _values_of_first(found[0])


def _values_of_first(path: Path) -> NDArray[Any]:
    try:
        return read_picture(path).values
    except DataError as cause:
        raise _all_broken({1: cause}, [path]) from None


def _fitting(picture: Picture, schema: ImageSchema) -> NDArray[np.uint8]:
    """One image in 8 bits, of the size and colour that were declared."""
    height, width = picture.values.shape[:2]
    if (height, width) != (schema.height, schema.width):
        raise DataError(
            f"has another size than {schema.height} × {schema.width} pixels (height × width); scale it, or correct the "
            "schema",
            f"{height} × {width} pixels",
        )
    pixels = in_eight_bits(picture.values, schema.range)
    return as_declared(255 - pixels if picture.inverted else pixels, schema)


def _all_broken(broken: dict[int, DataError], paths: list[Path]) -> DataError:
    """The names of files are those of persons as often as not, so the message has none."""
    number, first = next(iter(broken.items()))
    more = [str(one) for one in broken if one != number]
    rest = f". {len(broken)} images cannot be taken; the others: {', '.join(more[:20])}" if more else ""
    rest += f" and {len(more) - 20} more" if len(more) > 20 else ""
    told = "\n".join(f"{paths[one - 1]}: {cause}" for one, cause in broken.items())
    return DataError(f"image {number} (in the order of classes and names) {first}{rest}", told)


# ------------------------------------------------------------------------------------------------- npz


def read_npz(path: Path, schema: ImageSchema | None = None) -> Records:
    """Read images (n, h, w) or (n, h, w, c) from the key `images`, `x` or `arr_0`.

    Pixels are uint8, or any numbers if the schema has a `range`. Labels, if any, are whole numbers or names of classes
    under `labels`, `y` or `arr_1`, and persons under the names that the schema gives. Object arrays are refused.
    """
    plain_size(path, error=DataError)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            key = next((key for key in _IMAGE_KEYS if key in members), None)
            if key is None:
                raise DataError(
                    f"{path} has the arrays {sorted(members)}; expected one named {' or '.join(_IMAGE_KEYS)}"
                )
            pixels = read_npz_member(archive, members[key], str(path))
            label_key = next((key for key in _LABEL_KEYS if key in members), None)
            labels = read_npz_member(archive, members[label_key], str(path)) if label_key else None
            named = () if schema is None else schema.person_columns
            persons = {
                name: read_npz_member(archive, members[name], str(path)) for name in named if name in members
            }
    except _BROKEN_ARCHIVE as cause:
        raise DataError(f"cannot read {path} as .npz; it is damaged", str(cause)) from cause
    records = _as_records(pixels, labels, schema, str(path))
    return Records(
        replace(records.images, persons=_persons_of_arrays(persons, named, len(records), str(path)))
    )


def _persons_of_arrays(
    arrays: dict[str, NDArray[Any]], names: tuple[str, ...], count: int, place: str
) -> NDArray[np.int64] | None:
    for name, array in arrays.items():
        if array.shape != (count,):
            raise DataError(f"{name} in {place} must tell the person of each image, one value for each")
    return person_numbers({name: array.tolist() for name, array in arrays.items()}, names)


def read_npz_member(archive: zipfile.ZipFile, name: str, place: str) -> NDArray[Any]:
    """Read one array after comparing what its header claims with the size of the member."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(file)
        if dtype.hasobject:
            raise DataError(
                f"{name} in {place} holds Python objects, which could run code; save plain numbers"
            )
        info = archive.getinfo(name)
        claimed = _refuse_huge(shape, dtype.itemsize, info.compress_size, f"{name} in {place}")
        if (
            file.tell() + claimed != info.file_size
            or info.file_size > info.compress_size * _DEFLATE_RATIO + 1024
        ):
            raise DataError(
                f"{name} in {place} claims a shape that does not fit its size; it is damaged",
                f"the shape is {shape} of {dtype}",
            )
        values = np.frombuffer(file.read(claimed), dtype=dtype)
    return values.reshape(shape, order="F" if fortran else "C")


# ------------------------------------------------------------------------------------------------- IDX


def is_idx(path: Path) -> bool:
    """Whether the name looks like an IDX file, as MNIST's `train-images-idx3-ubyte.gz`."""
    name = path.name.removesuffix(".gz")
    return name.endswith((".idx", "-ubyte", ".idx3-ubyte", ".idx1-ubyte"))


def read_idx(path: Path, schema: ImageSchema | None = None) -> Records:
    """Read images from an IDX file, and labels from the file beside it with `labels-idx1` in its name."""
    pixels = read_idx_array(path)
    sibling = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if sibling == path or not sibling.exists():
        if schema is not None and schema.classes is not None:
            raise DataError(
                f"the schema has classes, but there is no file {sibling.name} with labels beside {path}"
            )
        return _as_records(pixels, None, schema, str(path))
    return _as_records(pixels, read_idx_array(sibling), schema, str(path))


def read_idx_array(path: Path) -> NDArray[Any]:
    """Read one IDX file, plain or gzipped, refusing headers that the file cannot honour."""
    try:
        packed = plain_size(path, error=DataError)
        with ExitStack() as stack:
            file: BinaryIO = stack.enter_context(path.open("rb"))
            if path.suffix == ".gz":
                file = stack.enter_context(gzip.GzipFile(fileobj=file))  # type: ignore[assignment]
            most = packed * (_DEFLATE_RATIO if path.suffix == ".gz" else 1)
            return _parse_idx(file, most, path)
    except (OSError, EOFError, zlib.error) as cause:
        raise DataError(f"cannot read {path} as IDX; it is damaged", str(cause)) from cause


def _parse_idx(file: BinaryIO, most: int, path: Path) -> NDArray[Any]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not 1 <= magic[3] <= 4:
        raise DataError(
            f"{path} does not begin like an IDX file (two zero bytes, type, dimensions)",
            f"it begins with {magic!r}",
        )
    dtype = np.dtype(_IDX_TYPES[magic[2]])
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{path} ends within its header")
    shape = tuple(int(size) for size in np.frombuffer(sizes, dtype=">u4"))
    claimed = _refuse_huge(shape, dtype.itemsize, path.stat().st_size, str(path))
    if claimed > most:
        raise DataError(
            f"{path} claims more than a file of its size can hold; it is damaged", f"the shape is {shape}"
        )
    content = file.read(claimed)
    if len(content) != claimed or file.read(1):
        raise DataError(
            f"{path} holds {'less' if len(content) < claimed else 'more'} than it claims; it is damaged",
            f"the shape is {shape}",
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape)


# ---------------------------------------------------------------------------------------------- shared


def _refuse_huge(shape: tuple[int, ...], itemsize: int, packed: int, place: str) -> int:
    """Return how many bytes the shape needs, or refuse if they are too many for a file of this length."""
    needed = math.prod(shape) * itemsize
    refuse_swollen(needed * PIXEL_WEIGHT, packed, place)
    return needed


def _as_records(
    pixels: NDArray[Any], labels: NDArray[Any] | None, schema: ImageSchema | None, place: str
) -> Records:
    known = None if schema is None else schema.range
    if (
        pixels.dtype.kind not in "uif"
        or (pixels.dtype != np.uint8 and known is None)
        or pixels.ndim not in (3, 4)
    ):
        raise DataError(
            f"{place} holds {pixels.dtype} of {pixels.ndim} dimensions; images are uint8 (0 to 255) of shape "
            "(n, height, width) or (n, height, width, channels), or other numbers if the schema declares their range, "
            "such as range = [0, 4095]",
            f"the shape is {pixels.shape}",
        )
    pixels = in_eight_bits(pixels, known)
    pixels = pixels if pixels.ndim == 4 else pixels[..., None]
    if len(pixels) == 0:
        raise DataError(f"{place} holds no images")
    if schema is not None and schema.convert:
        pixels = as_declared(pixels, schema)
    if schema is not None and pixels.shape[1:] != (schema.height, schema.width, schema.channels):
        raise DataError(
            f"{place} holds images of shape {pixels.shape[1:]} (height, width, channels), but the schema "
            f"says {(schema.height, schema.width, schema.channels)}"
        )
    if labels is None:
        return Records(Images(pixels))
    if labels.dtype.kind == "U" and schema is not None and schema.classes is not None:
        labels = _numbered(labels, schema.classes, place)
    if labels.dtype.kind not in "iu" or labels.shape != (len(pixels),):
        raise DataError(
            f"{place}: labels must be whole numbers, or names of the schema's classes, one for each image",
            f"labels are {labels.dtype} {labels.shape}, and there are {len(pixels)} images",
        )
    return Records(Images(pixels, labels.astype(np.int64)))


def _numbered(names: NDArray[Any], classes: tuple[str, ...], place: str) -> NDArray[np.int64]:
    """The place of each name among the classes."""
    found = pd.Index(classes).get_indexer(pd.Index(names.ravel().astype(str)))
    if (found < 0).any():
        raise DataError(
            f"{place}: label {np.flatnonzero(found < 0)[0] + 1} is no class of the schema; add it there, or correct it",
            f"it is {names.ravel()[found < 0][0]!r}",
        )
    return found.astype(np.int64).reshape(names.shape)
