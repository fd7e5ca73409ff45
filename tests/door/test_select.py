"""Texts that nobody listed leave the door only where enough rows have them; each check fails under its planted bugs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from understudy.door import door as door_module
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.persons import Persons
from understudy.door.query import Batch, TextCounts
from understudy.door.source import Rows
from understudy.errors import BudgetError, PlanError
from understudy.privacy.mechanisms import Charge, GaussianRelease, GaussianThreshold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Check = Callable[[type[Door]], None]

TEXTS, SIGMA, DELTA = "texts", 1.0, 0.05
CHARGES = (Charge(TEXTS, GaussianThreshold(SIGMA, DELTA)), Charge("counts", GaussianRelease(SIGMA)))
ALONE = 4000
"""Texts that one row has each, so that one release shows how often such a text passes."""


def rows_with(counts: dict[str, int], each: int | None = None) -> Rows:
    """As many rows with each text as said, in the order of the texts; several in a row may be one person's."""
    numbers = np.repeat(np.arange(len(counts)), list(counts.values()))
    x = torch.from_numpy(numbers[:, None].astype(np.float64))
    persons = None if each is None else Persons.of(np.arange(len(x)) // each, each, x, None)
    return Rows(x, None, persons, {0: tuple(counts)})


def a_door(make: type[Door], counts: dict[str, int], **options: object) -> Door:
    return make(rows_with(counts), CHARGES, SeededNoise(5), insecure=True, **options)  # type: ignore[arg-type]


def check_a_text_of_one_row_passes_with_delta(make: type[Door]) -> None:
    """Of 4,000 texts with one row each about 5 % show: not more, at six standard deviations, and not far fewer."""
    found = a_door(make, {f"text {i}": 1 for i in range(ALONE)}).select(TEXTS, 0)
    deviation = math.sqrt(ALONE * DELTA * (1 - DELTA))
    assert abs(len(found) - ALONE * DELTA) < 6 * deviation


def check_a_person_with_several_rows_passes_with_delta(make: type[Door]) -> None:
    """The same for persons with eight rows, all with one text of their own, or each with another."""
    for counts in ({f"text {i}": 8 for i in range(ALONE)}, {f"text {i}": 1 for i in range(8 * ALONE)}):
        charges = (Charge(TEXTS, GaussianThreshold(4 * SIGMA, DELTA)),)
        door = make(rows_with(counts, 8), charges, SeededNoise(5), insecure=True)
        persons = {
            int(text.removeprefix("text ")) // (len(counts) // ALONE) for text in door.select(TEXTS, 0)
        }
        assert len(persons) < ALONE * DELTA + 6 * math.sqrt(ALONE * DELTA)


def check_frequent_texts_are_found_in_an_order_that_tells_nothing(make: type[Door]) -> None:
    """What many have is published with a count near the true one, alphabetically, whatever comes first in the data."""
    counts = {"west": 400, "east": 600, "nowhere": 0}
    found = a_door(make, counts).select(TEXTS, 0)
    assert list(found) == ["east", "west"]
    assert found["east"] == pytest.approx(600, abs=8 * SIGMA)
    assert found["east"] != 600


def check_only_a_threshold_pays_for_texts(make: type[Door]) -> None:
    """Without a charge, or with one that has no threshold, no text leaves; and a threshold pays for nothing else."""
    door = a_door(make, {"a": 50})
    for purpose in ("counts", "other"):
        with pytest.raises(PlanError, match="no threshold"):
            door.select(purpose, 0)
    with pytest.raises(PlanError, match="by `select`"):
        door.publish(TEXTS, TextCounts(0, 1))
    assert door.used == {}


def check_texts_are_drawn_once(make: type[Door]) -> None:
    """A second draw would cost again; also after a resume."""
    door = a_door(make, {"a": 50})
    door.select(TEXTS, 0)
    for again in (door, a_door(make, {"a": 50}, used={TEXTS: 1})):
        with pytest.raises(BudgetError, match="was drawn"):
            again.select(TEXTS, 0)


class Diary:
    """An account that notes what it is told, and when noise is drawn."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def announce(self, purpose: str) -> None:
        self.notes.append(purpose)


def check_the_account_hears_first(make: type[Door]) -> None:
    """The draw is on record before the noise is drawn."""
    diary = Diary()

    class Noted(SeededNoise):
        def perturb(self, *arguments: object) -> None:
            diary.notes.append("noise")
            super().perturb(*arguments)  # type: ignore[arg-type]

    make(rows_with({"a": 50}), CHARGES, Noted(1), account=diary, insecure=True).select(TEXTS, 0)  # type: ignore[arg-type]
    assert diary.notes == [TEXTS, "noise"]


def check_a_baseline_names_all_that_is_there(make: type[Door]) -> None:
    """Without privacy, every text that a row has, and no other."""
    door = make(rows_with({"b": 1, "a": 2, "none": 0}), (), SeededNoise(0), private=False)
    assert door.select(TEXTS, 0) == {"a": 2.0, "b": 1.0}


# ------------------------------------------------------------------------------ planted bugs


class Unshifted(Door):
    """The threshold is a quantile of the noise, and forgets the row itself."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        return super()._selected(purpose, words, counts, scale, threshold - 1.0)


class CountsTwice(Door):
    """A row adds two to its text."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        return super()._selected(purpose, words, counts * 2, scale, threshold)


class ForgetsThePerson(Door):
    """The rows of a person are taken for those of as many people."""

    def select(self, purpose: str, column: int) -> dict[str, float]:
        self._records = replace(self._records, persons=None)
        return super().select(purpose, column)


class OneTextForAPerson(Door):
    """The threshold forgets that a person may have several texts that nobody else has."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        return super()._selected(purpose, words, counts, scale, GaussianThreshold(scale, DELTA).threshold())


class ExactCounts(Door):
    """What passes is published with its count as it is."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        exact = dict(zip(words, counts.tolist(), strict=True))
        return {word: exact[word] for word in super()._selected(purpose, words, counts, scale, threshold)}


class InTheOrderOfTheRows(Door):
    """The order of what is published is that of the data."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        found = super()._selected(purpose, words, counts, scale, threshold)
        return {word: found[word] for word in words if word in found}


class AnyGaussianPays(Door):
    """A release without a threshold is taken for one with some."""

    def select(self, purpose: str, column: int) -> dict[str, float]:
        sigma = self.sigma(purpose)
        self._charges[purpose] = GaussianThreshold(sigma, DELTA)
        return super().select(purpose, column)


class NeverCounts(Door):
    """Draws are not counted."""

    def _count(self, purpose: str) -> None: ...

    def left(self, purpose: str) -> int:
        return 1


class TellsNobody(Door):
    """The account hears nothing."""

    def _summed(self, purpose: str, query: object) -> list[Tensor]:
        self._account = None
        return super()._summed(purpose, query)  # type: ignore[arg-type]


class AllTextsOfTheList(Door):
    """A baseline names texts that no row has."""

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        exact = dict(sorted(zip(words, counts.tolist(), strict=True)))
        return super()._selected(purpose, words, counts, scale, threshold) if scale else exact


CHECKS: list[Check] = [
    check_a_text_of_one_row_passes_with_delta,
    check_a_person_with_several_rows_passes_with_delta,
    check_frequent_texts_are_found_in_an_order_that_tells_nothing,
    check_only_a_threshold_pays_for_texts,
    check_texts_are_drawn_once,
    check_the_account_hears_first,
    check_a_baseline_names_all_that_is_there,
]
MUTANTS: list[tuple[type[Door], Check]] = [
    (Unshifted, check_a_text_of_one_row_passes_with_delta),
    (CountsTwice, check_a_text_of_one_row_passes_with_delta),
    (ForgetsThePerson, check_a_person_with_several_rows_passes_with_delta),
    (OneTextForAPerson, check_a_person_with_several_rows_passes_with_delta),
    (ExactCounts, check_frequent_texts_are_found_in_an_order_that_tells_nothing),
    (InTheOrderOfTheRows, check_frequent_texts_are_found_in_an_order_that_tells_nothing),
    (AnyGaussianPays, check_only_a_threshold_pays_for_texts),
    (NeverCounts, check_texts_are_drawn_once),
    (TellsNobody, check_the_account_hears_first),
    (AllTextsOfTheList, check_a_baseline_names_all_that_is_there),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_selecting_keeps_its_promises(check: Check) -> None:
    """Without a planted bug every check holds."""
    check(Door)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=lambda part: part.__name__)
def test_the_named_check_kills_the_mutant(mutant: type[Door], check: Check) -> None:
    """With the planted bug the named check fails."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(mutant)


def test_every_check_kills_something() -> None:
    """No check is there for show."""
    assert {check for _, check in MUTANTS} == set(CHECKS)


def test_one_row_adds_one_to_one_text_whatever_it_holds() -> None:
    """NaN, infinities, numbers of no text and halves move the counts by one at most."""
    query = TextCounts(0, 3)
    for value in (0.0, 2.0, 1.5, -1.0, 3.0, math.nan, math.inf, -math.inf, 1e300):
        sums = query.zero()
        query.add(sums, Batch(torch.tensor([[value]], dtype=torch.float64), None, SeededNoise(0)))
        assert float(sums[0].sum()) <= query.sensitivity
        assert float(sums[0].max()) <= 1.0


def test_rounding_to_the_grid_lifts_nothing_over_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a coarse grid, a count just below the threshold is not rounded up to it."""
    monkeypatch.setattr(door_module, "_GRID_BITS", 0)
    alone = check_a_text_of_one_row_passes_with_delta
    found = a_door(Door, {f"text {i}": 1 for i in range(ALONE)}).select(TEXTS, 0)
    assert len(found) < ALONE * DELTA
    monkeypatch.undo()
    alone(Door)
