"""Records that stand in for private ones: valid in a schema, and drawn from it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.door.persons import Persons
from understudy.door.source import Rows
from understudy.records.encode import decode, encode, encoded_shape

if TYPE_CHECKING:
    from understudy.schema import Schema

__all__ = ["stand_in_rows", "valid_rows"]

_RECORDS = 3
"""The most records of a stand-in person."""


def stand_in_rows(schema: Schema, rows: int, seed: int) -> Rows:
    """Valid encoded records drawn at random from the schema alone.

    Where the schema names persons, these are so many persons, who have one record, two, three, one, and so on.
    """
    source = np.random.default_rng(seed)
    most = schema.max_rows_per_person or 1
    sizes = 1 + torch.arange(rows) % min(most, _RECORDS)
    owners = torch.repeat_interleave(torch.arange(rows), sizes)
    drawn = valid_rows(source.uniform(-1, 1, (len(owners), *encoded_shape(schema))), source, schema)
    if not schema.person_columns:
        return drawn
    x, labels = drawn.pick(torch.arange(len(drawn)))
    return Rows(x, labels, Persons.of(owners, most, x, labels))


def valid_rows(x: np.ndarray, source: np.random.Generator, schema: Schema, label: int | None = None) -> Rows:
    """Encoded records that are valid in the schema, nearest to any numbers; of one class, if that is given."""
    classes = schema.label_classes
    labels = None if classes is None else source.integers(0, len(classes), len(x))
    if labels is not None and label is not None:
        labels = np.full(len(x), label)
    encoded = encode(decode(x.astype(np.float32), labels, schema), schema)
    own = None if encoded.labels is None else torch.from_numpy(encoded.labels)
    return Rows(torch.from_numpy(encoded.x), own)
