"""The generator of code sets: a mixture, each component with its own rates of all codes.

A record draws how many different codes it has from the published lengths of its class, a component, and then that
many codes in proportion to the rates of the component, without replacement. What codes have in common is
which component they come from. Where codes are counted, each is repeated as often as was published for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.errors import PlanError
from understudy.schema import CodeSchema
from understudy.synthesizers.codes.repeats import draw_repeats
from understudy.synthesizers.codes.without_replacement import first_arrivals
from understudy.synthesizers.model import Model
from understudy.synthesizers.protocol import Drawn

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.synthesizers.codes.recipe import CodesRecipe
    from understudy.synthesizers.protocol import Request

__all__ = ["CodeModel", "build_code_model"]


class CodeModel(Model):
    """Rates of codes, and records drawn by them.

    Args:
        components: how many each class has.
        codes: how many codes there are.
        classes: how many classes; 0 without a label.
        longest: the most different codes of a record.
        most: the most occurrences of a code.
    """

    lengths: Tensor
    repeats: Tensor

    def __init__(self, components: int, codes: int, classes: int, longest: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.scores = nn.Parameter(torch.randn(max(1, classes), components, codes))
        self.register_buffer("lengths", torch.ones(max(1, classes), longest + 1) / (longest + 1))
        self.register_buffer("repeats", torch.zeros(codes))

    def forward(self) -> Tensor:
        """The rates of all codes, of shape (classes, components, codes), each row with sum 1."""
        return self.scores.softmax(dim=-1)

    def draw(self, request: Request, source: torch.Generator) -> Drawn:
        """Records of the given classes: the count of each code over the largest count."""
        labels, rows = request.labels, request.rows
        which = torch.randint(0, self.scores.shape[1], (rows,), generator=source)
        classes = torch.zeros_like(which) if labels is None else labels
        lengths = torch.multinomial(self.lengths[classes], 1, generator=source).squeeze(1)
        codes, counted = first_arrivals(self.scores[classes, which], lengths, source)
        times = 1 + draw_repeats(self.repeats[codes], self.most, source)
        made = torch.zeros(rows, self.scores.shape[2])
        return Drawn(made.scatter_(1, codes, counted * times / self.most), labels)


def build_code_model(recipe: CodesRecipe, schema: Schema) -> CodeModel:
    """The mixture of a recipe for code sets, with fresh weights.

    Raises:
        PlanError: the schema does not describe codes.
    """
    if not isinstance(schema, CodeSchema):
        raise PlanError(f"recipe {recipe.name!r} makes codes, not {schema.kind}.")
    codes, classes = len(schema.codes), len(schema.label_classes or ())
    return CodeModel(recipe.components, codes, classes, min(recipe.longest, codes), schema.max_count)
