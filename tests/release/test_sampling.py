"""Sampling: valid records of the wanted classes, repeatable, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tiny import TINY_IMAGES, TINY_TABLE
from understudy.data.checking import check
from understudy.errors import ReleaseError, SchemaError
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.release.release import Release
from understudy.release.sampling import CHUNK, sample, sample_chunks
from understudy.release.write import write_records
from understudy.schema import TableSchema


def test_table_samples_fit_the_schema(table_release: Release) -> None:
    """Every synthetic row is valid: it encodes again without a clipped value or an unknown category."""
    frame = table_release.sample(500)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [column.name for column in TINY_TABLE.columns]
    encoded = encode(frame, TINY_TABLE)
    assert (len(encoded), encoded.clipped, encoded.unknown) == (500, 0, 0)


def test_image_samples_have_the_right_shape_and_labels(image_release: Release) -> None:
    """Images come as uint8 with a label each."""
    images = image_release.sample(33)
    assert isinstance(images, Images)
    assert images.pixels.shape == (33, 8, 8, 1)
    assert images.labels is not None
    assert set(images.labels) <= {0, 1}
    assert encode(images, TINY_IMAGES).x.shape == (33, 1, 8, 8)


def test_the_same_seed_gives_the_same_records(table_release: Release) -> None:
    """A seed makes a draw repeatable; without one, draws differ."""
    first, second = (sample(table_release, 50, seed=5) for _ in range(2))
    assert isinstance(first, pd.DataFrame)
    assert first.equals(second)  # type: ignore[arg-type]
    assert not first.equals(sample(table_release, 50))  # type: ignore[arg-type]


def test_one_label_gives_only_that_label(table_release: Release) -> None:
    """Conditioning on a class is exact."""
    frame = table_release.sample(40, label="ill")
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["outcome"]) == {"ill"}


def test_counts_per_label_are_exact(image_release: Release) -> None:
    """Given counts are met exactly, in the order given."""
    images = image_release.sample(0, counts={"bar": 7, "ring": 3})
    assert isinstance(images, Images)
    assert images.labels is not None
    assert list(images.labels) == [1] * 7 + [0] * 3


def test_labels_follow_the_card(table_release: Release) -> None:
    """Unconditioned labels are drawn with the card's weights."""
    frame = table_release.sample(4000, seed=2)
    assert isinstance(frame, pd.DataFrame)
    weights = table_release.card.label_weights
    assert weights is not None
    share = Counter(frame["outcome"])["well"] / 4000
    assert abs(share - weights[0]) < 4 * np.sqrt(weights[0] * (1 - weights[0]) / 4000) + 1e-9


def test_large_draws_come_in_chunks(image_release: Release) -> None:
    """No chunk is larger than the bound, and together they are all."""
    sizes = [len(chunk) for chunk in sample_chunks(image_release, 2 * CHUNK + 1)]
    assert sizes == [CHUNK, CHUNK, 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rows": 0}, "must be positive"),
        ({"rows": -3}, "must be positive"),
        ({"rows": 5, "label": "dead"}, "Known classes: well, ill"),
        ({"rows": 5, "counts": {"well": -1}}, "must not be negative"),
        ({"rows": 5, "label": "ill", "counts": {"well": 1}}, "not both"),
    ],
)
def test_impossible_draws_are_refused(table_release: Release, options: dict[str, object], text: str) -> None:
    """Bad requests give one clear message."""
    with pytest.raises(ReleaseError, match=text):
        list(sample_chunks(table_release, **options))  # type: ignore[arg-type]


def test_left_out_columns_come_back_empty_where_they_should(table_release: Release, tmp_path: Path) -> None:
    """A declared order is the header of what is made: in place, empty where nothing was modelled, and it still fits."""
    schema = table_release.schema
    assert isinstance(schema, TableSchema)
    names = [column.name for column in schema.columns]
    order = ("id", *reversed(names), "note")
    plan = replace(table_release.card.plan, schema=replace(schema, order=order, missing_text=("?",)))
    kept = Release(replace(table_release.card, plan=plan), table_release.weights)
    rows = kept.sample(7, seed=1)
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == list(order)
    assert rows["id"].isna().all()
    plain = table_release.sample(7, seed=1)
    assert isinstance(plain, pd.DataFrame)
    pd.testing.assert_frame_equal(rows[names], plain[names])
    path = tmp_path / "rows.csv"
    write_records(sample_chunks(kept, 7, seed=1), path, schema=kept.schema)
    assert path.read_text().splitlines()[0] == ",".join(order)
    assert path.read_text().splitlines()[1].startswith("?,")
    assert check(path, kept.schema).fits
    for wrong in (("id",), (*names, names[0]), (*names, "")):
        with pytest.raises(SchemaError, match="order must name every column once"):
            replace(schema, order=wrong)
