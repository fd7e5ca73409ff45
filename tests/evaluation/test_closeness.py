"""Closeness: copies of training rows are found, honest samples look like chance."""

from __future__ import annotations

import numpy as np

from tiny import three_sets
from understudy.evaluation import closeness as near


def test_exact_matches_by_hand() -> None:
    """One of three rows is among the others."""
    assert near.exact_matches(np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([[3.0, 4], [9, 9]])) == 1


def test_honest_rows_look_like_chance() -> None:
    """Fresh rows are as close to hold-out as to training rows, and none is a copy."""
    training, holdout, fresh = three_sets()
    found = {m.name: m for m in near.closeness(fresh, training, holdout)}
    half = found["closer to training than to hold-out"]
    assert half.low is not None
    assert half.high is not None
    assert half.low <= 0.5 <= half.high
    assert found["exact matches"].value == 0
    assert all(measure.internal for measure in found.values())


def test_copies_of_training_rows_are_found() -> None:
    """A generator that repeats its training rows is caught by every measure."""
    training, holdout, _ = three_sets()
    found = {m.name: m.value for m in near.closeness(training, training, holdout)}
    assert found["exact matches"] == 1.0
    assert found["near matches"] == 1.0
    assert found["closer to training than to hold-out"] == 1.0
