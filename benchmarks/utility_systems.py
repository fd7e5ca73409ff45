"""What the utility benchmark compares: our recipe, the papers' recipes, and our recipe with one idea taken out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from understudy.recipes import RECIPES, Recipe

__all__ = ["PAPERS", "REAL", "Cell", "ablation", "recipe_of"]

PAPERS = ("dp-cgan", "dp-cgan-tf2", "dp-gan-basic", "ppgan", "small-images")
"""One recipe of each paper. dp-gan's strategies need public records, so its basic form stands for it."""

REAL = "real data"
"""The line of ceilings and floors: no generator at all."""


@dataclass(frozen=True)
class Cell:
    """One training with its evaluation.

    Args:
        data: the name of a known set of labelled images.
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


def ablation() -> dict[str, Recipe]:
    """Our recipe whole, and with each idea taken out once; budget that is freed goes to what is left."""
    whole = RECIPES["understudy"]
    embedding, teacher = whole.embedding, whole.teacher
    assert embedding is not None
    assert teacher is not None
    return {
        "understudy": whole,
        "no teacher": replace(whole, teacher=None),
        "no warp": replace(whole, warp=None),
        "no teacher in the generator's loss": replace(whole, teacher=replace(teacher, guidance=0.0)),
        "no pixel features": replace(whole, embedding=replace(embedding, pixel_lengths=())),
        "no wavelet features": replace(whole, embedding=replace(embedding, wavelet_lengths=())),
        "no averaging of the generator": replace(whole, averaging=None),
    }


def recipe_of(system: str) -> Recipe:
    """The recipe behind a line of the table."""
    return ablation()[system] if system in ablation() else RECIPES[system]
