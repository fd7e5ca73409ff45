"""Bugs that real systems had, planted one by one: each must be found by a test of test_accounting.py."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scipy import optimize, stats

from understudy.errors import BudgetError
from understudy.privacy import pld, renyi
from understudy.privacy.accounting import spent
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HONEST = SubsampledGaussian.event
DISTRIBUTION = pld._distribution


def golden_value_holds() -> bool:
    """What test_golden_values asserts for its first row."""
    cost = spent([Charge("training", SubsampledGaussian(0.01, 1.15, 24_900))], 1e-5)
    return 8.1651 * 0.9997 <= cost.epsilon <= 8.1651 * 1.0005


def closed_form_holds() -> bool:
    """What test_full_batches_equal_closed_form asserts for T = 2."""
    sigma = 3.0 / math.sqrt(2)

    def excess(epsilon: float) -> float:
        second = stats.norm.logcdf(-0.5 / sigma - epsilon * sigma)
        return float(stats.norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon + second)) - 1e-5

    exact = float(optimize.brentq(excess, 0, 100))
    cost = spent([Charge("training", SubsampledGaussian(1.0, 3.0, 2))], 1e-5)
    return exact <= cost.epsilon <= exact * 1.002 + 1e-4


def changed(**changes: Callable[[SubsampledGaussian], Any]) -> Callable[[SubsampledGaussian], Any]:
    """An event made from other numbers than those the engine will use."""

    def event(self: SubsampledGaussian) -> Any:
        return HONEST(replace(self, **{name: change(self) for name, change in changes.items()}))

    return event


def one_step_short(mechanism: Any, adjacency: Any, interval: float) -> Any:
    """A PLD that composes one step too few."""
    if isinstance(mechanism, SubsampledGaussian) and mechanism.steps > 1:
        mechanism = replace(mechanism, steps=mechanism.steps - 1)
    return DISTRIBUTION(mechanism, adjacency, interval)


EVENTS = {
    "noise multiplied by the clipping bound 1.1": changed(
        noise_multiplier=lambda m: m.noise_multiplier * 1.1
    ),
    "noise divided by the root of the groups": changed(noise_multiplier=lambda m: m.noise_multiplier / 2),
    "sampling rate of the larger public set": changed(sampling_rate=lambda m: m.sampling_rate * 55 / 60),
    "sampling rate of the other data set": changed(
        sampling_rate=lambda m: min(1.0, m.sampling_rate * 60 / 55)
    ),
}


@pytest.fixture(autouse=True)
def clean(forget: Callable[[], None]) -> Iterator[None]:
    """No figure survives from or into other tests."""
    forget()
    yield
    forget()


def caught(check: Callable[[], bool]) -> bool:
    """Whether a check fails, or the accountants themselves refuse."""
    try:
        return not check()
    except BudgetError:
        return True


def test_the_checks_pass_without_a_bug() -> None:
    """The checks below accept the honest accountant."""
    assert golden_value_holds()
    assert closed_form_holds()


@pytest.mark.parametrize("name", EVENTS)
def test_wrong_numbers_in_the_event_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event with another σ or q than the engine's is caught by test_golden_values."""
    monkeypatch.setattr(SubsampledGaussian, "event", EVENTS[name])
    assert caught(golden_value_holds)


def test_one_step_too_few_in_the_distribution_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PLD of T - 1 steps is caught by test_full_batches_equal_closed_form."""
    monkeypatch.setattr(pld, "_distribution", one_step_short)
    assert caught(closed_form_holds)


def test_one_step_too_few_in_the_event_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of T - 1 steps makes the second opinion fall below the first, which is refused."""
    monkeypatch.setattr(SubsampledGaussian, "event", changed(steps=lambda m: max(1, m.steps - 1)))
    assert caught(closed_form_holds)


def test_rdp_alone_off_by_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only RDP forgets a step, the two accountants contradict each other."""
    honest = renyi._renyi.__wrapped__

    def short(charges: tuple[Charge, ...], orders: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(value / 2 for value in honest(charges, orders))

    monkeypatch.setattr(renyi, "_renyi", short)
    with pytest.raises(BudgetError, match="contradict"):
        closed_form_holds()
