"""Sweeps: the grid, what is varied and what is not, the price of choosing, and resumption."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scipy import stats

from understudy.data import known_schema
from understudy.dpsgd.clipping import GlobalClip, WeightsBiasesClip
from understudy.errors import EvaluationError, PlanError, RecipeError
from understudy.evaluation.learners import Learner
from understudy.ledger.ledger import Ledger, Status
from understudy.privacy.budget import Budget
from understudy.reporting.curves import curves_page
from understudy.tuning import sweep as sweeping
from understudy.tuning.curves import Limits, Outcome, curve_points
from understudy.tuning.selection import selection_cost
from understudy.tuning.sweep import (
    Bill,
    planned,
    run_sweep,
    runs_cost,
    sweep_of,
)
from understudy.tuning.variation import Change, Setting, grid, varied

if TYPE_CHECKING:
    from pathlib import Path

IRIS = sweep_of("iris", "iris:test", known_schema("iris"), "dp-cgan", 1e-3, 120, Learner.LOGISTIC_REGRESSION)


def test_grid_holds_every_combination_once() -> None:
    """Two budgets, two clips, one batch and three repeats are twelve runs, all different."""
    settings = grid([1, 2], {"clip": [0.1, 1], "batch": [8]}, 3)
    assert len(set(settings)) == 12
    assert settings[0] == Setting(1, (Change("clip", 0.1), Change("batch", 8)), 0)
    assert str(settings[-1]) == "ε=2 clip=1 batch=8 #3"
    with pytest.raises(PlanError, match="cannot be varied"):
        grid([1], {"luck": [1]}, 1)
    with pytest.raises(PlanError, match="at least one"):
        grid([], {}, 1)


def test_varied_settings_reach_the_plan() -> None:
    """Clip, capacity, batch and steps change the plan; clip leaves the noise, and so the cost, alone."""
    base, clipped, wide = (
        planned(IRIS, Setting(2, (Change("batch", 12), Change("steps", 4), *more), 0))
        for more in ((), (Change("clip", 0.01),), (Change("capacity", 7),))
    )
    assert base.training.steps == 4
    assert base.training.sampling_rate == pytest.approx(0.1)
    assert clipped.charges == base.charges
    assert clipped.recipe.clipping != base.recipe.clipping
    assert wide.recipe.critic.hidden == (7,)  # type: ignore[union-attr]


def test_choosing_the_best_costs_more_than_one_run() -> None:
    """The price of the best of ten runs lies above one run's ε, and above that of the best of two."""
    settings = grid([2], {"steps": [3], "batch": [12]}, 10)
    ten, two = selection_cost(IRIS, settings).epsilon, selection_cost(IRIS, settings[:2]).epsilon
    assert 2 < two < ten < 40


def test_curve_points_by_hand() -> None:
    """Two repeats of 0.6 and 0.8 give 0.7 with Student's interval; one repeat gives no interval."""
    outcomes = [
        Outcome(Setting(epsilon, (Change("clip", 1.0),), repeat), epsilon, value, 0.5)
        for epsilon, repeat, value in ((1, 0, 0.6), (1, 1, 0.8), (4, 0, 0.9))
    ]
    points = curve_points(outcomes, "accuracy")["clip=1"]
    assert [point.epsilon for point in points] == [1, 4]
    assert points[0].value == pytest.approx(0.7)
    half = stats.t.ppf(0.975, 1) * math.sqrt(0.02) / math.sqrt(2)
    assert points[0].low == max(0.0, 0.7 - half)
    assert math.isnan(points[1].low)
    page = curves_page("a title", outcomes, Limits(0.95, 0.99, 0.3, 0.5), 4.25, {1: 2.5, 4: 9.0})
    assert page.count("<svg") == 2
    assert "Internal, not for publication" in page
    assert "2.500" in page
    assert "The 3 runs together cost ε = <b>4.250</b>" in page


def test_a_sweep_runs_in_processes_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is charged and leaves an outcome and a release; a second call computes only what is missing."""
    bill = Bill(tmp_path / "flowers.ledger", "flowers", "a command")
    with Ledger(bill.ledger, create=True) as book:
        book.register("flowers", Budget(20.0, 1e-3))
    settings = grid([2], {"steps": [3], "batch": [12]}, 2)
    shares: dict[Setting, float] = {}
    outcomes, limits = run_sweep(
        IRIS, settings, tmp_path, workers=2, bill=bill, on_progress=shares.__setitem__
    )
    assert [outcome.setting for outcome in outcomes] == list(settings)
    assert set(shares.values()) == {1.0}
    assert limits.ceiling_accuracy > 0.8
    assert all(0 < outcome.spent_epsilon <= 2 for outcome in outcomes)
    assert len(list(tmp_path.glob("*.release"))) == 2
    with Ledger(bill.ledger) as book:
        statement = book.statement("flowers")
    assert [entry.status for entry in statement.entries] == [Status.SPENT] * 2
    assert statement.spent.epsilon == pytest.approx(runs_cost(IRIS, settings).epsilon, rel=1e-6)
    assert 2 < statement.spent.epsilon < 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.json"))
    asked: list[Setting] = []
    monkeypatch.setattr(sweeping, "in_processes", lambda _, waiting, **rest: asked.extend(waiting))
    again, _ = run_sweep(IRIS, settings, tmp_path, workers=2)
    assert again == outcomes
    assert asked == []
    next(tmp_path.glob("run-*.json")).unlink()
    with pytest.raises(EvaluationError, match="No such file"):
        run_sweep(IRIS, settings, tmp_path, workers=2)
    assert len(asked) == 1


def test_a_clipping_without_a_single_bound_is_refused() -> None:
    """Recipes that clip by groups have no bound that a sweep could vary."""
    grouped = replace(IRIS.recipe, clipping=WeightsBiasesClip(1.0, 1.0))
    with pytest.raises(RecipeError, match="no single bound"):
        varied(grouped, {"clip": 1.0})
    joint = varied(replace(IRIS.recipe, clipping=GlobalClip(1.0)), {"clip": 0.5})
    assert joint.clipping == GlobalClip(0.5)


@pytest.mark.parametrize("what", ["clip", "capacity"])
def test_what_a_recipe_does_not_have_is_not_varied(what: str) -> None:
    """Without a critic a varied bound would change nothing, and the curve would be flat for no reason."""
    ours = sweep_of("iris", "iris:test", IRIS.schema, "understudy", 1e-3, 120, Learner.LOGISTIC_REGRESSION)
    with pytest.raises(RecipeError, match=f"has no {what} that could be 1"):
        varied(ours.recipe, {what: 1.0})
