"""Fitting a mixture to the published counts of a table.

Nothing is drawn while it learns: the marginals of the mixture are known exactly. They are moved towards the published
counts, each vector weighted by the inverse variance of its noise. The errors of a class are divided by the root of its
share, or rare classes would hardly be learned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from understudy.schema import TableSchema
from understudy.synthesizers.marginals.cells import axes_of
from understudy.synthesizers.marginals.columns import Compared, affordable, binned, chosen_pairs
from understudy.synthesizers.marginals.model import TableModel, build_table_model
from understudy.synthesizers.marginals.queries import ColumnCounts, LabelPairCounts, PairCounts
from understudy.synthesizers.marginals.recipe import COLUMNS, LABEL_PAIRS, PAIRS
from understudy.synthesizers.marginals.statistics import Marginals, assembled
from understudy.synthesizers.shared.counts import CountFitter, precision_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.query import Published
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.columns import BinnedColumn
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

    Floats = NDArray[np.float64]

__all__ = ["MarginalsFitter"]


class MarginalsFitter(CountFitter[TableModel, Marginals]):
    """The state of the free training on a table.

    Args:
        recipe: what to fit.
        schema: of a table.
        seed: for the first weights; None draws one.
        device: where the mixture is.
    """

    kind = Marginals

    def __init__(
        self, recipe: MarginalsRecipe, schema: Schema, seed: int | None, device: torch.device
    ) -> None:
        super().__init__(schema, recipe.optimiser, recipe.steps, recipe.averaging, seed, device)
        self._recipe = recipe

    def _counted(self, door: Door, count: float) -> Marginals:
        """Three vectors of counts; bins, groups and targets are computed from what was published before."""
        weights, recipe = self.label_weights or (1.0,), self._recipe
        columns, first = self._columns(door, len(weights), count)
        second = third = 0.0
        by_label: list[Floats] = []
        by_pair: list[Floats] = []
        if self.label_weights is not None and recipe.label_share > 0:
            seen = door.publish(LABEL_PAIRS, LabelPairCounts(columns, len(weights)))
            second, by_label = seen.deviation, _arrays(seen)
        chosen = Compared((), (), by_class=False)
        if len(columns) > 1 and recipe.pair_share > 0:
            chosen = chosen_pairs(recipe, columns, by_label, len(weights), door.sigma(PAIRS), count)
            seen = door.publish(PAIRS, PairCounts(columns, chosen, len(weights)))
            third, by_pair = seen.deviation, _arrays(seen)
        noise = torch.tensor([first, second, third], dtype=torch.float64) / count
        return assembled(columns, by_label, chosen, by_pair, weights, count, noise)

    def _columns(self, door: Door, classes: int, count: float) -> tuple[list[BinnedColumn], float]:
        """The columns with their bins, and the standard deviation of the noise in their counts."""
        assert isinstance(self._schema, TableSchema)
        axes, recipe = axes_of(self._schema), self._recipe
        seen = door.publish(COLUMNS, ColumnCounts(axes))
        counts, cell_noise = iter(_arrays(seen)), seen.deviation
        if recipe.label_share > 0 and classes > 1:
            cell_noise = door.sigma(LABEL_PAIRS) * math.sqrt(len(axes))
        bins = affordable(count / classes, cell_noise, recipe.support, recipe.bins, 1)
        columns = []
        for axis in axes:
            levels = [next(counts) for _ in range(axis.depth)]
            columns.append(binned(axis, recipe, levels, bins, seen.deviation, count))
        return columns, seen.deviation

    def _new_generator(self) -> TableModel:
        """A mixture that knows bins and starts near the chances of single columns, with different components."""
        statistics = self.statistics
        published = (True, len(statistics.labels) > 0, bool(statistics.compared.any()))
        self._precision = precision_weights(statistics.noise, published)
        model = build_table_model(self._recipe, self._schema)
        with torch.no_grad():
            model.scores.add_(statistics.start[:, None])
            model.possible.copy_(statistics.possible)
            if statistics.knots.numel():
                model.knots.copy_(statistics.knots)
        return model

    def _loss(self) -> Tensor:
        """The squared distance of the mixture's marginals from the published counts."""
        known = self.statistics
        chances: Tensor = self.generator()
        by_class = chances.mean(dim=1) * known.weights[:, None]
        loss = self._precision[0] * (by_class.sum(dim=0) - known.columns).square().sum()
        if len(known.labels):
            rare = known.weights.rsqrt()[:, None]
            loss = loss + self._precision[1] * ((by_class - known.labels) * rare).square().sum()
        if known.compared.any():
            loss = loss + self._precision[2] * self._pair_loss(chances @ known.groups)
        return loss

    def _pair_loss(self, grouped: Tensor) -> Tensor:
        """The distance of pairs, for chances of groups of shape (classes, components, groups)."""
        known = self.statistics
        made = grouped.transpose(1, 2) @ grouped / grouped.shape[1] * known.weights[:, None, None]
        if len(known.pairs) == len(made):
            error = (made - known.pairs) * known.weights.rsqrt()[:, None, None]
        else:
            error = made.sum(dim=0, keepdim=True) - known.pairs
        return (error * known.compared).square().sum()


def _arrays(seen: Published) -> list[Floats]:
    return [one.numpy() for one in seen.values]
