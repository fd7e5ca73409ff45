"""The generator of tables: a mixture of products, each component with its own chances of every outcome of every column.

Each class of the label has the same number of components, all equally likely. A component holds one softmax per
column: within it columns are independent, and what columns have in common is which component they come from. So the
marginals of what it makes are sums of products of chances, which can be compared with published counts exactly,
without drawing a record. To draw one, a component is drawn, then an outcome of each column, and within the bin of a
number a value from the published distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from understudy.errors import PlanError
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.bins import KNOTS
from understudy.synthesizers.marginals.cells import Scale, axes_of
from understudy.synthesizers.model import Model
from understudy.synthesizers.protocol import Drawn

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.cells import Axis
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe
    from understudy.synthesizers.protocol import Request

__all__ = ["TableModel", "build_table_model"]

_NEVER = -1e9


class TableModel(Model):
    """Chances of outcomes, and records drawn from them.

    Args:
        components: how many each class has.
        axes: the columns beside the label.
        classes: how many classes; 0 without a label.
        bins: the most bins that a number has.
    """

    possible: Tensor
    knots: Tensor

    def __init__(self, components: int, axes: tuple[Axis, ...], classes: int, bins: int) -> None:
        super().__init__()
        self.axes = axes
        self.widths = [axis.slots(bins) for axis in axes]
        total, numbers = sum(self.widths), sum(axis.scale is Scale.NUMBER for axis in axes)
        self.scores = nn.Parameter(torch.randn(max(1, classes), components, total))
        self.register_buffer("possible", torch.ones(total))
        self.register_buffer("knots", torch.zeros(numbers, bins, KNOTS))

    def forward(self) -> Tensor:
        """The chances of all outcomes side by side, of shape (classes, components, outcomes)."""
        return torch.cat(self._chances(self.scores), dim=2)

    def _chances(self, scores: Tensor) -> list[Tensor]:
        """One softmax for each column."""
        pieces = torch.split(scores.masked_fill(self.possible == 0, _NEVER), self.widths, dim=-1)
        return [piece.softmax(dim=-1) for piece in pieces]

    def draw(self, request: Request, source: torch.Generator) -> Drawn:
        """Records of the given classes."""
        labels, rows = request.labels, request.rows
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
        return Drawn(made, labels)


def _within(knots: Tensor, outcome: Tensor, source: torch.Generator) -> Tensor:
    """A value within the bin of each row: between two neighbouring knots, all equally likely."""
    where = torch.rand(len(outcome), generator=source) * (KNOTS - 1)
    first = where.floor().clamp(max=KNOTS - 2).long()
    bins = outcome.clamp(max=len(knots) - 1)  # the outcome "missing" has no bin
    low, high = knots[bins, first], knots[bins, first + 1]
    return low + (where - first) * (high - low)


def build_table_model(recipe: MarginalsRecipe, schema: Schema) -> TableModel:
    """The mixture of a recipe for a table, with fresh weights.

    Raises:
        PlanError: the schema does not describe a table.
    """
    if not isinstance(schema, TableSchema):
        raise PlanError(f"recipe {recipe.name!r} makes tables, not {schema.kind}.")
    classes = len(schema.label_classes or ())
    return TableModel(recipe.components, axes_of(schema), classes, recipe.slots)
