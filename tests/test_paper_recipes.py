"""The papers' recipes: every variant that a table needs can be built, printed, planned and trained."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tiny import TINY_IMAGES, TINY_TABLE, tiny_images
from understudy.dpsgd.clipping import GroupedClip, MicrobatchClip, PublicAdaptiveClip, WeightsBiasesClip
from understudy.errors import BudgetError, PlanError, RecipeError
from understudy.planning import plan
from understudy.privacy.budget import Adjacency
from understudy.run.fit import fit
from understudy.synthesizers.gan.papers import DP_GAN_BASIC, dp_cgan_tf2, dp_gan, small_images
from understudy.synthesizers.gan.parts import ConvCritic, DeconvGenerator, PublicWarmStart
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.registry import RECIPES, find_recipe, recipe_from_toml, recipe_to_toml

SWITCHES = list(itertools.product((False, True), repeat=4))


def switched(on: tuple[bool, bool, bool, bool]) -> GanRecipe:
    return dp_gan(separate_biases=on[0], cluster_weights=on[1], adapt_bounds=on[2], warm_start=on[3])


@pytest.mark.parametrize("on", SWITCHES, ids=str)
def test_the_four_strategies_are_independent_switches(on: tuple[bool, bool, bool, bool]) -> None:
    """Each of the sixteen combinations is a recipe with the parts that its switches name, and survives TOML."""
    recipe = switched(on)
    biases, clustered, adapted, warm = on
    assert (recipe.warm_start is not None) == warm
    assert isinstance(recipe.clipping, PublicAdaptiveClip) == adapted
    if isinstance(recipe.clipping, PublicAdaptiveClip):
        assert recipe.clipping.separate_biases == biases
        assert recipe.clipping.groups + biases == (5 if clustered or biases else 8)  # a bound for each tensor
    else:
        assert isinstance(recipe.clipping, GroupedClip) == clustered
        assert isinstance(recipe.clipping, WeightsBiasesClip) == (biases and not clustered)
    assert recipe_from_toml(recipe_to_toml(recipe)) == recipe


def test_the_ends_of_the_switches_are_the_named_recipes() -> None:
    """All off is the basic system, all on is `dp-gan`, and every combination has a name of its own."""
    assert switched((False,) * 4) is DP_GAN_BASIC
    assert switched((True,) * 4) == RECIPES["dp-gan"]
    assert len({switched(on).name for on in SWITCHES}) == 16
    parts = {(switched(on).clipping, switched(on).warm_start) for on in SWITCHES}
    assert len(parts) == 14  # beside S1 and S3, S2 merges nothing at k = 5, with and without S4


@pytest.mark.parametrize(
    "on", [(True, True, True, True), (False, True, False, False), (True, True, False, False)]
)
def test_strategies_train(on: tuple[bool, bool, bool, bool]) -> None:
    """The parameter names in the groups are those of the critic that is really built."""
    decided = plan(
        TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, batch=8, steps=2, recipe=_shrunk(switched(on))
    )
    release = fit(tiny_images(), decided, public=tiny_images(seed=1), insecure_seed=3)
    assert len(release.sample(3, seed=0)) == 3


def _shrunk(recipe: GanRecipe) -> GanRecipe:
    warm = None if recipe.warm_start is None else PublicWarmStart(steps=2, batch=8)
    return replace(
        recipe, critic=ConvCritic(capacity=2), generator=DeconvGenerator(capacity=2), warm_start=warm
    )


def test_fewer_microbatches_cost_twice_the_noise() -> None:
    """m < B is charged a sensitivity of 2C; m = B is not."""
    many, one = dp_cgan_tf2(600), dp_cgan_tf2(1)
    assert many.clipping.sensitivity(Adjacency.ADD_OR_REMOVE_ONE) == pytest.approx(1.1)
    assert one.clipping == MicrobatchClip(1.1, 600)
    assert one.clipping.sensitivity(Adjacency.ADD_OR_REMOVE_ONE) == pytest.approx(2.2)


def test_split_updates_are_refused_where_records_have_partners() -> None:
    """A penalty and joint clipping pair a record with a fake, so their updates cannot be split."""
    with pytest.raises(RecipeError, match="paired"):
        replace(RECIPES["small-images"], split_updates=True)
    with pytest.raises(RecipeError, match="paired"):
        replace(RECIPES["dp-cgan-basic"], split_updates=True)
    assert RECIPES["dp-cgan-tf2-split"].split_updates


def test_microbatches_must_divide_the_batch() -> None:
    """A number that leaves a rest is refused with the numbers."""
    with pytest.raises(RecipeError, match="7 microbatches do not divide a batch of 600"):
        dp_cgan_tf2(7)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_name_carries_its_steps_and_its_schedule_lasts(name: str) -> None:
    """A name runs the steps that it was measured with, and no rate chosen for fewer comes to rest before."""
    recipe = RECIPES[name]
    assert recipe.steps is not None
    if "printed" not in name and name != "dp-cgan-code":  # theirs are said to end early
        assert all(end >= recipe.steps for end in recipe.schedules.values())


def test_a_plan_says_when_a_schedule_ends_before_its_steps() -> None:
    """More steps than the rates were chosen for are announced, by the recipe's own steps nothing is."""
    assert "rate falls" not in str(plan(None, epsilon=10, rows=60_000, recipe="small-images"))
    text = str(plan(None, epsilon=10, rows=60_000, recipe="small-images", steps=6_000))
    assert "the critic's rate falls until step 5,000 and rests for 1,000 more steps" in text
    assert "the generator's rate falls until step 5,000" in text


@pytest.mark.parametrize(
    ("name", "rows", "epsilon"),
    [
        ("dp-cgan-printed", 60_000, 8.1697),
        ("dp-gan-printed", 58_800, 0.2454),
        ("small-images-printed", 60_000, 2.444),
    ],
)
def test_printed_settings_cost_what_was_certified(name: str, rows: int, epsilon: float) -> None:
    """σ and steps of the texts are planned as they are, and a smaller budget is refused instead of changed."""
    decided = plan(None, epsilon=epsilon + 0.01, rows=rows, recipe=name)
    assert decided.spent is not None
    assert decided.spent.epsilon == pytest.approx(epsilon, abs=2e-3)
    with pytest.raises(BudgetError, match="--sigma or --steps"):
        plan(None, epsilon=epsilon / 2, rows=rows, recipe=name)
    assert plan(None, epsilon=epsilon / 2, rows=rows, recipe=name, steps=100).steps == 100


@pytest.mark.parametrize(
    "name", ["dp-cgan-printed", "dp-cgan-code", "dp-cgan-tf2-printed", "ppgan-printed", "ppgan-code"]
)
def test_printed_systems_train(name: str) -> None:
    """Their parts work together from plan to samples."""
    decided = plan(TINY_IMAGES, epsilon=2.0, delta=1e-3, rows=64, batch=8, steps=2, recipe=name)
    release = fit(tiny_images(), decided, insecure_seed=3)
    assert len(release.sample(3, seed=0)) == 3


def test_the_unit_range_is_for_pixels_of_conditional_dense_networks() -> None:
    """Where it could not be what the paper means, it is refused."""
    with pytest.raises(RecipeError, match="unit range"):
        replace(RECIPES["ppgan"], unit_range=True)
    with pytest.raises(PlanError, match=r"\[0, 1\] and needs images"):
        plan(TINY_TABLE, epsilon=2.0, delta=1e-3, rows=64, recipe="dp-cgan-printed")


def test_the_thyroid_recipe_costs_what_the_table_of_claims_certifies() -> None:
    """B 32, σ 1.15 and 5,850 steps of 3,772 rows fit into the report's ε of 3.7, label counts included."""
    decided = plan(None, epsilon=3.7, rows=3772, recipe="dp-cgan-thyroid")
    assert decided.training.steps == 5850
    assert decided.spent is not None
    assert 2.9 < decided.spent.epsilon < 3.2


@pytest.mark.parametrize(
    "made",
    [
        dp_gan(cluster_weights=False),
        dp_gan(adapt_bounds=False, warm_start=False),
        dp_cgan_tf2(60),
        dp_cgan_tf2(20, leaky=True, split=True),
        small_images(capacity=32, bound=0.1, noise_multiplier=0.5),
        small_images(capacity=8),
    ],
    ids=lambda recipe: recipe.name,
)
def test_variants_are_found_by_the_names_they_carry(made: GanRecipe) -> None:
    """What a card or a page calls a recipe can be typed: strategies, microbatches, capacity, C and σ."""
    assert find_recipe(made.name) == made


@pytest.mark.parametrize(
    "name", ["dp-gan-", "dp-gan-s3s1", "dp-cgan-tf2-m7", "small-images-32", "dp-cgan-tf2-m0"]
)
def test_names_of_no_variant_are_refused(name: str) -> None:
    """A misspelt variant is not taken for another one."""
    with pytest.raises(RecipeError):
        find_recipe(name)


def test_curves_of_small_images_have_names_of_their_own() -> None:
    """The figure's settings are told apart, and the default one is the named recipe."""
    assert small_images() == RECIPES["small-images"]
    assert small_images(capacity=16, bound=0.1, noise_multiplier=0.5).name == "small-images-16-c0.1-s0.5"
