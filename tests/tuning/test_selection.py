"""Choosing the best of several runs: the conditions of the theorem, one by one, and what the choice leaves behind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from doubles import Repeatable
from understudy import files
from understudy.data import known_schema
from understudy.door.source import Rows
from understudy.errors import BudgetError, EvaluationError, LedgerError, PlanError
from understudy.evaluation.learners import Learner
from understudy.ledger.ledger import Ledger, Status
from understudy.privacy.accounting import spent
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, GaussianRelease, Selection
from understudy.release.readme import model_card
from understudy.release.release import Release
from understudy.tuning import selection
from understudy.tuning.selection import (
    Choice,
    draw_runs,
    noisy_score,
    select,
    selection_charge,
    selection_cost,
)
from understudy.tuning.sweep import Bill, encoded_rows, planned, sweep_of
from understudy.tuning.variation import Setting, grid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IRIS = sweep_of("iris", "iris:test", known_schema("iris"), "dp-cgan", 1e-3, 120, Learner.LOGISTIC_REGRESSION)
SETTINGS = grid([2], {"steps": [3], "batch": [8, 12]}, 1)
CHOICE = Choice(2.0)


def geometric_misfit(counts: list[int], mean: float) -> float:
    """p-value of a χ² test against the geometric distribution with this mean, tail taken together."""
    last = 8
    expected = [(1 - 1 / mean) ** (k - 1) / mean for k in range(1, last)]
    expected.append(1 - sum(expected))
    found = Counter(min(count, last) for count in counts)
    observed = [found[k] for k in range(1, last + 1)]
    return float(stats.chisquare(observed, np.array(expected) * len(counts)).pvalue)


def test_the_number_of_runs_is_geometric() -> None:
    """The number of runs follows the distribution that was charged, not one with a slightly other mean."""
    counts = [len(draw_runs(SETTINGS, 3.0)) for _ in range(6000)]
    assert geometric_misfit(counts, 3.0) > 1e-6
    assert geometric_misfit(counts, 3.4) < 1e-6
    assert geometric_misfit([3] * 6000, 3.0) < 1e-6, "a fixed number of runs would go unnoticed"


def test_settings_are_drawn_evenly() -> None:
    """Each run draws its setting from the whole grid, independently of the others."""
    drawn = Counter(one for _ in range(1500) for one in draw_runs(SETTINGS, 3.0))
    share = drawn[SETTINGS[0]] / sum(drawn.values())
    assert abs(share - 0.5) < 0.05


class Copies:
    """A stand-in for a release that draws real training rows."""

    def __init__(self) -> None:
        self.schema = IRIS.schema

    def sample(self, rows: int, *, seed: int | None = None) -> Any:
        """The first rows of the flowers."""
        from understudy.data import known

        return known("iris").train.content[:rows]


def test_the_score_has_sensitivity_one_and_the_charged_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving out a test row moves the exact score by at most one; the noise has the charge's deviation."""
    test = Rows.of(encoded_rows("iris:test", IRIS.schema), IRIS.schema)
    release: Any = Copies()
    whole = noisy_score(release, test, IRIS, None)
    for row in range(3):
        kept = np.arange(len(test)) != row
        assert test.labels is not None
        part = Rows(test.x[kept], test.labels[kept])
        assert abs(noisy_score(release, part, IRIS, None) - whole) <= 1
    source = Repeatable(5)
    monkeypatch.setattr(selection, "SecureNoise", lambda: source)
    drawn = [noisy_score(release, test, IRIS, 10.0) - whole for _ in range(60)]
    assert 7.5 < np.std(drawn) < 12.5
    charges = selection_charge(IRIS, SETTINGS, CHOICE, SETTINGS[0]).mechanism
    assert isinstance(charges, Selection)
    assert charges.charges[-1].mechanism == GaussianRelease(10.0)


def inline(
    work: Callable[[Any, Callable[[float], None]], None], jobs: Any, *, workers: int, on_progress: Any = None
) -> None:
    """The pool, without processes."""
    for job in jobs:
        work(job, lambda share: None)


@pytest.fixture
def bill(tmp_path: Path) -> Bill:
    """A ledger in which the flowers may spend much."""
    with Ledger(tmp_path / "flowers.ledger", create=True) as book:
        book.register("flowers", Budget(20.0, 1e-3))
    return Bill(tmp_path / "flowers.ledger", "flowers", "a command")


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always the same draw, in this process: both settings, then the first again."""
    runs = (SETTINGS[0], SETTINGS[1], SETTINGS[0])
    monkeypatch.setattr(selection, "draw_runs", lambda settings, mean: runs)
    monkeypatch.setattr(selection, "in_processes", inline)


@pytest.mark.usefixtures("three")
def test_the_best_run_is_published_with_the_whole_cost(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best score wins; card and ledger state the choice's cost; nothing of the other runs is left."""
    scores = iter([5.0, 9.0, 7.0])
    monkeypatch.setattr(selection, "noisy_score", lambda *rest: next(scores))
    chosen = select(IRIS, SETTINGS, tmp_path / "out", CHOICE, bill, workers=1)
    assert (chosen.setting, chosen.right) == (SETTINGS[1], 9.0)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["best"]
    plan = Release.load(tmp_path / "out" / "best").card.plan
    assert plan.spent is not None
    assert plan.spent.epsilon == pytest.approx(selection_cost(IRIS, SETTINGS, CHOICE).epsilon)
    assert plan.spent.epsilon > 2
    assert plan.training == planned(IRIS, SETTINGS[1]).training
    assert "best of a random number of runs" in model_card(chosen.release.card)
    with Ledger(bill.ledger) as book:
        statement = book.statement("flowers")
        book.verify()
    assert statement.spent.epsilon == pytest.approx(plan.spent.epsilon)
    assert [entry.status for entry in statement.entries] == [Status.SPENT]
    assert chosen.release.card.ledger_head == statement.head.hash
    with pytest.raises(PlanError, match="exists already"):
        select(IRIS, SETTINGS, tmp_path / "out", CHOICE, bill, workers=1)


@pytest.mark.usefixtures("three")
def test_the_choice_is_on_record_before_a_run_begins(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first run starts, its choice counts in full and cannot be refunded; too large a choice starts none."""
    seen = []

    def begun(*rest: object) -> None:
        with Ledger(bill.ledger) as book:
            seen.extend(book.statement("flowers").entries)
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "fitted", begun)
    with pytest.raises(KeyboardInterrupt):
        select(IRIS, SETTINGS, tmp_path / "out", CHOICE, bill, workers=1)
    assert seen[0].drawn
    assert seen[0].counted() == (selection_charge(IRIS, SETTINGS, CHOICE, SETTINGS[0]),)
    seen.clear()
    with Ledger(bill.ledger) as book:
        book.register("few", Budget(2.5, 1e-3))
    with pytest.raises(BudgetError, match="would still fit"):
        select(IRIS, SETTINGS, tmp_path / "two", CHOICE, Bill(bill.ledger, "few"), workers=1)
    assert not seen


def test_an_interrupted_choice_goes_on_with_the_same_runs(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A choice that was stopped keeps its draw and its entry: drawing anew would choose the number of runs."""
    draws = iter([(SETTINGS[0], SETTINGS[1]), (SETTINGS[0],)])
    monkeypatch.setattr(selection, "draw_runs", lambda settings, mean: next(draws))
    monkeypatch.setattr(selection, "in_processes", inline)
    original, calls = selection.fitted, []

    def breaking(*rest: Any) -> Release:
        calls.append(rest)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*rest)

    monkeypatch.setattr(selection, "fitted", breaking)
    with pytest.raises(KeyboardInterrupt):
        select(IRIS, SETTINGS, tmp_path / "out", CHOICE, bill, workers=1)
    left = next((tmp_path / "out").glob("choice-*"))
    assert left.stat().st_mode & 0o077 == 0
    assert (left / "drawn.json").stat().st_mode & 0o077 == 0
    select(IRIS, SETTINGS, tmp_path / "out", CHOICE, bill, workers=1)
    assert len(calls) == 3, "the finished run was run again, or the stopped one was dropped"
    with Ledger(bill.ledger) as book:
        assert len(book.statement("flowers").entries) == 1


def stopped_choice(tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch) -> Callable[[Bill], object]:
    """A choice of two runs, stopped in the second; returns what goes on with it."""
    monkeypatch.setattr(selection, "draw_runs", lambda settings, mean: (SETTINGS[0], SETTINGS[1]))
    monkeypatch.setattr(selection, "in_processes", inline)
    original, calls = selection.fitted, []

    def breaking(*rest: Any) -> Release:
        calls.append(rest)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*rest)

    monkeypatch.setattr(selection, "fitted", breaking)

    def go_on(with_bill: Bill) -> object:
        return select(IRIS, SETTINGS, tmp_path / "out", CHOICE, with_bill, workers=1)

    with pytest.raises(KeyboardInterrupt):
        go_on(bill)
    return go_on


def test_a_choice_goes_on_in_its_own_ledger_only(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another ledger, whose entry of that number is somebody else's, nothing is drawn and nothing closed."""
    go_on = stopped_choice(tmp_path, bill, monkeypatch)
    foreign = tmp_path / "foreign.ledger"
    with Ledger(foreign, create=True) as book:
        book.register("flowers", Budget(20.0, 1e-3))
        book.reserve("flowers", [Charge("x", GaussianRelease(3.0))])
    with pytest.raises(LedgerError, match="another ledger"):
        go_on(replace(bill, ledger=foreign))
    with Ledger(foreign) as book:
        assert [entry.status for entry in book.statement("flowers").entries] == [Status.RESERVED]
    go_on(bill)


def test_a_choice_whose_entry_was_closed_makes_no_more_runs(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its entry is closed, the runs that are left are refused before they draw."""
    go_on = stopped_choice(tmp_path, bill, monkeypatch)
    with Ledger(bill.ledger) as book:
        (entry,) = book.statement("flowers").entries
        book.finish(entry)
    monkeypatch.setattr(selection, "fitted", lambda *rest: pytest.fail("a run was made"))
    with pytest.raises(LedgerError, match="closed"):
        go_on(bill)


def test_two_processes_do_not_share_a_choice(
    tmp_path: Path, bill: Bill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is at work, another that would mix its scores with the first one's releases is refused."""
    go_on = stopped_choice(tmp_path, bill, monkeypatch)
    (work,) = (tmp_path / "out").glob("choice-*")
    with files.held(work), pytest.raises(PlanError, match="another process"):
        go_on(bill)
    go_on(bill)


def test_the_score_costs_unless_the_test_rows_are_public() -> None:
    """A noisy score is part of every run's cost; less noise costs more; public rows cost nothing."""
    free, little, much = (
        selection_cost(IRIS, SETTINGS, Choice(2.0, noise)).epsilon for noise in (None, 30.0, 1.0)
    )
    assert free < little < much
    assert free > spent(planned(IRIS, SETTINGS[0]).charges, 1e-3).epsilon


def test_choices_that_are_none_are_refused() -> None:
    """Several budgets, or one run, leave nothing to choose."""
    with pytest.raises(PlanError, match="one ε"):
        selection_charge(IRIS, [*SETTINGS, Setting(3, (), 0)], CHOICE, SETTINGS[0])
    with pytest.raises(EvaluationError, match="at least two runs"):
        selection_cost(IRIS, SETTINGS[:1])
