from __future__ import annotations

import numpy as np
import pytest

from understudy.data import known, known_schema
from understudy.data.public.bundled import BUNDLED_SCHEMAS
from understudy.errors import MissingDataset
from understudy.records.encode import decode, encode
from understudy.records.images import Images

ROWS = {"digits": 1797, "breast-cancer": 569, "wine": 178, "iris": 150}


@pytest.mark.parametrize("name", sorted(BUNDLED_SCHEMAS))
def test_sets_inside_scikit_learn(name: str) -> None:
    """Each set has all published rows in two parts, fits its schema unclipped, and comes back from arrays."""
    dataset = known(name)
    assert len(dataset.train) + len(dataset.test) == ROWS[name]
    assert len(dataset.test) == ROWS[name] // 5
    for part in (dataset.train, dataset.test):
        encoded = encode(part, dataset.schema)
        assert (encoded.clipped, encoded.unknown) == (0, 0)
        assert encoded.labels is not None
        assert len(np.unique(encoded.labels)) == len(dataset.schema.label_classes or ())
        decoded = decode(encoded.x, encoded.labels, dataset.schema)
        if isinstance(decoded, Images):
            assert (decoded.pixels == part.images.pixels).all()
        else:
            assert list(decoded.columns) == list(part.frame.columns)
            features = decoded.columns[:-1]
            assert np.allclose(decoded[features], part.frame[features], rtol=1e-5)
            assert (decoded.iloc[:, -1] == part.frame.iloc[:, -1]).all()


def test_the_split_is_the_same_everywhere() -> None:
    """The two parts do not overlap and depend on no random generator; a changed split would fail."""
    first, again = known("digits"), known("digits")
    assert (first.test.images.pixels == again.test.images.pixels).all()
    labels = first.test.images.labels
    assert labels is not None
    assert np.bincount(labels).tolist() == [37, 40, 25, 35, 41, 54, 33, 34, 29, 31]


def test_records_do_not_print_what_they_hold() -> None:
    """Printing records, in a log or a traceback, shows neither values nor how many there are."""
    dataset = known("iris")
    assert repr(dataset.train) == "Records(<private table>)"
    assert "120" not in repr(dataset)


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A name that is not known is refused with the names that are."""
    with pytest.raises(MissingDataset, match=r"'ducks' is not a known data set; known are .*digits"):
        known_schema("ducks")
