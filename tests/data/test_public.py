from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

from understudy.data import Dataset, known
from understudy.data.public.sets import PUBLIC_SETS
from understudy.errors import MissingDataset
from understudy.records.encode import decode, encode
from understudy.records.images import Images
from understudy.schema import schema_from_toml, schema_to_toml

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
USPS_TRAIN = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
USPS_TEST = [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]


def _known(name: str) -> Dataset:
    try:
        return known(name, download=False)
    except MissingDataset as missing:
        pytest.skip(
            f"{str(missing).splitlines()[0]} UNDERSTUDY_DATA is {os.environ.get('UNDERSTUDY_DATA')!r}."
        )


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "train", "test", "shape"),
    [
        ("mnist", MNIST_TRAIN, MNIST_TEST, (1, 28, 28)),
        ("fashion-mnist", [6000] * 10, [1000] * 10, (1, 28, 28)),
        ("usps", USPS_TRAIN, USPS_TEST, (1, 16, 16)),
        ("adult", [24_720, 7_841], [12_435, 3_846], (107,)),
        ("thyroid", [93, 191, 3_488], [73, 177, 3_178], (21,)),
    ],
)
def test_labelled_sets(name: str, train: list[int], test: list[int], shape: tuple[int, ...]) -> None:
    """Published class counts hold, every value fits the schema, and encoding is undone by decoding."""
    dataset = _known(name)
    for part, counts in ((dataset.train, train), (dataset.test, test)):
        encoded = encode(part, dataset.schema)
        assert encoded.x.shape == (sum(counts), *shape)
        assert encoded.labels is not None
        assert np.bincount(encoded.labels).tolist() == counts
        assert (encoded.clipped, encoded.unknown) == (0, 0)
    decoded = decode(encoded.x, encoded.labels, dataset.schema)
    if isinstance(decoded, Images):
        assert (decoded.pixels == dataset.test.images.pixels).all()
    else:
        assert (encode(decoded, dataset.schema).x == encoded.x).all()


@pytest.mark.data
def test_sets_that_are_too_small_to_be_private_are_known() -> None:
    """Forty people's faces the right way up, and the demo's hundred patients with their ICD-9 categories."""
    faces = _known("olivetti")
    assert (len(faces.train), len(faces.test)) == (360, 40)
    pixels = faces.train.images.pixels.astype(float)
    assert pixels.shape[1:] == (64, 64, 1)
    across, down = (np.abs(pixels - np.flip(pixels, axis)).mean() for axis in (2, 1))
    assert across < down  # a face is like its mirror image, and less like itself upside down
    patients = _known("mimic3-demo")
    assert len(patients.train) + len(patients.test) == 100
    used = pd.concat([patients.train.frame, patients.test.frame]).sum()
    assert (used > 0).sum() == 275
    assert any(code.startswith("E") for code in used.index[used > 0])


@pytest.mark.data
def test_adult_keeps_its_unknown_values() -> None:
    """Rows with a question mark are those that adult.names counts, and they come back as missing cells."""
    dataset = _known("adult")
    for part, complete in ((dataset.train, 30_162), (dataset.test, 15_060)):
        assert len(part.frame.dropna()) == complete
        encoded = encode(part, dataset.schema)
        decoded = decode(encoded.x, encoded.labels, dataset.schema)
        assert isinstance(decoded, pd.DataFrame)
        for column in decoded.columns:
            before, after = part.frame[column], decoded[column]
            assert (before.isna() == after.isna()).all()
            assert (before.dropna() == after.dropna()).all()


@pytest.mark.data
def test_american_community_survey() -> None:
    """All 27,253 people of the excerpt are there, in two parts, and fit the data dictionary."""
    dataset = _known("acs")
    assert len(dataset.train) + len(dataset.test) == 27_253
    for part in (dataset.train, dataset.test):
        encoded = encode(part, dataset.schema)
        assert (encoded.clipped, encoded.unknown) == (0, 0)


@pytest.mark.data
def test_diabetes_codes() -> None:
    """71,518 patients use 881 three-digit codes, 3.67 each; none falls outside the public code list."""
    dataset = _known("diabetes130")
    counts = pd.concat([dataset.train.frame, dataset.test.frame]).to_numpy()
    assert len(counts) == 71_518
    assert int((counts.sum(axis=0) > 0).sum()) == 881
    assert counts.sum() / 71_517 == pytest.approx(3.67, abs=0.005)
    assert int((counts.sum(axis=1) == 0).sum()) == 1
    often = _known("diabetes130-counts")
    repeated = pd.concat([often.train.frame, often.test.frame]).to_numpy()
    assert ((repeated > 0) == (counts > 0)).all()
    assert 1 < repeated.max() <= 15


@pytest.mark.parametrize("name", sorted(PUBLIC_SETS))
def test_schemas_are_there_without_the_data(name: str) -> None:
    """The ready schema of a known set needs no file and survives TOML."""
    schema = PUBLIC_SETS[name].schema
    assert schema_from_toml(schema_to_toml(schema)) == schema
