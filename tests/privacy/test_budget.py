"""A budget that promises nothing cannot be made."""

from __future__ import annotations

import math

import pytest

from understudy.errors import BudgetError
from understudy.privacy.budget import Adjacency, Budget


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_epsilon_is_positive_and_finite(epsilon: float) -> None:
    """An ε of zero, less, or infinity is refused."""
    with pytest.raises(BudgetError, match="epsilon"):
        Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_is_between_zero_and_one(delta: float) -> None:
    """A δ outside (0, 1) is refused."""
    with pytest.raises(BudgetError, match="delta"):
        Budget(1.0, delta)


def test_large_delta_is_refused_where_rows_are_known() -> None:
    """δ must lie below 1/rows, where publishing one whole record would be allowed."""
    Budget(1.0, 9e-4).refuse_large_delta(1000)
    with pytest.raises(BudgetError, match="1/rows"):
        Budget(1.0, 1e-3).refuse_large_delta(1000)


def test_the_adjacency_is_always_printed() -> None:
    """No ε is shown without its neighbours."""
    assert str(Budget(3.0, 1e-5)) == "(ε = 3, δ = 1e-05), add-or-remove-one"
    assert "replace-one" in str(Budget(3.0, 1e-5, Adjacency.REPLACE_ONE))
