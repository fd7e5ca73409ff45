"""Noisy counts made possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.synthesizers.shared.simplex import on_simplex


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=12), total=st.floats(0.1, 100))
def test_the_simplex_is_reached_by_the_shortest_way(values: list[float], total: float) -> None:
    """Not negative, the right sum, and optimal: positive entries moved equally, zeros would have gone below."""
    before = np.array(values)
    after = on_simplex(before, total)
    assert after.min() >= 0
    assert after.sum() == pytest.approx(total)
    shift = (before - after)[after > 0]
    assert np.allclose(shift, shift[0], atol=1e-6)
    assert (before[after == 0] <= shift[0] + 1e-6).all()
    assert on_simplex(before, 0.0).sum() == 0
