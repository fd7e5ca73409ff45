"""Training a generator of code vectors from published counts: post-processing, so it may take as long as it likes.

Nothing here takes private rows, and nothing is drawn: how often codes and pairs of codes would occur is computed from
the rates of latent classes. Both are moved towards the published counts, each weighted by the inverse variance of its
noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.gan.code_generator import CodeGenerator, build_code_generator
from understudy.gan.code_statistics import CodeStatistics
from understudy.gan.free_training import FreeTraining, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["CodeApprentice"]

_SPREAD = 0.5
"""How far the latent classes are apart at first."""


class CodeApprentice(FreeTraining[CodeGenerator]):
    """The state of the free training on code vectors.

    Args:
        recipe: a recipe with code counts.
        schema: of code vectors.
        statistics: the published counts.
        seed: for the first weights; None draws one. Nothing private hangs on it.
    """

    def __init__(self, recipe: Recipe, schema: Schema, statistics: CodeStatistics, seed: int | None) -> None:
        super().__init__(recipe, lambda: _prepared(recipe, schema, statistics), seed)
        self._statistics = statistics
        precision = torch.where(statistics.noise > 0, statistics.noise, 1.0).double().pow(-2)
        precision[1] *= len(statistics.frequent) > 0
        self._precision = (precision / precision.sum()).to(torch.float32)

    def _loss(self) -> Tensor:
        """The squared distance of expected codes and pairs from the published ones."""
        known = self._statistics
        codes, pairs = known.expected(self.generator())
        rare = known.weights.rsqrt()[:, None]
        loss = self._precision[0] * ((codes - known.codes) * rare).square().sum()
        return loss + self._precision[1] * (pairs - known.pairs).square().sum()

    def released_weights(self) -> dict[str, Tensor]:
        """The weights of the generator, averaged if the recipe says so."""
        return self._average.weights()

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        return {"published": self._statistics.named()}

    @classmethod
    def restored(
        cls, recipe: Recipe, schema: Schema, state: Mapping[str, Tensor], seed: int | None
    ) -> CodeApprentice:
        """Go on from a state that `state` gave; nothing is published again."""
        part = parts_of(state)
        run = cls(recipe, schema, CodeStatistics.of(part["published"]), seed)
        run._take_over(part)
        return run


def _prepared(recipe: Recipe, schema: Schema, statistics: CodeStatistics) -> CodeGenerator:
    """A generator that knows lengths and repetitions and starts near the rates of single codes."""
    generator = build_code_generator(recipe, schema)
    with torch.no_grad():
        generator.scores.mul_(_SPREAD).add_(statistics.start[:, None])
        generator.lengths.copy_(statistics.lengths)
        generator.repeats.copy_(statistics.repeats)
    return generator
