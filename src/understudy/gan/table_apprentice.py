"""Training a generator of tables from published counts: post-processing, so it may take as long as it likes.

Nothing here takes private rows, and nothing is drawn: the marginals of the generator are known exactly. They are moved
towards the published counts, each vector weighted by the inverse variance of its noise. The errors of a class are
divided by the root of its share, or rare classes would hardly be learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.gan.free_training import FreeTraining, parts_of
from understudy.gan.marginals import Marginals
from understudy.gan.tabular import TableGenerator, build_table_generator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["TableApprentice"]


class TableApprentice(FreeTraining[TableGenerator]):
    """The state of the free training on a table.

    Args:
        recipe: a recipe with marginals.
        schema: of a table.
        marginals: the published counts.
        seed: for the first weights; None draws one. Nothing private hangs on it.
    """

    def __init__(self, recipe: Recipe, schema: Schema, marginals: Marginals, seed: int | None) -> None:
        super().__init__(recipe, lambda: _prepared(recipe, schema, marginals), seed)
        self._marginals = marginals
        precision = torch.where(marginals.noise > 0, marginals.noise, 1.0).pow(-2)
        published = torch.tensor([1.0, float(len(marginals.labels) > 0), float(marginals.compared.any())])
        self._precision = (precision * published / (precision * published).sum()).to(torch.float32)

    def _loss(self) -> Tensor:
        """The squared distance of the generator's marginals from the published counts."""
        known = self._marginals
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
        known = self._marginals
        made = grouped.transpose(1, 2) @ grouped / grouped.shape[1] * known.weights[:, None, None]
        if len(known.pairs) == len(made):
            error = (made - known.pairs) * known.weights.rsqrt()[:, None, None]
        else:
            error = made.sum(dim=0, keepdim=True) - known.pairs
        return (error * known.compared).square().sum()

    def released_weights(self) -> dict[str, Tensor]:
        """The weights of the generator, averaged if the recipe says so."""
        return self._average.weights()

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        return {"published": self._marginals.named()}

    @classmethod
    def restored(
        cls, recipe: Recipe, schema: Schema, state: Mapping[str, Tensor], seed: int | None
    ) -> TableApprentice:
        """Go on from a state that `state` gave; nothing is published again."""
        part = parts_of(state)
        run = cls(recipe, schema, Marginals.of(part["published"]), seed)
        run._take_over(part)
        return run


def _prepared(recipe: Recipe, schema: Schema, marginals: Marginals) -> TableGenerator:
    """A generator that knows bins and starts near the chances of single columns, with different latent classes."""
    generator = build_table_generator(recipe, schema)
    with torch.no_grad():
        generator.scores.add_(marginals.start[:, None])
        generator.possible.copy_(marginals.possible)
        if marginals.knots.numel():
            generator.knots.copy_(marginals.knots)
    return generator
