"""Records that stand in for private ones: valid in a schema, and drawn from it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.door.source import Rows
from understudy.records.encode import decode, encode, encoded_shape

if TYPE_CHECKING:
    from understudy.schema import Schema

__all__ = ["stand_in_rows", "valid_rows"]


def stand_in_rows(schema: Schema, rows: int, seed: int) -> Rows:
    """Valid encoded records drawn at random from the schema alone."""
    source = np.random.default_rng(seed)
    return valid_rows(source.uniform(-1, 1, (rows, *encoded_shape(schema))), source, schema)


def valid_rows(x: np.ndarray, source: np.random.Generator, schema: Schema, label: int | None = None) -> Rows:
    """Encoded records that are valid in the schema, nearest to any numbers; of one class, if that is given."""
    classes = schema.label_classes
    labels = None if classes is None else source.integers(0, len(classes), len(x))
    if labels is not None and label is not None:
        labels = np.full(len(x), label)
    encoded = encode(decode(x.astype(np.float32), labels, schema), schema)
    own = None if encoded.labels is None else torch.from_numpy(encoded.labels)
    return Rows(torch.from_numpy(encoded.x), own)
