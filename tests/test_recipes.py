"""Recipes are values: they print, parse, compare and refuse nonsense."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from understudy.errors import PlanError, RecipeError
from understudy.planning import plan
from understudy.synthesizers.registry import RECIPES, find_recipe, recipe_from_toml, recipe_to_toml


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_survives_toml(name: str) -> None:
    """A recipe that is printed and read again is the same value."""
    assert recipe_from_toml(recipe_to_toml(RECIPES[name])) == RECIPES[name]


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_names_its_source(name: str) -> None:
    """Credit and a one-line summary are there for the table."""
    recipe = RECIPES[name]
    assert recipe.name == name
    assert recipe.source
    assert 0 < len(recipe.summary) < 100


@pytest.mark.parametrize("name", ["understudy-images", "understudy-tables", "understudy-codes"])
def test_a_recipe_without_a_critic_shows_none_and_takes_none(name: str) -> None:
    """What is about a critic is not printed where there is none, and refused if it is set."""
    shown = recipe_to_toml(RECIPES[name])
    for word in ("objective", "critic", "clipping", "critic_steps", "clamp"):
        assert word not in shown
        assert word in recipe_to_toml(RECIPES["ppgan"])
    with pytest.raises(RecipeError, match="clamp: unknown key"):
        recipe_from_toml("clamp = 0.01\n" + shown)
    with pytest.raises(RecipeError, match=r"critic.*unknown key"):
        recipe_from_toml(shown + '\n[critic]\nkind = "dense"\nhidden = [7]\n')


def test_options_without_effect_are_refused() -> None:
    """A batch or noise for a table's recipe, which has neither, is an error that says so."""
    for option in ({"batch": 9999}, {"noise_multiplier": 1.0}):
        with pytest.raises(PlanError, match="would have no effect"):
            plan(None, epsilon=1.0, rows=500, recipe="understudy-tables", **option)  # type: ignore[arg-type]


def test_a_copied_file_with_one_changed_line_is_a_recipe(tmp_path: Path) -> None:
    """The documented way to make an own recipe works."""
    text = recipe_to_toml(RECIPES["dp-cgan"]).replace("batch = 600", "batch = 300")
    (tmp_path / "my.toml").write_text(text)
    assert find_recipe(str(tmp_path / "my.toml")) == replace(RECIPES["dp-cgan"], batch=300)


def test_the_dp_cgan_values_are_those_of_the_paper() -> None:
    """Batch 600, σ 1.15, C 1.1 and the learning rate from 0.15 to 0.052 in 10,000 steps."""
    recipe = RECIPES["dp-cgan-printed"]
    assert (recipe.batch, recipe.noise_multiplier) == (600, 1.15)
    text = recipe_to_toml(recipe)
    for line in (
        "real_bound = 1.1",
        "fake_bound = 1.1",
        "rate = 0.15",
        "final_rate = 0.052",
        "decay_steps = 10000",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("batch = 600", "batch = 0"), "must be positive"),
        (("batch = 600", 'batch = "many"'), "batch"),
        (("steps = 4000", "steps = -1"), "must be positive"),
        (('kind = "separate"', 'kind = "magic"'), "magic"),
        (("conditional = true", "conditionnal = true"), "conditionnal"),
        (('name = "dp-cgan"', "name = "), "TOML"),
    ],
)
def test_a_broken_recipe_is_refused_with_the_reason(change: tuple[str, str], text: str) -> None:
    """The message names the key or the value that is wrong."""
    with pytest.raises(RecipeError, match=text):
        recipe_from_toml(recipe_to_toml(RECIPES["dp-cgan"]).replace(*change))


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A typing error is answered with the list."""
    with pytest.raises(RecipeError, match="dp-cgan, dp-cgan-basic"):
        find_recipe("dpcgan")


def test_a_missing_file_is_refused() -> None:
    """A path that does not exist is said so."""
    with pytest.raises(RecipeError, match="cannot be read"):
        find_recipe("nowhere/my.toml")
