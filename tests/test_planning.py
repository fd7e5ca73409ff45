"""Plans: decided and certified before data is touched."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from understudy.certificate import checked_plan
from understudy.cli.running import saved_plan
from understudy.codec import from_json, to_json
from understudy.dpsgd.clipping import GlobalClip
from understudy.errors import BudgetError, PlanError
from understudy.planning import Plan, plan
from understudy.privacy.accounting import Accountant, spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian
from understudy.schema import Categorical, CodeSchema, Continuous, ImageSchema, TableSchema
from understudy.synthesizers.registry import RECIPES
from understudy.synthesizers.shared.parts import LABELS, ROWS

if TYPE_CHECKING:
    from pathlib import Path

TABLE = TableSchema((Continuous("x", 0, 1), Categorical("y", ("a", "b"))), label="y")
IMAGES = ImageSchema(28, 28, 1, classes=("a", "b"))
CODES = CodeSchema(("a", "b", "c"))
FREE = replace(IMAGES, label_weights=(0.5, 0.5))
"""Declared class frequencies cost nothing, so that these plans hold private steps and nothing else."""


def test_the_dp_cgan_setting_costs_what_it_should() -> None:
    """σ 1.15, q 0.01, 24,900 steps cost 8.165 by PLD and 8.802 by RDP (golden values)."""
    made = plan(FREE, epsilon=9.6, rows=60_000, recipe="dp-cgan", noise_multiplier=1.15, steps=24_900)
    assert made.spent is not None
    assert made.spent.epsilon == pytest.approx(8.1651, abs=1e-3)
    assert made.spent.epsilon_rdp == pytest.approx(8.8019, abs=2e-4)


def test_steps_follow_from_noise_and_are_the_most_that_fit() -> None:
    """Given σ the plan takes as many steps as the budget allows; two percent more would not fit."""
    made = plan(FREE, epsilon=3, rows=10_000, recipe="dp-cgan", batch=100, noise_multiplier=1.2)
    assert made.spent is not None
    assert made.spent.epsilon <= 3
    more = replace(
        made.charges[-1], mechanism=replace(made.training, steps=int(made.training.steps * 1.02) + 1)
    )
    assert spent([more], 1e-5, Adjacency.ADD_OR_REMOVE_ONE).epsilon > 3


def test_noise_follows_from_steps_and_is_the_least_that_fits() -> None:
    """Given steps the plan finds the least σ; one percent less would not fit."""
    made = plan(FREE, epsilon=2, rows=10_000, recipe="dp-cgan", batch=100, steps=500)
    assert made.spent is not None
    assert made.spent.epsilon <= 2
    less = replace(made.training, noise_multiplier=made.training.noise_multiplier * 0.99)
    assert spent([replace(made.charges[-1], mechanism=less)], 1e-5, Adjacency.ADD_OR_REMOVE_ONE).epsilon > 2


def test_epsilon_does_not_depend_on_the_clipping_bound() -> None:
    """The published dp-cgan fed σ·C to its accountant; here C cannot reach it."""
    costs = set()
    for bound in (0.01, 1.0, 100.0):
        recipe = replace(RECIPES["dp-cgan"], clipping=GlobalClip(bound))
        made = plan(FREE, epsilon=3, rows=10_000, recipe=recipe, batch=100, noise_multiplier=1.2)
        costs.add((made.spent, made.training))
    assert len(costs) == 1


def test_the_label_histogram_is_charged_when_labels_exist() -> None:
    """Class counts learned from private rows are a charge; an unlabelled schema has none."""
    labelled = plan(TABLE, epsilon=3, rows=10_000, recipe="dp-cgan", batch=100, steps=100)
    assert labelled.gaussian(LABELS) is not None
    plain = plan(replace(TABLE, label=None), epsilon=3, rows=10_000, recipe="dp-cgan", batch=100, steps=100)
    assert plain.gaussian(LABELS) is None


def test_a_private_row_count_is_charged_and_does_not_move_the_sampling_rate() -> None:
    """Without public rows, the count is a mechanism and q is a constant."""
    made = plan(TABLE, epsilon=3, rows=None, recipe="dp-cgan", batch=100, steps=100)
    assert made.gaussian(ROWS) is not None
    assert made.training.sampling_rate == 0.01


def test_both_given_and_too_dear_is_refused_with_the_cost() -> None:
    """Noise and steps that cost more than the budget are refused, and the message says how much they cost."""
    with pytest.raises(BudgetError, match=r"cost ε = \d+\.\d+, more than the budget of 1"):
        plan(FREE, epsilon=1, rows=60_000, recipe="dp-cgan", noise_multiplier=1.15, steps=24_900)


def test_a_batch_cap_is_in_the_mechanism_that_is_charged() -> None:
    """The cap of the plan is a field of the event that is accounted, costs a little, and survives JSON."""
    free = plan(FREE, epsilon=2, rows=10_000, recipe="dp-cgan", batch=100, steps=200)
    capped = plan(FREE, epsilon=2, rows=10_000, recipe="dp-cgan", batch=100, batch_cap=140, steps=200)
    assert (capped.training.batch_cap, capped.training.rows) == (140, 10_000)
    least, found = free.training.noise_multiplier, capped.training.noise_multiplier
    assert least < found < 1.1 * least, "an event without the cap would cost the same"
    assert capped.spent is not None
    assert capped.spent.epsilon <= 2
    assert "batch cap         140" in str(capped)
    assert from_json(Plan, to_json(capped)) == capped


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"recipe": "dp-cgan", "rows": 10_000, "batch_cap": 139}, "choose 140 or more"),
        ({"recipe": "dp-cgan", "rows": None, "batch_cap": 500}, "public number of rows"),
        ({"recipe": "understudy", "rows": 10_000, "batch_cap": 500}, "needs private steps"),
        ({"recipe": "dp-cgan", "rows": 10_000, "batch_cap": 500, "epsilon": None}, "needs private steps"),
    ],
)
def test_a_batch_cap_without_meaning_is_refused(options: dict[str, Any], text: str) -> None:
    """A cap that cuts often, or that no event describes, is refused before anything is spent."""
    with pytest.raises(PlanError, match=text):
        plan(FREE, **{"epsilon": 2.0, "batch": 100, "steps": 20, **options})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"epsilon": 0.0, "rows": 1000}, BudgetError, "epsilon must be a positive"),
        ({"epsilon": -1.0, "rows": 1000}, BudgetError, "epsilon must be a positive"),
        ({"epsilon": float("nan"), "rows": 1000}, BudgetError, "epsilon must be a positive"),
        ({"epsilon": 1.0, "rows": 100, "delta": 0.02, "batch": 10}, BudgetError, "accept-large-delta"),
        ({"epsilon": 1.0, "rows": 100, "batch": 101}, PlanError, "larger than the data set of 100 rows"),
        ({"epsilon": 1.0, "rows": 0}, PlanError, "at least 1"),
        ({"epsilon": 0.001, "rows": 1000, "batch": 100, "noise_multiplier": 0.5}, BudgetError, "step"),
    ],
)
def test_impossible_plans_are_refused_with_a_reason(options: dict[str, Any], error: type, text: str) -> None:
    """Bad settings give one clear message of the right type."""
    with pytest.raises(error, match=text):
        plan(FREE, recipe="dp-cgan", **options)


def test_a_large_delta_can_be_accepted_knowingly() -> None:
    """The override exists."""
    made = plan(
        FREE, epsilon=1, delta=0.02, rows=100, recipe="dp-cgan", batch=10, steps=5, accept_large_delta=True
    )
    assert made.spent is not None


def test_a_baseline_has_no_budget_and_says_so() -> None:
    """A run without noise is never called private."""
    made = plan(TABLE, epsilon=None, rows=1000, recipe="dp-cgan", batch=100, steps=10)
    assert not made.private
    assert "NOT PRIVATE" in str(made)


def test_an_unconditional_recipe_keeps_the_label_as_a_column() -> None:
    """Recipes without labels still learn the label column of a table, and drop the classes of images."""
    made = plan(TABLE, epsilon=3, rows=10_000, recipe="ppgan", steps=10)
    assert isinstance(made.schema, TableSchema)
    assert made.schema.label is None
    assert len(made.schema.columns) == 2
    images = plan(IMAGES, epsilon=3, rows=10_000, recipe="small-images", steps=10)
    assert images.schema == ImageSchema(28, 28, 1)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_plan_survives_json(name: str) -> None:
    """A plan that is saved and read again is the same plan."""
    serving = (one for one in (IMAGES, TABLE, CODES) if RECIPES[name].refuses(one) is None)
    made = plan(next(serving), epsilon=8, rows=60_000, recipe=name, steps=50)
    assert from_json(Plan, to_json(made)) == made


def test_replace_one_costs_more_than_add_or_remove() -> None:
    """The second figure is printed, and is the larger one."""
    made = plan(FREE, epsilon=5, rows=60_000, recipe="dp-cgan", steps=1000)
    assert made.spent is not None
    assert made.spent.epsilon_replace_one is not None
    assert made.spent.epsilon_replace_one > made.spent.epsilon


@pytest.mark.parametrize(
    "name", sorted(name for name, one in RECIPES.items() if one.refuses(one.sees(IMAGES)) is None)
)
def test_a_plan_that_enters_unchanged_is_taken(name: str) -> None:
    """Every recipe's own plan bears out what it states, with a private number of rows too; so does a baseline's."""
    for rows in (60_000, None):
        made = plan(IMAGES, epsilon=8, rows=rows, recipe=name, steps=50)
        assert checked_plan(from_json(Plan, to_json(made))) == made
    baseline = plan(IMAGES, epsilon=None, rows=60_000, recipe=name, steps=50)
    assert checked_plan(baseline) is baseline


def with_cost(made: Plan, **changes: object) -> Plan:
    """The plan with another statement of its cost."""
    assert made.spent is not None
    return replace(made, spent=replace(made.spent, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        *({"epsilon": value} for value in (0.01, -1.0, math.nan, math.inf, 7.9)),
        {"epsilon_rdp": 1.0},
        {"epsilon_rdp": math.nan},
        {"epsilon_replace_one": 1.0},
        {"delta": 1e-3},
        {"adjacency": Adjacency.REPLACE_ONE},
        {"certified_by": Accountant.RDP},
    ],
)
def test_a_plan_that_states_less_than_it_costs_is_refused(changes: dict[str, object]) -> None:
    """ε is computed from the charges wherever a plan enters; a smaller one is refused, and one that is no number."""
    made = plan(IMAGES, epsilon=8, rows=60_000, recipe="dp-cgan", steps=50)
    with pytest.raises((PlanError, BudgetError), match=r"Make it anew|cannot be negative|must be"):
        checked_plan(with_cost(made, **changes))


def test_a_plan_may_state_more_than_it_costs() -> None:
    """An earlier accountant may have been less sharp; a budget below the cost is refused all the same."""
    made = plan(IMAGES, epsilon=8, rows=60_000, recipe="dp-cgan", steps=50)
    assert made.spent is not None
    checked_plan(with_cost(made, epsilon=made.spent.epsilon * 1.01))
    with pytest.raises(PlanError, match="budget of ε = 1"):
        checked_plan(replace(made, budget=Budget(1.0, made.spent.delta)))


@pytest.mark.parametrize("recipe", ["dp-cgan", "understudy"])
def test_a_plan_that_draws_what_it_does_not_charge_is_refused(recipe: str) -> None:
    """Each charge is needed, and as often as it is drawn: without it exact counts would go out as private."""
    made = plan(IMAGES, epsilon=8, rows=None, recipe=recipe, steps=50)
    for number, charge in enumerate(made.charges):
        others = (*made.charges[:number], *made.charges[number + 1 :])
        few = {"steps": 0} if isinstance(charge.mechanism, SubsampledGaussian) else {"count": 0}
        never = replace(charge, mechanism=replace(charge.mechanism, **few))
        for charges in (others, (*others, never)):
            with pytest.raises(
                PlanError, match=f"draws the {charge.purpose} [0-9]+ times, .* charges it 0 times"
            ):
                checked_plan(replace(made, charges=charges))


@pytest.mark.parametrize(
    "mechanism",
    [
        SubsampledGaussian(0.01, 0.2, 50),
        SubsampledGaussian(0.01, 1e-9, 50),
        SubsampledGaussian(0.01, 1e-3, 50),
        SubsampledGaussian(0.01, 1e4, 10**12),
        GaussianRelease(5e-324, 10**30),
    ],
)
def test_charges_that_cost_more_are_refused_at_once(mechanism: SubsampledGaussian | GaussianRelease) -> None:
    """Edited noise and absurd numbers of a hostile file are refused without hours of accounting."""
    made = plan(IMAGES, epsilon=8, rows=60_000, recipe="dp-cgan", steps=50)
    with pytest.raises(PlanError, match="is stated"):
        checked_plan(replace(made, charges=(*made.charges, Charge("more", mechanism))))


def test_a_baseline_states_no_cost() -> None:
    """A plan without a budget that states an ε would be shown with it."""
    made = plan(IMAGES, epsilon=8, rows=60_000, recipe="dp-cgan", steps=50)
    with pytest.raises(PlanError, match="baseline"):
        checked_plan(replace(made, budget=None))


def test_a_plan_file_is_not_believed(tmp_path: Path) -> None:
    """What a plan file states of its cost is computed anew before any command uses it."""
    made = plan(IMAGES, epsilon=8, rows=60_000, recipe="dp-cgan", steps=50)
    path = tmp_path / "plan.json"
    path.write_text(to_json(made))
    assert saved_plan(path) == made
    path.write_text(to_json(with_cost(made, epsilon=0.01)))
    with pytest.raises(PlanError, match=r"ε = 0.01.* is stated"):
        saved_plan(path)
