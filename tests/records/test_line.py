from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.records.encode import decode, encode
from understudy.records.line import from_line, to_line
from understudy.schema import Continuous, Integer, NumberScale, TableSchema, schema_from_toml, schema_to_toml

COLUMNS = (
    Integer("income", -1, 1_000_000, step=10_000, special=(-1, 0)),
    Continuous("dose", 0.0, 10.0, step=0.1),
    Continuous("price", 0.0, 1e6, decimals=2, special=(9.99,), scale=NumberScale.LOG),
    Continuous("ratio", 1e-3, 1e3, scale=NumberScale.LOG),
    Integer("pay", 0, 100_000, scale=NumberScale.LOG),
    Continuous("gap", -50.0, 50.0, step=2.5, special=(0.3,), scale=NumberScale.LOG),
)


def _valid(value: float, column: Continuous | Integer) -> bool:
    """An oracle of the grid that is written without the encoder."""
    if not column.lower <= value <= column.upper:
        return False
    if value in column.special:
        return True
    if column.step is not None:
        return value == round(round(value / column.step) * column.step, 6)
    return True


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
@settings(max_examples=100, deadline=None)
@given(places=st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=20))
def test_whatever_is_decoded_lies_on_the_grid(column: Continuous | Integer, places: list[float]) -> None:
    """Every place of the line gives a value within bounds, on the step, and encoding it again changes nothing."""
    values = from_line(np.array(places), column)
    assert all(_valid(value, column) for value in values.tolist())
    again = from_line(to_line(values, column).astype(np.float32).astype(np.float64), column)
    if column.step is not None or isinstance(column, Integer):
        assert again.tolist() == values.tolist()
    else:
        assert np.allclose(again, values, rtol=1e-5, atol=column.unit)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_special_values_and_the_grid_come_back_exactly(column: Continuous | Integer) -> None:
    """Special values survive a table's way to float32 and back, also those off the grid; others go to the grid."""
    schema = TableSchema((column,))
    assert schema_from_toml(schema_to_toml(schema)) == schema
    off_grid = [column.lower, column.upper, 5.3] if isinstance(column, Continuous) else [column.lower, 14_999]
    frame = pd.DataFrame({column.name: [*column.special, *off_grid]})
    decoded = decode(encode(frame, schema).x, None, schema)
    assert isinstance(decoded, pd.DataFrame)
    values = decoded[column.name].tolist()
    assert values[: len(column.special)] == list(column.special)
    assert all(_valid(value, column) for value in values)


def test_a_logarithmic_scale_spends_the_line_on_ratios() -> None:
    """From 1 to 10 lies about as much of the line as from 1,000 to 10,000."""
    column = Integer("pay", 0, 100_000, scale=NumberScale.LOG)
    line = to_line(np.array([0.0, 10, 100, 1_000, 10_000, 100_000]), column)
    assert line[0] == -1
    assert line[-1] == 1
    assert np.ptp(np.diff(line[1:])) < 0.05
