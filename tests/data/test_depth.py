"""Pictures as medicine has them: deep greys by a declared range, DICOM, colours only as declared, damaged files."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import understudy
from understudy.data.draft import draft_schema
from understudy.data.pictures import read_folder, read_npz
from understudy.errors import CuratorWarning, DataError, SchemaError
from understudy.schema import ImageSchema, schema_from_toml

if TYPE_CHECKING:
    from pathlib import Path


# --- depth and colour -----------------------------------------------------------------------------------------


def deep_png(path: Path, values: list[list[int]]) -> None:
    """A grey PNG of 16 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.array(values, dtype=np.uint16)).save(path)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_need_a_declared_range(tmp_path: Path, ending: str) -> None:
    """A 12-bit image is refused without a range instead of saturating to white, and keeps its contrast with one."""
    deep_png(tmp_path / f"scan.{ending}", [[0, 1024], [2048, 4095]])
    with pytest.raises(DataError, match="more than 8 bits; declare in the schema"):
        read_folder(tmp_path, ImageSchema(2, 2))
    pixels = read_folder(tmp_path, ImageSchema(2, 2, range=(0, 4095))).images.pixels
    assert pixels[0, :, :, 0].tolist() == [[0, 64], [128, 255]]


def test_a_window_cuts_what_lies_outside(tmp_path: Path) -> None:
    """Floats and deep integers of an archive follow the declared range; what is no number is black."""
    np.savez(tmp_path / "ct.npz", images=np.array([[[-1000.0, 0.0], [500.0, np.nan]]], dtype=np.float32))
    pixels = read_npz(tmp_path / "ct.npz", ImageSchema(2, 2, range=(-500, 500))).images.pixels
    assert pixels[0, :, :, 0].tolist() == [[0, 128], [255, 0]]
    with pytest.raises(DataError, match="declares their range"):
        read_npz(tmp_path / "ct.npz", ImageSchema(2, 2))


@pytest.mark.parametrize("window", [(1.0, 1.0), (5.0, 0.0), (0.0, float("inf"))])
def test_a_range_that_is_none_is_refused(window: tuple[float, float]) -> None:
    """A range has a lower and a larger upper end, both finite."""
    with pytest.raises(SchemaError, match="range must be two finite numbers"):
        ImageSchema(2, 2, range=window)


def test_colour_becomes_grey_only_if_declared(tmp_path: Path) -> None:
    """Colour under a grey schema, and grey under one of colour, are refused unless the schema says to convert."""
    Image.new("RGB", (2, 2), (255, 0, 0)).save(tmp_path / "red.png")
    with pytest.raises(DataError, match="is in colour"):
        read_folder(tmp_path, ImageSchema(2, 2))
    assert read_folder(tmp_path, ImageSchema(2, 2, convert=True)).images.pixels.max() == 76
    Image.new("L", (2, 2), 9).save(tmp_path / "red.png")
    with pytest.raises(DataError, match="is grey"):
        read_folder(tmp_path, ImageSchema(2, 2, 3))
    assert read_folder(tmp_path, ImageSchema(2, 2, 3, convert=True)).images.pixels.shape == (1, 2, 2, 3)


def test_all_damaged_files_are_told_at_once(tmp_path: Path) -> None:
    """One error counts and numbers every file that cannot be taken, by place and not by name."""
    for name in "abcd":
        Image.new("L", (2, 2)).save(tmp_path / f"{name}.png")
    for name in "bd":
        (tmp_path / f"{name}.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"image 2 .*2 images cannot be taken; the others: 4") as caught:
        read_folder(tmp_path, ImageSchema(2, 2))
    assert "b.png" not in str(caught.value)


def test_dicom_without_its_reader_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DICOM file without pydicom is an error with the command that helps."""
    monkeypatch.setitem(sys.modules, "pydicom", None)
    (tmp_path / "scan.dcm").write_bytes(b"\0" * 128 + b"DICM")
    with pytest.raises(DataError, match=r"understudy\[medical\]"):
        read_folder(tmp_path, ImageSchema(2, 2, range=(0, 4095)))


def test_labels_of_an_archive_may_be_names(tmp_path: Path) -> None:
    """Texts are places among the schema's classes, and a name that is none of them is refused without being shown."""
    pixels = np.zeros((2, 2, 2), dtype=np.uint8)
    schema = ImageSchema(2, 2, classes=("healthy", "ill"))
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.array(["ill", "healthy"]))
    assert read_npz(tmp_path / "a.npz", schema).images.labels.tolist() == [1, 0]  # type: ignore[union-attr]
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.array(["ill", "smith"]))
    with pytest.raises(DataError, match="label 2 is no class of the schema") as caught:
        read_npz(tmp_path / "a.npz", schema)
    assert "smith" not in str(caught.value)


def test_an_archive_in_colour_becomes_grey_only_if_declared(tmp_path: Path) -> None:
    """What holds for files holds for arrays, with the same weights of the three colours."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3, 3)).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels)
    with pytest.raises(DataError, match="the schema says"):
        read_npz(tmp_path / "a.npz", ImageSchema(5, 3))
    grey = read_npz(tmp_path / "a.npz", ImageSchema(5, 3, convert=True)).images.pixels
    for one, plain in zip(pixels, grey, strict=True):
        assert np.array_equal(np.asarray(Image.fromarray(one).convert("L")), plain[..., 0])
    np.savez(tmp_path / "b.npz", images=pixels[..., 0])
    assert read_npz(tmp_path / "b.npz", ImageSchema(5, 3, 3, convert=True)).images.pixels.shape == (
        4,
        5,
        3,
        3,
    )


def test_colour_of_sixteen_bits_and_several_pages_are_refused(tmp_path: Path) -> None:
    """Neither half of the bits nor all pages but one are dropped in silence."""
    pages = [Image.new("L", (2, 2)), Image.new("L", (2, 2))]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DataError, match="several pages"):
        read_folder(tmp_path, ImageSchema(2, 2, skip_damaged=True))


# --- damaged files --------------------------------------------------------------------------------------------


def folder_of(root: Path, names: str, damaged: str) -> Path:
    """Images of two classes, some of which are no images."""
    for place, name in enumerate(names):
        folder = root / ("bar" if place % 2 else "ring")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 10 * place).save(folder / f"{name}.png")
        if name in damaged:
            (folder / f"{name}.png").write_bytes(b"no image")
    return root


def test_damaged_files_are_left_out_only_if_declared_and_counted_for_the_curator(tmp_path: Path) -> None:
    """What can be read stays with its class; the number of the others goes to the curator and into no record."""
    schema = ImageSchema(8, 8, classes=("bar", "ring"), skip_damaged=True)
    with pytest.warns(CuratorWarning, match="2 of 6 image files are damaged"):
        left = read_folder(folder_of(tmp_path / "data", "abcdef", "be"), schema)
    assert left.images.pixels[:, 0, 0, 0].tolist() == [30, 50, 0, 20]
    assert left.images.labels is not None
    assert left.images.labels.tolist() == [0, 0, 1, 1]
    assert left.notes == ()
    with pytest.raises(DataError, match="cannot be taken"):
        read_folder(tmp_path / "data", replace(schema, skip_damaged=False))


def test_what_is_not_as_declared_is_no_damage(tmp_path: Path) -> None:
    """A wrong size is a mistake in the schema more often than not, and would leave out everything in silence."""
    folder = folder_of(tmp_path / "data", "abcd", "b")
    with pytest.raises(DataError, match=r"has another size than 9 × 9|is damaged"):
        read_folder(folder, ImageSchema(9, 9, classes=("bar", "ring"), skip_damaged=True))


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two folders, one of which has a damaged file more, weights, card and what is printed are the same."""
    schema = ImageSchema(8, 8, classes=("bar", "ring"), skip_damaged=True)
    plan = understudy.plan(schema, epsilon=3, delta=1e-3, rows=8, steps=1)
    releases, notes = [], list[str]()
    for name, strangers in (("one", "x"), ("two", "")):
        folder = folder_of(tmp_path / name, "abcdefgh", "")
        for stranger in strangers:
            (folder / "ring" / f"{stranger}.png").write_bytes(b"no image")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            releases.append(understudy.fit(folder, plan, insecure_seed=1, on_note=notes.append))
    first, second = releases
    assert first.card == second.card
    assert all(np.array_equal(value, second.weights[name]) for name, value in first.weights.items())
    assert notes == []
    assert capsys.readouterr() == ("", "")


# --- DICOM ----------------------------------------------------------------------------------------------------


def dicom(path: Path, values: Any, **changes: Any) -> Path:
    """A DICOM file of 12 of 16 bits, with the slope and intercept of a scanner unless they are changed."""
    pydicom = pytest.importorskip("pydicom")
    stored = np.asarray(values)
    found = pydicom.Dataset()
    found.SOPClassUID, found.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.2", "1.2.3"
    found.Rows, found.Columns = stored.shape[:2]
    found.SamplesPerPixel = 1 if stored.ndim == 2 else 3
    found.PhotometricInterpretation = "MONOCHROME2" if stored.ndim == 2 else "RGB"
    found.BitsAllocated = 8 * stored.dtype.itemsize
    found.BitsStored = found.BitsAllocated if stored.dtype == np.uint8 else 12
    found.HighBit, found.PixelRepresentation = found.BitsStored - 1, 0
    if stored.ndim == 3:
        found.PlanarConfiguration = 0
    found.PixelData = stored.tobytes() + b"\0" * (stored.nbytes % 2)
    for name, value in changes.items():
        setattr(found, name, value)
    found.file_meta = pydicom.dataset.FileMetaDataset()
    found.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    path.parent.mkdir(parents=True, exist_ok=True)
    found.save_as(path, enforce_file_format=True)
    return path


HOUNSFIELD = np.array([[0, 864], [1064, 1264]], dtype=np.uint16)


def test_dicom_is_windowed_in_its_own_units(tmp_path: Path) -> None:
    """The declared range is in what slope and intercept give; without a range deep pixels are refused."""
    dicom(tmp_path / "scan.dcm", HOUNSFIELD, RescaleSlope=1, RescaleIntercept=-1024)
    with pytest.raises(DataError, match="more than 8 bits"):
        read_folder(tmp_path, ImageSchema(2, 2))
    pixels = read_folder(tmp_path, ImageSchema(2, 2, range=(-160, 240))).images.pixels
    assert pixels[0, :, :, 0].tolist() == [[0, 0], [128, 255]]


def test_dicom_of_inverted_grey_is_turned_round(tmp_path: Path) -> None:
    """Where large values are dark, the image comes out as it is shown."""
    dicom(tmp_path / "scan.dcm", HOUNSFIELD, PhotometricInterpretation="MONOCHROME1")
    pixels = read_folder(tmp_path, ImageSchema(2, 2, range=(0, 2128))).images.pixels
    assert pixels[0, :, :, 0].tolist() == [[255, 151], [127, 104]]


def test_dicom_needs_no_ending(tmp_path: Path) -> None:
    """Files of scanners are often called by a number; other files without ending stay unread."""
    dicom(tmp_path / "1.2.840.77", HOUNSFIELD)
    (tmp_path / "notes").write_text("no image")
    assert len(read_folder(tmp_path, ImageSchema(2, 2, range=(0, 4095)))) == 1


def test_dicom_of_eight_bits_and_of_colour_is_taken_as_it_is(tmp_path: Path) -> None:
    """Bytes need no range."""
    dicom(tmp_path / "grey" / "a.dcm", np.array([[1, 2], [3, 4]], dtype=np.uint8))
    assert read_folder(tmp_path / "grey", ImageSchema(2, 2)).images.pixels[0, :, :, 0].tolist() == [
        [1, 2],
        [3, 4],
    ]
    dicom(tmp_path / "colour" / "a.dcm", np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    read_back = read_folder(tmp_path / "colour", ImageSchema(2, 2, 3)).images.pixels
    assert read_back.ravel().tolist() == list(range(12))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"NumberOfFrames": 2, "PixelData": HOUNSFIELD.tobytes() * 2}, "several frames"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "palette"),
    ],
)
def test_dicom_that_is_not_one_plain_image_is_refused(tmp_path: Path, changes: Any, text: str) -> None:
    """What is not handled is said, and never skipped as if it were damaged."""
    dicom(tmp_path / "scan.dcm", HOUNSFIELD, **changes)
    with pytest.raises(DataError, match=text):
        read_folder(tmp_path, ImageSchema(2, 2, range=(0, 4095), skip_damaged=True))


def test_damaged_dicom_is_damaged(tmp_path: Path) -> None:
    """A file that ends within its pixels is one that may be skipped."""
    whole = dicom(tmp_path / "a.dcm", HOUNSFIELD)
    (tmp_path / "b.dcm").write_bytes(whole.read_bytes()[:-5])
    schema = ImageSchema(2, 2, range=(0, 4095))
    with pytest.raises(DataError, match=r"image 2 .* is damaged, or no DICOM image"):
        read_folder(tmp_path, schema)
    with pytest.warns(CuratorWarning, match="1 of 2"):
        assert len(read_folder(tmp_path, replace(schema, skip_damaged=True))) == 1


def test_a_draft_of_deep_images_asks_for_their_range(tmp_path: Path) -> None:
    """Nobody can write the range into a schema that cannot be drafted without it."""
    deep_png(tmp_path / "ill" / "scan.png", [[0, 1024], [2048, 4095]])
    text = draft_schema(tmp_path)
    assert "range = []  # FILL IN" in text
    assert "classes = []  # FILL IN" in text
    with pytest.raises(SchemaError, match="range"):
        schema_from_toml(text.replace("classes = []", 'classes = ["ill", "well"]'))
    with pytest.raises(SchemaError, match="classes"):
        schema_from_toml(text.replace("range = []", "range = [0, 4095]"))
