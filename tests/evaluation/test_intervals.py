"""Intervals: they hold the truth about as often as they say, and not always."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from understudy.errors import EvaluationError
from understudy.evaluation.intervals import Estimate, from_seeds, jackknife, wilson


def test_jackknife_of_a_mean_is_the_standard_error() -> None:
    """With one row per group the jackknife variance of a mean is exactly s²/n."""
    values = np.random.default_rng(0).normal(size=30)
    estimate = jackknife(lambda rows: float(rows.mean()), values, groups=30)
    half = stats.t.ppf(0.975, 29) * values.std(ddof=1) / math.sqrt(30)
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.high - estimate.value == pytest.approx(half)


def test_jackknife_covers_a_difference_of_means_about_19_times_in_20() -> None:
    """Coverage of the true difference lies near 95 %, so the interval is neither empty nor everything."""
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        first, second = generator.normal(1.0, 1.0, 200), generator.normal(0.0, 2.0, 300)
        estimate = jackknife(lambda a, b: float(a.mean() - b.mean()), first, second)
        covered += estimate.low <= 1.0 <= estimate.high
    assert 0.90 <= covered / 300 <= 0.99


def test_seed_interval_covers_accuracy_about_19_times_in_20() -> None:
    """The row bootstrap of an accuracy covers the true rate near 95 % of the time."""
    generator = np.random.default_rng(2)
    covered = 0
    for seed in range(200):
        right = generator.random(300) < 0.8
        estimate = from_seeds(lambda rows, right=right: [float(right[rows].mean())], 300, seed=seed)
        covered += estimate.low <= 0.8 <= estimate.high
    assert 0.88 <= covered / 200 <= 0.99


def test_spread_over_seeds_widens_the_interval() -> None:
    """Two seeds that disagree give a wider interval than two that agree."""
    agree = from_seeds(lambda rows: [0.5, 0.5], 10)
    differ = from_seeds(lambda rows: [0.4, 0.6], 10)
    assert agree == Estimate(0.5, 0.5, 0.5)
    assert differ.low < 0.4
    assert differ.high > 0.6


def test_wilson_by_hand() -> None:
    """10 of 100 gives Wilson's published interval (0.0552, 0.1744), and 0 of 10 stays above nothing."""
    estimate = wilson(10, 100)
    assert (estimate.value, round(estimate.low, 4), round(estimate.high, 4)) == (0.1, 0.0552, 0.1744)
    assert wilson(0, 10).low == 0.0
    assert wilson(0, 10).high > 0.2
    with pytest.raises(EvaluationError, match="no trials"):
        wilson(0, 0)


def test_estimates_are_cut_at_the_limits_of_the_quantity() -> None:
    """A share never gets an interval beyond 0 or 1."""
    assert Estimate.around(0.95, 0.2, 0.0, 1.0) == Estimate(0.95, 0.75, 1.0)
