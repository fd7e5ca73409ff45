"""Charging steps in groups: never after the fact, and hardly ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from understudy.errors import LedgerError
from understudy.ledger import meter as module
from understudy.ledger.ledger import Ledger
from understudy.ledger.meter import Meter
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger with one registered data set."""
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("ward", Budget(5.0, 1e-5))
        yield ledger


def training(steps: int) -> list[Charge]:
    """A cheap run."""
    return [Charge("training", SubsampledGaussian(0.01, 4.0, steps))]


def test_every_step_is_charged_before_it_runs(book: Ledger) -> None:
    """When a step may run, the ledger already holds it; the reservation is used up exactly."""
    meter = Meter(book, book.reserve("ward", training(300)), largest_group=7)
    for step in range(1, 301):
        meter.before_step()
        assert meter.drawn == step
        assert book.entry(meter.entry.id).steps_charged >= step
    assert meter.left == 0
    assert book.entry(meter.entry.id).steps_charged == 300
    with pytest.raises(LedgerError, match="never beyond"):
        meter.before_step()


def test_resuming_never_draws_a_charged_step_again(book: Ledger) -> None:
    """After a crash the rest of the last group is lost: drawing goes on where charging ended."""
    meter = Meter(book, book.reserve("ward", training(100)))
    meter.before_step()
    book.progress(meter.entry, 40)
    resumed = Meter(book, book.claim(meter.entry.id))
    assert (resumed.drawn, resumed.left) == (40, 60)


@pytest.mark.parametrize(("step", "write"), [(0.05, 0.004), (0.005, 0.02), (0.002, 0.004)])
def test_writing_costs_less_than_two_percent(
    step: float, write: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With simulated times of a step and of a durable write, writing takes less than 2 % of 20 000 steps."""
    clock = SimulatedTime(write)
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock.now)
    meter = Meter(clock, clock)  # type: ignore[arg-type]
    for _ in range(20_000):
        meter.before_step()
        clock.now += step
    assert clock.writes * write < 0.02 * clock.now
    assert clock.steps_charged - 20_000 <= 1000


class SimulatedTime:
    """A ledger and its entry at once, whose writes take simulated time."""

    steps_planned = 10**9

    def __init__(self, write: float) -> None:
        self.write, self.now, self.writes, self.steps_charged = write, 0.0, 0, 0

    def progress(self, entry: Any, steps: int) -> SimulatedTime:
        """Charge the steps and let time pass."""
        self.now += self.write
        self.writes += 1
        self.steps_charged = steps
        return self
