"""The values that are both run and accounted: what they refuse, and the events they emit."""

from __future__ import annotations

import dataclasses
import math

import dp_accounting
import pytest

from understudy.codec import from_plain, to_plain
from understudy.errors import LedgerError, PlanError
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    RunCount,
    Selection,
    SubsampledGaussian,
)


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, 1.0, 1),
        (1.1, 1.0, 1),
        (math.nan, 1.0, 1),
        (0.1, -1.0, 1),
        (0.1, math.inf, 1),
        (0.1, math.nan, 1),
        (0.1, 1.0, -1),
        (0.1, 1.0, 1, 10),
        (0.1, 1.0, 1, 0, 100),
        (0.1, 1.0, 1, 10, 0),
    ],
)
def test_impossible_training_is_refused(arguments: tuple[float, ...]) -> None:
    """Rates, noise, steps and caps that mean nothing are refused when the value is made."""
    with pytest.raises(PlanError):
        SubsampledGaussian(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sigma", "count"), [(0.0, 1), (-1.0, 1), (math.inf, 1), (math.nan, 1), (1.0, -1)])
def test_impossible_releases_are_refused(sigma: float, count: int) -> None:
    """A release needs positive, finite noise."""
    with pytest.raises(PlanError):
        GaussianRelease(sigma, count)


@pytest.mark.parametrize(
    ("mean", "runs"), [(1.0, RunCount.GEOMETRIC), (0.5, RunCount.LOGARITHMIC), (0.0, RunCount.POISSON)]
)
def test_impossible_selections_are_refused(mean: float, runs: RunCount) -> None:
    """Choosing among at most one run is no choice."""
    with pytest.raises(PlanError, match="mean number of runs"):
        Selection((Charge("a", GaussianRelease(1.0)),), mean, runs)


def test_events_hold_the_fields() -> None:
    """The accountant reads exactly the numbers that the engine uses."""
    event = SubsampledGaussian(0.01, 1.15, 24_900).event()
    assert event == dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.15)), 24_900
    )
    capped = SubsampledGaussian(0.01, 1.15, 5, batch_cap=700, rows=60_000).event()
    assert dataclasses.astuple(SubsampledGaussian(0.01, 1.15, 5, 700, 60_000))[:2] == (
        capped.event.sampling_probability,
        capped.event.noise_multiplier,
    )
    assert (capped.event.truncated_batch_size, capped.event.dataset_size, capped.count) == (700, 60_000, 5)


def test_expected_truncations() -> None:
    """Cuts are rare for a generous cap, certain for a tiny one, and impossible without one."""
    assert SubsampledGaussian(0.01, 1.0, 100).expected_truncations() == 0
    assert SubsampledGaussian(0.01, 1.0, 100, 900, 60_000).expected_truncations() < 1e-20
    assert SubsampledGaussian(0.01, 1.0, 100, 300, 60_000).expected_truncations() == pytest.approx(100)


@pytest.mark.parametrize(
    "mechanism",
    [
        SubsampledGaussian(0.01, 1.15, 100, 700, 60_000),
        GaussianRelease(3.0, 2),
        Selection((Charge("a", GaussianRelease(2.0)), Charge("b", SubsampledGaussian(0.1, 1.0, 3))), 4.0),
    ],
)
def test_charges_survive_plain_values(mechanism: SubsampledGaussian | GaussianRelease | Selection) -> None:
    """A charge is written and read back equal, by the codec's closed table."""
    charge = Charge("purpose", mechanism)
    assert from_plain(Charge, to_plain(charge)) == charge


def test_budget_survives_plain_values() -> None:
    """A budget is written and read back equal."""
    budget = Budget(3.0, 1e-5, Adjacency.REPLACE_ONE)
    assert from_plain(Budget, to_plain(budget)) == budget


def test_choices_within_choices_without_end_are_refused() -> None:
    """A hostile card that nests charges hundreds deep is refused like any other wrong value."""
    plain = to_plain(Charge("a", GaussianRelease(1.0)))
    for _ in range(500):
        inner = {"kind": "selection", "charges": [plain], "mean_runs": 2.0, "runs": "geometric"}
        plain = {"purpose": "a", "mechanism": inner}
    with pytest.raises(LedgerError, match="too deeply"):
        from_plain(Charge, plain, error=LedgerError)
