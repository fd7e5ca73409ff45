"""Frames of pandas 3, whose arrays cannot be written in place, are encoded like any other."""

from __future__ import annotations

import contextlib
import datetime as dt

import numpy as np
import pandas as pd

from understudy.data import read
from understudy.records.encode import encode
from understudy.schema import Continuous, Datetime, TableSchema


def test_columns_that_cannot_be_written_are_encoded() -> None:
    """Numbers, numbers as text and dates give the same records where pandas hands out read-only arrays."""
    lower = dt.datetime(2020, 1, 1)
    schema = TableSchema(
        (
            Continuous("a", 0, 1),
            Continuous("b", 0, 9, missing=True),
            Datetime("c", lower, dt.datetime(2021, 1, 1), missing=True),
        )
    )
    frame = pd.DataFrame(
        {"a": [0.0, 1.0], "b": ["3", None], "c": pd.Series([lower, pd.NaT], dtype="datetime64[ns]")}
    )
    old = int(pd.__version__.split(".", maxsplit=1)[0]) < 3
    expected = encode(read(frame.copy(), schema), schema).x
    guard = pd.option_context("mode.copy_on_write", True) if old else contextlib.nullcontext()
    with guard:
        assert np.array_equal(encode(read(frame, schema), schema).x, expected)
