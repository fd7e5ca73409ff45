"""What the utility benchmark compares: our recipe, the papers' recipes, and our recipe with one idea taken out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from understudy.release.release import Release
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, EmbeddingRecipe, MeanEmbedding
from understudy.synthesizers.registry import RECIPES

if TYPE_CHECKING:
    from understudy.synthesizers.embedding.recipe import LinearLabeller
    from understudy.synthesizers.protocol import Recipe

__all__ = [
    "GANS",
    "PAPERS",
    "REAL",
    "UNLABELLED",
    "Cell",
    "drawn_ablation",
    "drawn_as",
    "recipe_of",
    "trained_ablation",
    "trained_cell",
]

PAPERS = ("dp-cgan", "dp-cgan-tf2", "dp-gan-basic", "ppgan", "small-images")
"""One recipe of each paper. dp-gan's strategies need public records, so its basic form stands for it."""

GANS = ("understudy-gan", "understudy-gan-pure")
"""Our own: refined after the statistic, and from random weights."""

UNLABELLED = "understudy unlabelled"
"""Our recipe on the same images without their labels."""

REAL = "real data"
"""The line of ceilings and floors: no generator at all."""


@dataclass(frozen=True)
class Cell:
    """One training with its evaluation.

    Args:
        data: the name of a known set of labelled images, or a folder of one.
        epsilon: the budget's ε; None for the line of real data.
        system: a recipe, a recipe with one idea taken out, or `REAL`.
        run: the number of the repetition, and the seed of its evaluation. The private noise is fresh every time.
    """

    data: str
    epsilon: float | None
    system: str
    run: int

    def __str__(self) -> str:
        budget = "" if self.epsilon is None else f", ε {self.epsilon:g}"
        return f"{self.data}{budget}, {self.system}, run {self.run}"


def _own_parts() -> tuple[EmbeddingRecipe, LinearLabeller]:
    assert UNDERSTUDY_IMAGES.labeller is not None
    return UNDERSTUDY_IMAGES, UNDERSTUDY_IMAGES.labeller


def trained_ablation() -> dict[str, EmbeddingRecipe]:
    """Our recipe with one idea of its training taken out; budget that is freed goes to what is left."""
    whole, labeller = _own_parts()
    embedding = MeanEmbedding()
    return {
        "no labeller": replace(whole, labeller=None),
        "no labeller in the generator's loss": replace(whole, labeller=replace(labeller, guidance=0.0)),
        "no pixel features": replace(whole, embedding=replace(embedding, pixel_lengths=())),
        "no wavelet features": replace(whole, embedding=replace(embedding, wavelet_lengths=())),
        "no averaging of the generator": replace(whole, averaging=None),
    }


def drawn_ablation() -> dict[str, EmbeddingRecipe]:
    """Our recipe with one idea of its sampling taken out: drawn from the release of the whole recipe."""
    whole, labeller = _own_parts()
    uncertain = replace(labeller, certainty=0.0)
    return {
        "no warp": replace(whole, warp=None),
        "no second draw": replace(whole, labeller=uncertain),
        "no warp, no second draw": replace(whole, warp=None, labeller=uncertain),
        "no warp, labels as asked for": replace(whole, warp=None, labeller=None),
    }


def recipe_of(system: str) -> Recipe:
    """The recipe behind a line of the table."""
    own = {
        "understudy": UNDERSTUDY_IMAGES,
        UNLABELLED: UNDERSTUDY_IMAGES,
        **trained_ablation(),
        **drawn_ablation(),
    }
    return own[system] if system in own else RECIPES[system]


def trained_cell(cell: Cell) -> Cell:
    """The cell whose release this one is drawn from: itself, unless only the sampling differs."""
    return replace(cell, system="understudy") if cell.system in drawn_ablation() else cell


def drawn_as(release: Release, system: str) -> Release:
    """A release, sampled as the system says: unchanged, unless it is a line of `drawn_ablation`."""
    if system not in drawn_ablation():
        return release
    wanted = drawn_ablation()[system]
    plan = release.card.plan
    assert isinstance(plan.recipe, EmbeddingRecipe)
    labeller = plan.recipe.labeller
    if labeller is not None and wanted.labeller is not None:
        labeller = replace(labeller, certainty=wanted.labeller.certainty)
    recipe = replace(plan.recipe, warp=wanted.warp, labeller=None if wanted.labeller is None else labeller)
    kept = {
        name: one
        for name, one in release.weights.items()
        if wanted.labeller is not None or name.startswith("generator.")
    }
    return Release(replace(release.card, plan=replace(plan, recipe=recipe)), kept)
