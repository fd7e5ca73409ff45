"""`fit`: order of events, and what may depend on private rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiny import TINY_IMAGES, TINY_TABLE, tiny_frame, tiny_images, tiny_plan
from understudy.auditing.rehearsal import stand_in_rows
from understudy.door.noise import SecureNoise
from understudy.errors import BudgetError, DataError, PlanError
from understudy.planning import Plan, plan
from understudy.release.readme import model_card
from understudy.run.fit import Progress, _public_source, fit, fit_in_stages, rehearse, stages_of
from understudy.synthesizers.gan.parts import PublicWarmStart
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.registry import RECIPES
from understudy.synthesizers.shared.parts import ROWS


class Diary:
    """An account that writes down what it was told, and can refuse."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.entries: list[str] = []
        self._refuse = refuse

    def reserve(self, plan: Plan) -> None:
        if self._refuse:
            raise BudgetError("spent already")
        self.entries.append("reserve")

    def resume(self, entry: str | None, step: int, every: int) -> int:
        self.entries.append(f"resume {entry} at {step}")
        return step

    def cancel(self) -> None:
        self.entries.append("cancel")

    def announce(self, purpose: str) -> None:
        self.entries.append(f"announce {purpose}")

    @property
    def draws(self) -> dict[str, int]:
        return {}

    def charge(self) -> None:
        self.entries.append("charge")

    @property
    def settled(self) -> bool:
        return True

    @property
    def entry(self) -> str | None:
        return "7"

    def finish(self, release_hash: str) -> str | None:
        self.entries.append("finish")
        return "head"


def test_the_account_is_told_before_anything_happens() -> None:
    """Reservation, announcement, then a charge before each step, then the end."""
    diary = Diary()
    release = fit(
        tiny_frame(),
        tiny_plan(),
        account=diary,
        on_progress=lambda progress: diary.entries.append(f"step {progress.done}"),
    )
    assert diary.entries == [
        "reserve",
        "announce label histogram",
        *(entry for step in (1, 2, 3) for entry in ("charge", f"step {step}")),
        "finish",
    ]
    assert release.card.ledger_head == "head"


def test_unreadable_data_gives_the_reservation_back() -> None:
    """If the rows do not fit, nothing was drawn and nothing is spent."""
    diary = Diary()
    with pytest.raises(DataError):
        fit(tiny_frame().drop(columns="town"), tiny_plan(), account=diary)
    assert diary.entries == ["reserve", "cancel"]


def test_a_refused_plan_never_reads_the_data() -> None:
    """If the account says no, the private rows are not even opened."""
    with pytest.raises(BudgetError, match="spent already"):
        fit("/nowhere/private.csv", tiny_plan(), account=Diary(refuse=True))


def test_exactly_the_planned_number_of_steps_is_taken() -> None:
    """Steps are computed before and never exceeded."""
    seen: list[Progress] = []
    fit(tiny_frame(), tiny_plan(steps=5), on_progress=seen.append)
    assert seen == [Progress(done, 5) for done in range(1, 6)]


def test_losses_are_told_of_baselines_only() -> None:
    """A baseline tells finite losses at every step; a private run tells none, since its critic's reads records."""
    for epsilon, told in ((2.0, False), (None, True)):
        stages: list[Progress] = []
        fit(tiny_frame(), tiny_plan(epsilon=epsilon), insecure_seed=1, on_progress=stages.append)
        assert [stage.losses is not None for stage in stages] == [told] * 3
        for stage in stages:
            assert stage.losses is None or math.isfinite(stage.losses.critic + stage.losses.generator)


def test_a_seeded_run_repeats_and_a_secure_one_does_not() -> None:
    """The insecure seed fixes everything; without it two runs differ."""
    first, second = (fit(tiny_frame(), tiny_plan(), insecure_seed=4) for _ in range(2))
    for name, value in first.weights.items():
        assert np.array_equal(value, second.weights[name])
    third, fourth = (fit(tiny_frame(), tiny_plan()) for _ in range(2))
    assert any(not np.array_equal(value, fourth.weights[name]) for name, value in third.weights.items())


def test_label_weights_are_noisy_when_charged() -> None:
    """Class frequencies come from a noisy histogram: two runs on the same rows differ."""
    weights = {fit(tiny_frame(), tiny_plan()).card.label_weights for _ in range(3)}
    assert len(weights) == 3


def test_counts_without_a_charge_are_not_drawn() -> None:
    """A plan that does not charge the class counts, or the row count, is refused before anything is drawn or read."""
    for purpose, rows in (("label histogram", 64), ("row count", None)):
        made = tiny_plan(rows=rows)
        less = replace(made, charges=tuple(c for c in made.charges if c.purpose != purpose))
        with pytest.raises(PlanError, match=f"the {purpose}"):
            fit("no such file", less)
        with pytest.raises(PlanError, match=f"the {purpose}, which the plan does not charge"):
            next(rehearse(less, stand_in_rows(TINY_TABLE, 8, 0), noise=SecureNoise()))


def test_a_private_row_count_trains_too() -> None:
    """Without a declared number of rows the run works and the card does not hold the number."""
    release = fit(tiny_frame(), tiny_plan(rows=None))
    assert release.card.plan.rows is None
    assert release.card.plan.gaussian(ROWS) is not None


IMAGE_RECIPES = [name for name, recipe in RECIPES.items() if recipe.refuses(TINY_IMAGES) is None]


@pytest.mark.parametrize("name", IMAGE_RECIPES)
def test_every_recipe_of_images_trains(name: str) -> None:
    """One run serves all of them: three steps of each (and two on public rows) give a release that makes images."""
    recipe = RECIPES[name]
    if isinstance(recipe, GanRecipe) and recipe.warm_start is not None:
        recipe = replace(recipe, warm_start=replace(recipe.warm_start, steps=2))
    public = tiny_images(seed=9)
    release = fit(tiny_images(), tiny_plan(TINY_IMAGES, recipe=recipe), public=public)
    assert len(release.sample(4)) == 4


def test_a_warm_start_has_turns_of_its_own() -> None:
    """Its generator moves after as many critic steps as it says, and by the recipe's turns if it says nothing."""

    def weights(critic_steps: int | None) -> Mapping[str, np.ndarray]:
        warm = PublicWarmStart(steps=4, batch=8, critic_steps=critic_steps)
        recipe = replace(RECIPES["dp-cgan"], critic_steps=4, warm_start=warm)
        return fit(tiny_frame(), tiny_plan(recipe=recipe), public=tiny_frame(seed=9), insecure_seed=5).weights

    own, four, one = weights(None), weights(4), weights(1)
    assert all(np.array_equal(own[name], four[name]) for name in own)
    assert not all(np.array_equal(own[name], one[name]) for name in own)


@pytest.mark.parametrize("recipe", ["dp-cgan", "understudy"])
def test_a_large_delta_is_noted_by_the_noisy_count(recipe: str) -> None:
    """Where the number of rows is private, the count that was charged tells whether δ is small, not the exact one."""
    for delta, noted in ((0.01, True), (1e-4, False)):
        made = plan(TINY_IMAGES, epsilon=5.0, delta=delta, rows=None, recipe=recipe, steps=2)
        card = fit(tiny_images(1000), made).card
        assert card.private
        assert bool(card.notes) == noted
        assert not noted or "δ = 0.01 is not below 1/images" in model_card(card)
    loud = plan(TINY_IMAGES, epsilon=5.0, delta=0.01, rows=None, recipe=recipe, steps=2)
    (note,) = fit(tiny_images(1000), loud, insecure_seed=0).card.notes
    assert "images, by the noisy count that was charged)" in note
    assert "(1,000 rows" not in note


def test_a_declared_number_of_rows_is_said_to_be_unchecked() -> None:
    """40,000 rows declared for 64 pass, because a refusal would tell; the card says that nobody checked."""
    card = fit(tiny_frame(), tiny_plan(rows=40_000, delta=1e-5)).card
    assert card.private
    (note,) = card.notes
    assert "40,000, was declared by the curator and not checked" in note
    assert "40,000 (declared, not checked)" in model_card(card)
    accepted = tiny_plan(delta=0.05, accept_large_delta=True)
    assert "δ = 0.05 is not below 1/rows (64 rows, as declared)" in fit(tiny_frame(), accepted).card.notes[1]
    assert fit(tiny_frame(), tiny_plan(epsilon=None)).card.notes == ()


def test_the_card_names_no_path_of_public_data(tmp_path: Path) -> None:
    """A file with public records is named by its hash alone; a known set by its name."""
    path = tmp_path / "of ward 7.csv"
    tiny_frame().to_csv(path, index=False)
    recipe = replace(RECIPES["dp-cgan"], warm_start=PublicWarmStart(steps=1, batch=8))
    made = tiny_plan(recipe=recipe)
    for public, name in ((str(path), "a file"), (path, "a file"), (tiny_frame(), "records in memory")):
        found = fit(tiny_frame(), made, public=public).card.public_source
        assert found is not None
        assert re.fullmatch(rf"{name}, 64 records, sha256 [0-9a-f]{{64}}", found)
    rows = stand_in_rows(TINY_TABLE, 4, 0)
    assert str(_public_source("digits:test", rows)).startswith("digits:test, 4 records")


def test_stages_are_what_runs_of_their_length_would_release() -> None:
    """Each stage has the weights and the card of a run that ends there, and the last one those of the whole run."""
    plans = [tiny_plan(epsilon=9.0, steps=steps, noise_multiplier=1.0) for steps in (1, 3)]
    stages = list(fit_in_stages(tiny_frame(), plans, insecure_seed=5))
    for made, stage in zip(plans, stages, strict=True):
        alone = fit(tiny_frame(), made, insecure_seed=5)
        assert stage.card == alone.card
        assert all(np.array_equal(stage.weights[name], value) for name, value in alone.weights.items())
    assert stages[0].card.plan.spent.epsilon < stages[1].card.plan.spent.epsilon


def test_stages_carry_the_notes_of_their_own_plan() -> None:
    """A stage whose δ is too large says so, whatever the last stage's δ is."""
    large = tiny_plan(epsilon=9.0, delta=0.05, accept_large_delta=True, steps=1, noise_multiplier=1.0)
    small = tiny_plan(epsilon=9.0, delta=1e-3, steps=3, noise_multiplier=1.0)
    first, last = fit_in_stages(tiny_frame(), [large, small], insecure_seed=5)
    assert any("δ = 0.05 is not below 1/rows" in note for note in first.card.notes)
    assert not any("is not below" in note for note in last.card.notes)


def test_stages_of_a_plan_are_its_beginnings_with_their_own_cost() -> None:
    """Each has the noise of the whole run and the ε of a plan with so many steps of it."""
    whole = tiny_plan(epsilon=9.0, steps=3, noise_multiplier=1.0)
    first, last = stages_of(whole, [1])
    assert last is whole
    alone = tiny_plan(epsilon=9.0, steps=1, noise_multiplier=1.0)
    assert (first.recipe, first.charges, first.spent) == (alone.recipe, alone.charges, alone.spent)
    for wrong in ([3], [2, 1], [0]):
        with pytest.raises(PlanError, match="grow and end before 3"):
            stages_of(whole, wrong)


def test_losses_of_a_seeded_run_are_told_where_asked_for_and_of_a_private_one_never() -> None:
    """Watching needs a seed; it changes neither the weights nor what a run without it tells."""
    told: list[Progress] = []
    plans = (tiny_plan(),)
    seen = next(
        fit_in_stages(tiny_frame(), plans, insecure_seed=1, watch_losses=True, on_progress=told.append)
    )
    assert all(one.losses is not None and math.isfinite(one.losses.critic) for one in told)
    unseen = fit(tiny_frame(), plans[0], insecure_seed=1)
    assert all(np.array_equal(seen.weights[name], value) for name, value in unseen.weights.items())
    with pytest.raises(PlanError, match="without noise"):
        next(fit_in_stages(tiny_frame(), plans, watch_losses=True))


def test_stages_that_are_not_one_run_are_refused() -> None:
    """Plans with other noise, or in the wrong order, would put a wrong ε on a card."""
    short, long, loud = (
        tiny_plan(epsilon=9.0, steps=steps, noise_multiplier=noise)
        for steps, noise in ((1, 1.0), (3, 1.0), (3, 2.0))
    )
    for plans in ([long, short], [short, loud], [short, short]):
        with pytest.raises(PlanError, match="stages of a run"):
            next(fit_in_stages(tiny_frame(), plans, insecure_seed=5))


@pytest.mark.parametrize("name", ["dp-cgan", "dp-cgan-tf2", "ppgan"])
def test_dense_recipes_train_on_tables(name: str) -> None:
    """Recipes with dense networks take tables as they are."""
    release = fit(tiny_frame(), tiny_plan(recipe=name))
    assert len(release.sample(4)) == 4


def test_a_convolutional_recipe_refuses_a_table_with_advice() -> None:
    """The mismatch is explained and another recipe named."""
    with pytest.raises(PlanError, match="such as dp-cgan"):
        fit(tiny_frame(), tiny_plan(recipe="small-images"))


def test_a_plan_without_schema_cannot_be_trained() -> None:
    """A calculation is not a plan for data."""
    with pytest.raises(PlanError, match="without a schema"):
        fit(tiny_frame(), tiny_plan(None))


def test_rows_that_do_not_fit_the_schema_are_refused() -> None:
    """A category outside the schema stops the run."""
    frame = tiny_frame()
    frame.loc[3, "town"] = "atlantis"
    with pytest.raises(DataError, match="town") as refused:
        fit(frame, tiny_plan())
    assert "atlantis" not in str(refused.value)
