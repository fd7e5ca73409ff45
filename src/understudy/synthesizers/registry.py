"""Every recipe by name, which one serves which data, and recipes as TOML.

A third party's synthesizer is found by its entry point in the group `understudy.synthesizers`, and only when it is
named: by `use("name")`, `--recipe name`, or `--with name`. Nothing is ever imported because a file says so.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from understudy.codec import from_plain, from_toml, read_by, to_toml
from understudy.errors import RecipeError, UnderstudyError
from understudy.files import read_text
from understudy.synthesizers.codes.recipe import UNDERSTUDY_CODES, CodesRecipe
from understudy.synthesizers.embedding.recipe import (
    UNDERSTUDY_GAN,
    UNDERSTUDY_GAN_PURE,
    UNDERSTUDY_IMAGES,
    EmbeddingRecipe,
)
from understudy.synthesizers.gan import papers, printed
from understudy.synthesizers.gan.recipe import GanRecipe
from understudy.synthesizers.marginals.recipe import UNDERSTUDY_TABLES, MarginalsRecipe
from understudy.synthesizers.protocol import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from understudy.schema import Schema

__all__ = [
    "RECIPES",
    "UNDERSTUDY",
    "DefaultRecipe",
    "default_recipe",
    "find_recipe",
    "known_meanwhile",
    "recipe_from_toml",
    "recipe_to_toml",
    "use",
]

UNDERSTUDY = "understudy"
"""The name of our own recipes together: the one that serves the data is taken."""

_OWN: tuple[Recipe, ...] = (UNDERSTUDY_IMAGES, UNDERSTUDY_TABLES, UNDERSTUDY_CODES)
_KINDS: list[Any] = [GanRecipe, EmbeddingRecipe, MarginalsRecipe, CodesRecipe]
_GROUP = "understudy.synthesizers"

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        papers.DP_CGAN,
        papers.DP_CGAN_BASIC,
        papers.DP_CGAN_TF2,
        papers.DP_CGAN_TF2_MICROBATCH,
        papers.DP_CGAN_TF2_SPLIT,
        papers.DP_CGAN_TF2_LEAKY,
        papers.DP_GAN_BASIC,
        papers.DP_GAN,
        papers.PPGAN,
        papers.PPGAN_SGD,
        papers.DPGAN,
        papers.SMALL_IMAGES,
        printed.DP_CGAN_PRINTED,
        printed.DP_CGAN_CODE,
        printed.DP_CGAN_TF2_PRINTED,
        printed.DP_CGAN_THYROID,
        printed.DP_GAN_PRINTED,
        printed.PPGAN_PRINTED,
        printed.PPGAN_CODE,
        printed.SMALL_IMAGES_PRINTED,
        *_OWN,
        UNDERSTUDY_GAN,
        UNDERSTUDY_GAN_PURE,
    )
}
"""Every recipe that comes with the package, by name."""


def use(name: str) -> Recipe:
    """Import a third party's synthesizer by the name of its entry point, and return its recipe.

    Raises:
        RecipeError: no installed package has such an entry point, or what it names is no recipe, or stands in for
            another one.
    """
    found = [one for one in entry_points(group=_GROUP) if one.name == name]
    if not found:
        raise RecipeError(
            f"there is no recipe {name!r}. Known recipes: {UNDERSTUDY}, {', '.join(sorted(RECIPES))}, "
            "and variants such as dp-gan-s1s3, dp-cgan-tf2-m60 and small-images-32-c0.1-s0.5; or give the path of a "
            ".toml file, made by `understudy recipes show NAME`, or install a package that has it."
        )
    recipe: Recipe = found[0].load()
    if not isinstance(getattr(recipe, "kind", None), str) or recipe.name != name:
        raise RecipeError(
            f"the entry point {name!r} of {_GROUP} names {recipe!r}, which is no recipe of that name."
        )
    if RECIPES.get(name, recipe) != recipe:
        raise RecipeError(f"there is a recipe {name!r} already: rename the other one.")
    _refuse_taken_kind(recipe)
    if type(recipe) not in _KINDS:
        _KINDS.append(type(recipe))
    RECIPES[name] = recipe
    return recipe


def _refuse_taken_kind(recipe: Recipe) -> None:
    """Two classes of one kind could not be told apart in a file, and one would be read as the other."""
    for kind in _KINDS:
        if kind.kind == recipe.kind and kind is not type(recipe):
            raise RecipeError(
                f"recipe {recipe.name!r} has the kind {recipe.kind!r}, which {kind.__name__} has already: rename it."
            )


@contextmanager
def known_meanwhile(recipe: Recipe) -> Iterator[None]:
    """Lets releases of a recipe that nobody has named with `use` be read, within a block.

    Raises:
        RecipeError: another class has its kind.
    """
    _refuse_taken_kind(recipe)
    new = type(recipe) not in _KINDS
    if new:
        _KINDS.append(type(recipe))
    try:
        yield
    finally:
        if new:
            _KINDS.remove(type(recipe))


def find_recipe(recipe: Recipe | str, schema: Schema | None = None) -> Recipe:
    """A recipe by name (also that of a paper's variant), by path of a TOML file, by a third party's name, or itself.

    Args:
        recipe: what was asked for.
        schema: of the data; decides which of our own recipes `understudy` means.

    Raises:
        RecipeError: there is no such recipe, or the file does not describe one.
    """
    if not isinstance(recipe, str):
        return recipe
    if recipe == UNDERSTUDY:
        serving = [one for one in _OWN if schema is not None and one.refuses(schema) is None]
        return serving[0] if serving else _nearest(schema)
    if recipe in RECIPES:
        return RECIPES[recipe]
    if recipe.endswith(".toml"):
        return recipe_from_toml(read_text(Path(recipe), error=RecipeError))
    return papers.variant(recipe) or use(recipe)


def _nearest(schema: Schema | None) -> Recipe:
    """The own recipe whose refusal says most about such data."""
    return UNDERSTUDY_IMAGES if schema is None or schema.kind == "images" else UNDERSTUDY_TABLES


@dataclass(frozen=True)
class DefaultRecipe:
    """What is trained when no recipe is named.

    Args:
        recipe: the recipe.
        why: why it is not the usual one, as a sentence; None if it is.
    """

    recipe: Recipe
    why: str | None = None


def default_recipe(schema: Schema | None) -> DefaultRecipe:
    """Our own recipe wherever it serves, else the paper's recipe that fits the data best."""
    own = find_recipe(UNDERSTUDY, schema)
    reason = None if schema is None else own.refuses(schema)
    if schema is None or reason is None:
        return DefaultRecipe(own)
    fitting: Recipe = papers.DP_CGAN
    if schema.label_classes is None:
        fitting = papers.SMALL_IMAGES if schema.kind == "images" else papers.PPGAN
    return DefaultRecipe(fitting, f"{reason} Taking the recipe {fitting.name!r}.")


def recipe_to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, to be copied and changed."""
    return to_toml(recipe)


def recipe_from_toml(text: str) -> Recipe:
    """The recipe that a TOML text describes.

    Raises:
        RecipeError: the text is not TOML, or names something that no recipe has.
    """
    found: Recipe = from_toml(_union(), text, error=RecipeError)
    return found


def _read_recipe(plain: object, error: type[UnderstudyError]) -> Recipe:
    """The recipe that plain values describe, as `codec.to_plain` writes them."""
    found: Recipe = from_plain(_union(), plain, error=error)
    return found


def _union() -> object:
    """The kinds of recipes that are known: those of the package, and those that were named with `use`."""
    return Union[tuple(_KINDS)]  # noqa: UP007 - the kinds are known at run time only


read_by(Recipe, _read_recipe)
