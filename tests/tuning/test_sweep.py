"""Sweeps: the grid, what is varied and what is not, the price of choosing, and resumption."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from understudy.data import known_schema
from understudy.dpsgd.clipping import GlobalClip, WeightsBiasesClip
from understudy.errors import EvaluationError, PlanError, RecipeError, TooFewRows
from understudy.evaluation.learners import Learner
from understudy.ledger.ledger import Ledger, Status
from understudy.privacy.budget import Budget
from understudy.reporting.curves import curves_page
from understudy.schema import ImageSchema
from understudy.synthesizers.registry import find_recipe
from understudy.tuning import sweep as sweeping
from understudy.tuning.curves import Limits, Outcome, Reached, curve_points
from understudy.tuning.selection import Choice, select, selection_cost
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
        Outcome(
            Setting(epsilon, (Change("clip", 1.0),), repeat),
            epsilon,
            (Reached("accuracy", value, 0.3), Reached("macro AuROC", 0.5, 0.5)),
        )
        for epsilon, repeat, value in ((1, 0, 0.6), (1, 1, 0.8), (4, 0, 0.9))
    ]
    points = curve_points(outcomes, "accuracy")["clip=1"]
    assert [point.epsilon for point in points] == [1, 4]
    assert points[0].value == pytest.approx(0.7)
    half = stats.t.ppf(0.975, 1) * math.sqrt(0.02) / math.sqrt(2)
    assert points[0].low == pytest.approx(0.7 - half)
    assert math.isnan(points[1].low)
    page = curves_page(
        "a title",
        outcomes,
        Limits((Reached("accuracy", 0.95, 0.3), Reached("macro AuROC", 0.99, 0.5))),
        4.25,
        {1: 2.5, 4: 9.0},
    )
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
    assert limits.ceilings[0].value > 0.8
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


UNTOLD = replace(find_recipe("dp-cgan", known_schema("iris")), conditional=False)


def inline(work: Any, jobs: Any, **rest: Any) -> None:
    """The pool, without processes."""
    del rest
    for job in jobs:
        work(job, lambda share: None)


def test_a_recipe_without_labels_is_swept_by_fidelity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, such a sweep trained, was charged, and failed; now marginal errors stand beside ceiling and floor."""
    monkeypatch.setattr(sweeping, "in_processes", inline)
    sweep = sweep_of(
        "iris", "iris:test", known_schema("iris"), UNTOLD, 1e-3, 120, Learner.LOGISTIC_REGRESSION
    )
    outcomes, limits = run_sweep(sweep, grid([2], {"steps": [3], "batch": [12]}, 1), tmp_path, workers=1)
    names = ["one-way marginal error", "two-way marginal error"]
    assert [one.name for one in limits.ceilings] == [one.name for one in outcomes[0].scores] == names
    assert all(one.value < one.floor for one in limits.ceilings)
    assert all(
        made.value > real.value for made, real in zip(outcomes[0].scores, limits.ceilings, strict=True)
    )
    page = curves_page("a title", outcomes, limits, 2.0, {})
    assert "two-way marginal error" in page


def test_what_cannot_be_measured_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few images for a discriminator, or no label to choose by: the ledger stays empty and nothing is trained."""
    started: list[object] = []
    monkeypatch.setattr(sweeping, "in_processes", lambda _, jobs, **rest: started.extend(jobs))
    bill = Bill(tmp_path / "few.ledger", "few", "a command")
    with Ledger(bill.ledger, create=True) as book:
        book.register("few", Budget(20.0, 1e-3))
    for name in ("train", "test"):
        np.savez(tmp_path / f"{name}.npz", images=np.zeros((40, 8, 8), dtype=np.uint8))
    sweep = sweep_of(
        str(tmp_path / "train.npz"),
        str(tmp_path / "test.npz"),
        ImageSchema(8, 8),
        UNTOLD,
        1e-3,
        40,
        Learner.LOGISTIC_REGRESSION,
    )
    settings = grid([2], {"steps": [3], "batch": [12]}, 2)
    with pytest.raises(TooFewRows, match="300"):
        run_sweep(sweep, settings, tmp_path / "out", workers=1, bill=bill)
    with pytest.raises(EvaluationError, match="without a label"):
        select(sweep, settings, tmp_path / "best", Choice(2.0), bill, workers=1)
    with Ledger(bill.ledger) as book:
        assert book.statement("few").entries == ()
    assert not started
