"""The generator of tables: latent classes, each with its own chances for every outcome of every column.

Each class of the label has the same number of latent classes, all equally likely. A latent class holds one softmax per
column: within it columns are independent, and what columns have in common is which latent class they come from. So the
marginals of what it makes are sums of products of chances, which can be compared with published counts exactly,
without drawing a record. To draw one, a latent class is drawn, then an outcome of each column, and within the bin of a
number a value from the published distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.errors import PlanError
from understudy.recipes.parts import LatentClasses, NoisyMarginals
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.bins import KNOTS
from understudy.synthesizers.marginals.cells import Scale, axes_of

if TYPE_CHECKING:
    from understudy.recipes import Recipe
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.cells import Axis

__all__ = ["TableGenerator", "build_table_generator"]

_NEVER = -1e9


class TableGenerator(nn.Module):
    """Chances of outcomes, and records drawn from them.

    Args:
        latent: how many latent classes each class has.
        axes: the columns beside the label.
        classes: how many classes; 0 without a label.
        bins: the most bins that a number has.
    """

    possible: Tensor
    knots: Tensor

    def __init__(self, latent: int, axes: tuple[Axis, ...], classes: int, bins: int) -> None:
        super().__init__()
        self.axes = axes
        self.widths = [axis.slots(bins) for axis in axes]
        total, numbers = sum(self.widths), sum(axis.scale is Scale.NUMBER for axis in axes)
        self.scores = nn.Parameter(torch.randn(max(1, classes), latent, total))
        self.register_buffer("possible", torch.ones(total))
        self.register_buffer("knots", torch.zeros(numbers, bins, KNOTS))

    def forward(self) -> Tensor:
        """The chances of all outcomes side by side, of shape (classes, latent classes, outcomes)."""
        return torch.cat(self._chances(self.scores), dim=2)

    def _chances(self, scores: Tensor) -> list[Tensor]:
        """One softmax for each column."""
        pieces = torch.split(scores.masked_fill(self.possible == 0, _NEVER), self.widths, dim=-1)
        return [piece.softmax(dim=-1) for piece in pieces]

    def draw(self, labels: Tensor | None, rows: int, source: torch.Generator) -> Tensor:
        """Encoded records of the given classes."""
        which = torch.randint(0, self.scores.shape[1], (rows,), generator=source)
        scores = self.scores[torch.zeros_like(which) if labels is None else labels, which]
        made = torch.zeros(rows, self.axes[-1].start + self.axes[-1].width)
        tables = iter(self.knots)
        for axis, chances in zip(self.axes, self._chances(scores), strict=True):
            outcome = torch.multinomial(chances, 1, generator=source).squeeze(1)
            if axis.scale is Scale.CATEGORY:
                made[torch.arange(rows), axis.start + outcome] = 1
                continue
            if axis.scale is Scale.LEVEL:
                values = 2 * outcome / (axis.size - 1) - 1
            else:
                values = _within(next(tables), outcome, source)
            if axis.missing:
                gone = outcome == chances.shape[1] - 1
                made[:, axis.start + 1] = gone.to(made.dtype)
                values = torch.where(gone, 0.0, values)
            made[:, axis.start] = values
        return made


def _within(knots: Tensor, outcome: Tensor, source: torch.Generator) -> Tensor:
    """A value within the bin of each row: between two neighbouring knots, all equally likely."""
    where = torch.rand(len(outcome), generator=source) * (KNOTS - 1)
    first = where.floor().clamp(max=KNOTS - 2).long()
    bins = outcome.clamp(max=len(knots) - 1)  # the outcome "missing" has no bin
    low, high = knots[bins, first], knots[bins, first + 1]
    return low + (where - first) * (high - low)


def build_table_generator(recipe: Recipe, schema: Schema) -> TableGenerator:
    """The generator of a recipe with marginals, with fresh weights.

    Raises:
        PlanError: the schema does not describe a table, or the recipe's generator has no latent classes.
    """
    assert isinstance(recipe.statistic, NoisyMarginals)
    if not isinstance(schema, TableSchema) or not isinstance(recipe.generator, LatentClasses):
        raise PlanError(
            f"recipe {recipe.name!r} needs a table and a generator of latent classes, got a schema of kind "
            f"{schema.kind!r} and a generator of kind {recipe.generator.kind!r}."
        )
    classes = len(schema.label_classes or ())
    return TableGenerator(recipe.generator.count, axes_of(schema), classes, recipe.statistic.slots)
