"""The sampler readings accept Poisson sampling and reject everything that is only like it."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.auditing.claims import Claim
from understudy.auditing.samplers import draw_inclusions, sampler_readings
from understudy.auditing.verdict import Outcome
from understudy.privacy.mechanisms import SubsampledGaussian


def failed(sampler, rate, rows=400, rounds=400, alpha=1e-5):
    """Names of the readings that fail."""
    claim = Claim(SubsampledGaussian(rate, 1.0, 100), 1e-5)
    readings = sampler_readings(draw_inclusions(sampler, rows, rounds), claim, alpha)
    return {reading.name for reading in readings if reading.outcome is Outcome.FAIL}


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_poisson_sampling_passes_at_the_nominal_rate(rate):
    """Of 30 correct samplers none fails at 1e-5, and few at 5 %."""
    rng = np.random.default_rng(0)
    strict = [failed(lambda n: np.flatnonzero(rng.random(n) < rate), rate) for _ in range(30)]
    assert not any(strict)
    loose = [failed(lambda n: np.flatnonzero(rng.random(n) < rate), rate, alpha=0.05) for _ in range(30)]
    assert sum(bool(names) for names in loose) <= 6


def test_a_rate_that_is_larger_than_claimed_is_found():
    """q = 600/55000 drawn where 600/60000 is claimed."""
    rng = np.random.default_rng(1)
    assert "sampling-rate" in failed(lambda n: np.flatnonzero(rng.random(n) < 0.109), 0.1)


def test_shuffled_epochs_are_found():
    """Fixed-size batches from a reshuffled data set fail on sizes and on consecutive batches."""
    rng, left = np.random.default_rng(2), []

    def sampler(rows):
        nonlocal left
        if not len(left):
            left = np.array_split(rng.permutation(rows), 10)
        return left.pop()

    assert {"batch-size", "consecutive-batches"} <= failed(sampler, 0.1)


def test_shuffled_batches_of_binomial_size_are_found():
    """Even with the right batch sizes, a record that was just used does not return, and that shows."""
    rng, order = np.random.default_rng(3), np.empty(0, dtype=np.int64)

    def sampler(rows):
        nonlocal order
        size = rng.binomial(rows, 0.1)
        if len(order) < size:
            order = rng.permutation(rows)
        batch, order = order[:size], order[size:]
        return batch

    assert "consecutive-batches" in failed(sampler, 0.1)


def test_records_that_travel_together_are_found():
    """Blocks of ten rows that join or stay out together fail on pairs."""
    rng = np.random.default_rng(4)
    assert "pairs" in failed(lambda n: np.flatnonzero(np.repeat(rng.random(n // 10) < 0.1, 10)), 0.1)
