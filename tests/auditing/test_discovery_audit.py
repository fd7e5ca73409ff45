"""The audit of discovery passes as it is, and names each bug that is planted in it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from understudy.auditing.configuration import audit
from understudy.auditing.discovery import discovery_readings
from understudy.auditing.verdict import Outcome
from understudy.discovery import discover
from understudy.discovery.queries import BinCounts
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import TextCounts
from understudy.planning import plan
from understudy.privacy.mechanisms import GaussianThreshold
from understudy.schema import DISCOVER, Binary, Categorical, Continuous, Datetime, Integer, TableSchema
from understudy.synthesizers.contract import check_synthesizer

SCHEMA = TableSchema(
    (
        Continuous("income", DISCOVER, DISCOVER, missing=True),
        Integer("age", 0, DISCOVER),
        Datetime("seen", DISCOVER, DISCOVER),
        Categorical("ward", DISCOVER, missing=True),
        Binary("ill"),
    ),
    label="ill",
)
PLAN = plan(SCHEMA, epsilon=2.0, rows=5000, steps=2)


def failed() -> set[str]:
    """The readings that contradict the plan."""
    seeds = iter(range(100))
    found = discovery_readings(PLAN, SCHEMA, lambda: SeededNoise(next(seeds)), 1e-6)
    assert len(found) >= 10
    return {reading.name for reading in found if reading.outcome is not Outcome.PASS}


def test_discovery_as_it_is_passes() -> None:
    """Noise, bounds, thresholds and secrecy are as charged."""
    assert failed() == set()


def test_an_audit_and_the_contract_take_a_schema_with_open_facts() -> None:
    """The whole run is rehearsed with made-up facts, and discovery beside it."""
    found = audit(PLAN, seed=1)
    assert found.verdict.outcome is Outcome.PASS
    assert found.reading("threshold of categories of ward").outcome is Outcome.PASS
    check_synthesizer(PLAN.recipe, SCHEMA, rows=20)


def test_a_complete_schema_has_nothing_to_read() -> None:
    """No reading is made up."""
    complete = TableSchema((Integer("age", 0, 120), Binary("ill")), label="ill")
    made = plan(complete, epsilon=2.0, rows=5000)
    assert discovery_readings(made, complete, lambda: SeededNoise(0), 1e-6) == []


def test_an_unshifted_threshold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold that forgets the one row of the person itself."""
    honest = GaussianThreshold.threshold
    monkeypatch.setattr(GaussianThreshold, "threshold", lambda self, rows_each=1: honest(self, rows_each) - 1)
    assert failed() == {"threshold of categories of ward"}


def test_a_row_that_counts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An off-by-one in what a person contributes shows in the noise and at the threshold."""
    add = TextCounts.add

    def twice(self: Any, sums: Any, batch: Any) -> None:
        add(self, sums, batch)
        add(self, sums, batch)

    monkeypatch.setattr(TextCounts, "add", twice)
    assert failed() == {"discovery: categories of ward", "threshold of categories of ward"}


def test_one_level_too_few_in_the_sensitivity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts on three levels with the noise of two."""
    less = property(lambda self: math.sqrt(len(self._bins.levels) - 1))
    monkeypatch.setattr(BinCounts, "sensitivity", less)
    assert failed() == {f"discovery: bounds of {name}" for name in ("income", "age", "seen")}


def test_half_the_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of half the scale on what is selected."""
    honest = Door._selected

    def half(self: Any, purpose: str, words: Any, counts: Any, scale: float, threshold: float) -> Any:
        before = counts.clone()
        found = honest(self, purpose, words, counts, scale, threshold)
        counts.add_(before).div_(2)
        return found

    monkeypatch.setattr(Door, "_selected", half)
    assert "discovery: release-noise" in failed()


def test_a_bound_by_the_exact_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same published counts, two runs must find the same bounds."""
    exact: list[Any] = []
    add, choose = BinCounts.add, discover.found_range

    def watched(self: Any, sums: Any, batch: Any) -> None:
        add(self, sums, batch)
        exact[:] = [one.clone().numpy() for one in sums]

    monkeypatch.setattr(BinCounts, "add", watched)
    monkeypatch.setattr(discover, "found_range", lambda counts, bins, deviation: choose(exact, bins, 0.0))
    assert "discovery: interference" in failed()


def test_a_person_with_several_texts_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """With up to eight rows each it passes; a threshold for one text of a person does not."""
    persons = replace(SCHEMA, person="patient", max_rows_per_person=8)
    made = plan(persons, epsilon=2.0, rows=5000, steps=2)
    seeds = iter(range(100))

    def outcomes() -> set[str]:
        found = discovery_readings(made, persons, lambda: SeededNoise(next(seeds)), 1e-6)
        return {reading.name for reading in found if reading.outcome is not Outcome.PASS}

    assert outcomes() == set()
    honest = GaussianThreshold.threshold
    monkeypatch.setattr(GaussianThreshold, "threshold", lambda self, rows_each=1: honest(self))
    assert outcomes() == {"threshold of categories of ward"}
