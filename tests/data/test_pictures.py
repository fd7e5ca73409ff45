from __future__ import annotations

import contextlib
import gzip
import io
import struct
import tracemalloc
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from understudy.data import read
from understudy.errors import DataError
from understudy.records.encode import encode
from understudy.schema import ImageSchema, Integer, TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

GREY = ImageSchema(5, 4, 1, ("cat", "dog"))
COLOUR = ImageSchema(5, 4, 3, ("cat", "dog"))
PLAIN = ImageSchema(5, 4, 1)


def _pixels(channels: int = 1, n: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, 5, 4, channels), dtype=np.uint8)


def _folder(root: Path, pixels: NDArray[np.uint8], suffix: str = ".png") -> Path:
    """Write one cat and two dogs."""
    for i, (name, image) in enumerate(zip(("cat", "dog", "dog"), pixels, strict=True)):
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).save(
            root / name / f"{i}{suffix}"
        )
    return root


def _idx(array: NDArray[Any], kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.tobytes()


# ------------------------------------------------------------------------------------------------ good


@pytest.mark.parametrize("schema", [GREY, COLOUR], ids=["grey", "colour"])
def test_folder_of_png(tmp_path: Path, schema: ImageSchema) -> None:
    """A folder per class gives the very pixels and the index of the class in the schema."""
    pixels = _pixels(schema.channels)
    root = _folder(tmp_path / "set", pixels)
    (root / ".hidden").mkdir()
    (root / "cat" / "notes.txt").write_text("not an image")
    images = read(root, schema).images
    assert (images.pixels == pixels).all()
    assert images.labels is not None
    assert images.labels.tolist() == [0, 1, 1]
    turned = ImageSchema(5, 4, schema.channels, ("dog", "cat"))
    labels = read(root, turned).images.labels
    assert labels is not None
    assert labels.tolist() == [0, 0, 1]
    assert (read(root).images.pixels == pixels).all()
    assert encode(read(root, schema), schema).x.shape == (3, schema.channels, 5, 4)


def test_folder_of_jpeg_and_conversion(tmp_path: Path) -> None:
    """JPEG is read, colour becomes grey when the schema says so, a folder without classes has no labels."""
    root = _folder(tmp_path / "set", np.full((3, 5, 4, 3), 90, np.uint8), ".JPG")
    grey = read(root, replace(GREY, convert=True)).images
    assert np.abs(grey.pixels.astype(int) - 90).max() <= 1
    flat = read(root / "dog", replace(PLAIN, convert=True)).images
    assert flat.labels is None
    assert len(flat) == 2


@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y"), ("arr_0", "arr_1")])
def test_npz(tmp_path: Path, keys: tuple[str, str]) -> None:
    """Compressed and plain archives with three or four axes, in either memory order, give the same images."""
    pixels, labels = _pixels(), np.array([0, 1, 1], dtype=np.int32)
    for name, save in (("a", np.savez), ("b", np.savez_compressed)):
        for array in (pixels, pixels[..., 0], np.asfortranarray(pixels)):
            arrays: dict[str, Any] = {keys[0]: array, keys[1]: labels}
            save(tmp_path / f"{name}.npz", **arrays)
            images = read(tmp_path / f"{name}.npz", GREY).images
            assert (images.pixels == pixels).all()
            assert images.labels is not None
            assert images.labels.tolist() == [0, 1, 1]
    np.savez(tmp_path / "c.npz", pixels)
    assert read(tmp_path / "c.npz", PLAIN).images.labels is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_idx(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """IDX files, plain and gzipped, are read together with the file of labels beside them."""
    suffix = ".gz" if pack is gzip.compress else ""
    path = tmp_path / f"train-images-idx3-ubyte{suffix}"
    path.write_bytes(pack(_idx(_pixels()[..., 0])))
    assert read(path, PLAIN).images.labels is None
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(pack(_idx(np.array([0, 1, 1], np.uint8))))
    images = read(path, GREY).images
    assert (images.pixels == _pixels()).all()
    assert images.labels is not None
    assert images.labels.tolist() == [0, 1, 1]


# ------------------------------------------------------------------------------------------------- bad


def test_bad_folders(tmp_path: Path) -> None:
    """Wrong sizes, strange classes, empty classes and files that are no image are refused by name."""
    root = _folder(tmp_path / "set", _pixels())
    with pytest.raises(DataError, match=r"image 1 .* another size than 6 × 4"):
        read(root, ImageSchema(6, 4, 1, ("cat", "dog")))
    with pytest.raises(DataError, match=r"bird holds no \.png"):
        read(root, ImageSchema(5, 4, 1, ("cat", "dog", "bird")))
    (root / "zebra").mkdir()
    with pytest.raises(DataError, match="zebra is not a class of the schema"):
        read(root, GREY)
    (root / "zebra").rmdir()
    (root / "cat" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 30)
    with pytest.raises(DataError, match=r"image [0-9]+ .* is damaged"):
        read(root, GREY)
    cut = (root / "cat" / "0.png").read_bytes()
    (root / "cat" / "broken.png").write_bytes(cut[: len(cut) // 2 + 8])
    with pytest.raises(DataError, match=r"image [0-9]+ .* is damaged"):
        read(root, GREY)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no \.png"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="describes a table, but the source holds images"):
        read(root, TableSchema((Integer("a", 0, 1),)))


def test_a_huge_image_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    """A small PNG that claims a giant size costs no memory."""
    buffer = io.BytesIO()
    Image.new("1", (12_000, 6_000)).save(buffer, "PNG")
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "bomb.png").write_bytes(buffer.getvalue())
    with _little_memory(), pytest.raises(DataError, match="claims more than 4096 pixels"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "schema", "message"),
    [
        ({"images": np.array([{}], dtype=object)}, None, "holds Python objects, which could run code"),
        ({"pictures": _pixels()}, None, r"has the arrays \['pictures'\]; expected one named images or x"),
        ({"images": _pixels().astype(np.float32)}, None, "float32 .*images are uint8"),
        ({"images": _pixels()[0, :, :, 0]}, None, r"2 dimensions; images are uint8"),
        ({"images": _pixels()[:0]}, None, "holds no images"),
        ({"images": _pixels(3)}, GREY, r"shape \(5, 4, 3\).*schema says \(5, 4, 1\)"),
        ({"images": _pixels(), "labels": np.array([0, 1])}, GREY, "one for each image"),
        ({"images": _pixels(), "labels": np.array([0.0, 1, 1])}, GREY, "one for each image"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: Any, schema: ImageSchema | None, message: str) -> None:
    """Objects, unknown names, other types and shapes are refused; nothing is ever unpickled."""
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.npz", schema)


class _little_memory:  # noqa: N801 - reads as a statement
    """Fail if the block takes more than 50 MB at once."""

    def __enter__(self) -> None:
        tracemalloc.start()

    def __exit__(self, *_: object) -> None:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50e6


@pytest.mark.parametrize(
    "shape",
    [(10**9, 10**9, 10**9), (3, 2**20, 2**10), (2**31, 1, 1), (4, 5, 4)],
    ids=["huge", "3G", "2G", "one"],
)
def test_headers_that_lie_cost_no_memory(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """A header of .npz that claims more than the file holds is refused before memory is taken."""
    buffer = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", buffer.getvalue() + _pixels().tobytes())
    with _little_memory(), pytest.raises(DataError, match=r"does not fit its size|UNDERSTUDY_READ_GIB"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin like an IDX file"),
        (b"\x1f\x8b\x08\x00", "does not begin like an IDX file"),
        (b"\0\0\x0b\x09" + b"\0" * 64, "does not begin like an IDX file"),
        (b"\0\0\x08\x03\0\0", "ends within its header"),
        (struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "UNDERSTUDY_READ_GIB"),
        (struct.pack(">BBBB3I", 0, 0, 8, 3, 60_000, 28, 28), "more than a file of its size can hold"),
        (_idx(_pixels()[..., 0])[:-1], "can hold|holds less"),
        (_idx(_pixels()[..., 0]) + b"x", "holds more"),
        (_idx(_pixels()[..., 0].astype(">f4"), 13), "images are uint8"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_bad_idx(tmp_path: Path, content: bytes, message: str, packed: bool) -> None:
    """Headers that are foreign, cut or claim too much are refused without taking the memory they claim."""
    path = tmp_path / ("a-idx3-ubyte.gz" if packed else "a-idx3-ubyte")
    path.write_bytes(gzip.compress(content) if packed else content)
    with _little_memory(), pytest.raises(DataError, match=message):
        read(path)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=60), st.sampled_from(["a-ubyte", "a-ubyte.gz", "a.npz", "a.parquet"]), st.booleans()
)
def test_noise_is_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, name: str, packed: bool
) -> None:
    """Any bytes in a file of any kind are read or refused with a DataError."""
    path = tmp_path_factory.mktemp("noise") / name
    path.write_bytes(gzip.compress(b"\0\0\x08" + noise) if packed else noise)
    with contextlib.suppress(DataError):
        read(path)


def test_damaged_archives(tmp_path: Path) -> None:
    """Archives cut short or filled with noise are refused as unreadable."""
    noise = np.random.default_rng(0).bytes(200)
    whole = gzip.compress(_idx(np.frombuffer(noise, np.uint8)))
    for name, content in (
        ("a-ubyte.gz", noise),
        ("b-ubyte.gz", whole[: len(whole) // 2]),
        ("c-ubyte.gz", whole[:40] + bytes(20) + whole[60:]),
        ("d.npz", noise),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="cannot read"):
            read(tmp_path / name)
    np.savez_compressed(tmp_path / "e.npz", images=_pixels(n=50))
    damaged = bytearray((tmp_path / "e.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "e.npz").write_bytes(damaged)
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path / "e.npz")


def test_classes_need_labels(tmp_path: Path) -> None:
    """A schema with classes is not satisfied by an IDX file without labels beside it."""
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(_idx(_pixels()[..., 0]))
    with pytest.raises(DataError, match="no file t10k-labels-idx1-ubyte with labels"):
        read(tmp_path / "t10k-images-idx3-ubyte", GREY)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a-idx3-ubyte", struct.pack(">BBBB3I", 0, 0, 8, 3, 6037, 28, 28)),
        ("a-idx3-ubyte.gz", gzip.compress(_idx(np.zeros((6037, 1, 1), np.uint8)) + b"x", mtime=0)),
        ("a-idx3-ubyte", _idx(np.zeros((6037, 1, 1), ">f4"), 13)),
        ("a-idx3-ubyte", b"6037, 12.5, aids"),
    ],
)
def test_messages_about_pictures_count_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    """How many images a file holds, or claims to, and its first bytes are for the curator's eyes only."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(tmp_path / name)
    assert "6037" not in str(caught.value).replace(",", "")
    assert "6037" in str(caught.value.private_detail)


def test_a_header_of_npz_that_lies_is_not_quoted(tmp_path: Path) -> None:
    """The shape that an array claims tells how many images there are, so the message leaves it out."""
    buffer = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (6037, 1, 1)}
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", buffer.getvalue() + bytes(6038))
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.npz")
    assert "6037" not in str(caught.value)
    assert "6037" in str(caught.value.private_detail)
