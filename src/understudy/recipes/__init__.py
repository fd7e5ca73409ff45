"""Recipes: private GAN systems as frozen values, and the table of those that come with the package."""

from __future__ import annotations

from pathlib import Path

from understudy.codec import from_toml, to_toml
from understudy.errors import RecipeError
from understudy.files import read_text
from understudy.recipes import own, papers
from understudy.recipes.parts import NoisyLabelHistogram
from understudy.recipes.recipe import Recipe
from understudy.recipes.serving import DefaultRecipe, default_recipe

__all__ = [
    "RECIPES",
    "DefaultRecipe",
    "NoisyLabelHistogram",
    "Recipe",
    "default_recipe",
    "find_recipe",
    "recipe_from_toml",
    "recipe_to_toml",
]

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        papers.DP_CGAN,
        papers.DP_CGAN_PRINTED,
        papers.DP_CGAN_BASIC,
        papers.DP_CGAN_TF2,
        papers.DP_CGAN_TF2_MICROBATCH,
        papers.DP_CGAN_TF2_SPLIT,
        papers.DP_CGAN_TF2_LEAKY,
        papers.DP_CGAN_THYROID,
        papers.DP_GAN_BASIC,
        papers.DP_GAN,
        papers.PPGAN,
        papers.PPGAN_SGD,
        papers.DPGAN,
        papers.SMALL_IMAGES,
        own.UNDERSTUDY,
    )
}
"""Every recipe that comes with the package, by name."""


def find_recipe(recipe: Recipe | str) -> Recipe:
    """A recipe by name, by path of a TOML file, or itself.

    Raises:
        RecipeError: there is no such recipe, or the file does not describe one.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe in RECIPES:
        return RECIPES[recipe]
    if recipe.endswith(".toml"):
        return recipe_from_toml(read_text(Path(recipe), error=RecipeError))
    raise RecipeError(
        f"there is no recipe {recipe!r}. Known recipes: {', '.join(sorted(RECIPES))}; "
        "or give the path of a .toml file, made by `understudy recipes show NAME`."
    )


def recipe_to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, to be copied and changed."""
    return to_toml(recipe)


def recipe_from_toml(text: str) -> Recipe:
    """The recipe that a TOML text describes.

    Raises:
        RecipeError: the text is not TOML, or names something that no recipe has.
    """
    return from_toml(Recipe, text, error=RecipeError)
