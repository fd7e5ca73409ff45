"""Training a generator of code vectors from published counts: post-processing, so it may take as long as it likes.

Nothing here takes private rows, and nothing is drawn: how often codes and pairs of codes would occur is computed from
the rates of latent classes. Both are moved towards the published counts, each weighted by the inverse variance of its
noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.synthesizers.codes.model import CodeGenerator, build_code_generator
from understudy.synthesizers.codes.statistics import CodeStatistics
from understudy.synthesizers.shared.counted_training import CountedTraining, precision_weights

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["CodeApprentice"]

_SPREAD = 0.5
"""How far the latent classes are apart at first."""


class CodeApprentice(CountedTraining[CodeGenerator, CodeStatistics]):
    """The state of the free training on code vectors; arguments as for `CountedTraining`."""

    kind = CodeStatistics

    def __init__(self, recipe: Recipe, schema: Schema, statistics: CodeStatistics, seed: int | None) -> None:
        super().__init__(recipe, schema, statistics, seed)
        self._precision = precision_weights(statistics.noise, (True, len(statistics.frequent) > 0))

    @staticmethod
    def _prepared(recipe: Recipe, schema: Schema, statistics: CodeStatistics) -> CodeGenerator:
        """A generator that knows lengths and repetitions and starts near the rates of single codes."""
        generator = build_code_generator(recipe, schema)
        with torch.no_grad():
            generator.scores.mul_(_SPREAD).add_(statistics.start[:, None])
            generator.lengths.copy_(statistics.lengths)
            generator.repeats.copy_(statistics.repeats)
        return generator

    def _loss(self) -> Tensor:
        """The squared distance of expected codes and pairs from the published ones."""
        known = self._statistics
        codes, pairs = known.expected(self.generator())
        rare = known.weights.rsqrt()[:, None]
        loss = self._precision[0] * ((codes - known.codes) * rare).square().sum()
        return loss + self._precision[1] * (pairs - known.pairs).square().sum()
