"""The generator of code vectors: latent classes, each with its own rates of all codes.

A record draws how many different codes it has from the published lengths of its class, a latent class, and then that
many codes in proportion to the rates of the latent class, without replacement (`race`). What codes have in common is
which latent class they come from. Where codes are counted, each is repeated as often as was published for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.errors import PlanError
from understudy.recipes.parts import LatentClasses, NoisyCodeCounts
from understudy.schema import CodeSchema
from understudy.synthesizers.codes.repeats import draw_repeats
from understudy.synthesizers.codes.without_replacement import first_arrivals

if TYPE_CHECKING:
    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["CodeGenerator", "build_code_generator"]


class CodeGenerator(nn.Module):
    """Rates of codes, and records drawn by them.

    Args:
        latent: how many latent classes each class has.
        codes: how many codes there are.
        classes: how many classes; 0 without a label.
        longest: the most different codes of a record.
        most: the most occurrences of a code.
    """

    lengths: Tensor
    repeats: Tensor

    def __init__(self, latent: int, codes: int, classes: int, longest: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.scores = nn.Parameter(torch.randn(max(1, classes), latent, codes))
        self.register_buffer("lengths", torch.ones(max(1, classes), longest + 1) / (longest + 1))
        self.register_buffer("repeats", torch.zeros(codes))

    def forward(self) -> Tensor:
        """The rates of all codes, of shape (classes, latent classes, codes), each row with sum 1."""
        return self.scores.softmax(dim=-1)

    def draw(self, labels: Tensor | None, rows: int, source: torch.Generator) -> Tensor:
        """Encoded records of the given classes: the count of each code over the largest count."""
        which = torch.randint(0, self.scores.shape[1], (rows,), generator=source)
        classes = torch.zeros_like(which) if labels is None else labels
        lengths = torch.multinomial(self.lengths[classes], 1, generator=source).squeeze(1)
        codes, counted = first_arrivals(self.scores[classes, which], lengths, source)
        times = 1 + draw_repeats(self.repeats[codes], self.most, source)
        made = torch.zeros(rows, self.scores.shape[2])
        return made.scatter_(1, codes, counted * times / self.most)


def build_code_generator(recipe: Recipe, schema: Schema) -> CodeGenerator:
    """The generator of a recipe with code counts, with fresh weights.

    Raises:
        PlanError: the schema does not describe codes, or the recipe's generator has no latent classes.
    """
    part = recipe.statistic
    assert isinstance(part, NoisyCodeCounts)
    if not isinstance(schema, CodeSchema) or not isinstance(recipe.generator, LatentClasses):
        raise PlanError(
            f"recipe {recipe.name!r} needs codes and a generator of latent classes, got a schema of kind "
            f"{schema.kind!r} and a generator of kind {recipe.generator.kind!r}."
        )
    codes, classes = len(schema.codes), len(schema.label_classes or ())
    longest = min(part.longest, codes)
    return CodeGenerator(recipe.generator.count, codes, classes, longest, schema.max_count)
