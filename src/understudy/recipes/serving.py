"""Which recipe serves which data: the default, the part that fits a schema, and refusals that say why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from understudy.errors import PlanError
from understudy.recipes.own import UNDERSTUDY
from understudy.recipes.papers import DP_CGAN, PPGAN, SMALL_IMAGES
from understudy.recipes.parts import MeanEmbedding, NoisyMarginals
from understudy.schema import CodeSchema, ImageSchema, TableSchema

if TYPE_CHECKING:
    from understudy.recipes.recipe import Recipe
    from understudy.schema import Schema

__all__ = ["DefaultRecipe", "default_recipe", "for_schema", "refuse_unserved"]

SMALLEST_IMAGE = 8
"""Fewer pixels along a side leave nothing for the wavelets of an embedding."""


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
    reason = None if schema is None else _unserved(for_schema(UNDERSTUDY, schema), schema)
    if schema is None or reason is None:
        return DefaultRecipe(UNDERSTUDY)
    if isinstance(schema, ImageSchema):
        fitting = SMALL_IMAGES if schema.classes is None else DP_CGAN
    else:
        fitting = PPGAN if schema.label_classes is None else DP_CGAN
    return DefaultRecipe(fitting, f"{reason} Taking the recipe {fitting.name!r} instead.")


def for_schema(recipe: Recipe, schema: Schema | None) -> Recipe:
    """The part of a recipe that fits the data: its recipe for tables or codes, or what is left without those."""
    if isinstance(schema, TableSchema) and recipe.tables is not None:
        return recipe.tables
    if isinstance(schema, CodeSchema) and recipe.codes is not None:
        return recipe.codes
    return replace(recipe, tables=None, codes=None)


def refuse_unserved(recipe: Recipe, schema: Schema | None) -> None:
    """Refuse data that a recipe without a critic cannot make.

    Raises:
        PlanError: with what to do about it.
    """
    reason = None if schema is None or recipe.has_critic else _unserved(recipe, schema)
    if reason is not None and schema is not None:
        raise PlanError(f"{reason} {_CURES[type(schema)]}")


_CURES: dict[type, str] = {
    ImageSchema: "Declare classes in the schema, or use a recipe with a critic, such as small-images or dp-cgan.",
    TableSchema: "Use the recipe understudy as it comes, or one with dense networks, such as dp-cgan.",
    CodeSchema: "Use the recipe understudy as it comes, or one with dense networks, such as ppgan or dp-cgan.",
}


def _unserved(recipe: Recipe, schema: Schema) -> str | None:
    """Why a recipe without a critic cannot make such data, as a sentence; None if it can."""
    name = f"recipe {recipe.name!r}"
    what = "tables" if isinstance(schema, TableSchema) else schema.kind
    if not isinstance(recipe.statistic, MeanEmbedding):
        made = "tables" if isinstance(recipe.statistic, NoisyMarginals) else "codes"
        return None if made == what else f"{name} is for {made} here, not for {what}."
    match schema:
        case CodeSchema() | TableSchema():
            return f"{name} has no part for {what}."
        case ImageSchema(classes=None):
            return f"{name} needs labelled images."
        case ImageSchema(height=height, width=width) if min(height, width) < SMALLEST_IMAGE:
            return f"{name} needs images of at least {SMALLEST_IMAGE}×{SMALLEST_IMAGE} pixels, got {height}×{width}."
    return None
