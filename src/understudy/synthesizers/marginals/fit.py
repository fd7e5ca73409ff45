"""Training a generator of tables from published counts: post-processing, so it may take as long as it likes.

Nothing here takes private rows, and nothing is drawn: the marginals of the generator are known exactly. They are moved
towards the published counts, each vector weighted by the inverse variance of its noise. The errors of a class are
divided by the root of its share, or rare classes would hardly be learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.synthesizers.marginals.model import TableGenerator, build_table_generator
from understudy.synthesizers.marginals.statistics import Marginals
from understudy.synthesizers.shared.counted_training import CountedTraining, precision_weights

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["TableApprentice"]


class TableApprentice(CountedTraining[TableGenerator, Marginals]):
    """The state of the free training on a table; arguments as for `CountedTraining`."""

    kind = Marginals

    def __init__(self, recipe: Recipe, schema: Schema, statistics: Marginals, seed: int | None) -> None:
        super().__init__(recipe, schema, statistics, seed)
        published = (True, len(statistics.labels) > 0, bool(statistics.compared.any()))
        self._precision = precision_weights(statistics.noise, published)

    @staticmethod
    def _prepared(recipe: Recipe, schema: Schema, statistics: Marginals) -> TableGenerator:
        """A generator that knows bins and starts near the chances of single columns, with different latent classes."""
        generator = build_table_generator(recipe, schema)
        with torch.no_grad():
            generator.scores.add_(statistics.start[:, None])
            generator.possible.copy_(statistics.possible)
            if statistics.knots.numel():
                generator.knots.copy_(statistics.knots)
        return generator

    def _loss(self) -> Tensor:
        """The squared distance of the generator's marginals from the published counts."""
        known = self._statistics
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
        """The distance of pairs, for chances of groups of shape (classes, latent classes, groups)."""
        known = self._statistics
        made = grouped.transpose(1, 2) @ grouped / grouped.shape[1] * known.weights[:, None, None]
        if len(known.pairs) == len(made):
            error = (made - known.pairs) * known.weights.rsqrt()[:, None, None]
        else:
            error = made.sum(dim=0, keepdim=True) - known.pairs
        return (error * known.compared).square().sum()
