"""Fitting a mixture of rates to the published counts of code sets.

Nothing is drawn while it learns: how often codes and pairs of codes would occur is computed from the rates. Both are
moved towards the published counts, each weighted by the inverse variance of its noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.schema import CodeSchema
from understudy.synthesizers.codes.model import CodeModel, build_code_model
from understudy.synthesizers.codes.queries import CodeCounts, LengthCounts, PairCounts, RepeatSums
from understudy.synthesizers.codes.recipe import CODE_COUNTS, CODE_PAIRS, LENGTHS, REPEATS
from understudy.synthesizers.codes.repeats import chance_of_repeats
from understudy.synthesizers.codes.statistics import (
    CodeStatistics,
    assembled,
    kept_codes,
    known_lengths,
    most_frequent,
)
from understudy.synthesizers.shared.counts import CountFitter, precision_weights

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.schema import Schema
    from understudy.synthesizers.codes.recipe import CodesRecipe

__all__ = ["CodesFitter"]

_SPREAD = 0.5
"""How far the components are apart at first."""


class CodesFitter(CountFitter[CodeModel, CodeStatistics]):
    """The state of the free training on code sets.

    Args:
        recipe: what to fit.
        schema: of code sets.
        seed: for the first weights; None draws one.
        device: where the mixture is.
    """

    kind = CodeStatistics

    def __init__(self, recipe: CodesRecipe, schema: Schema, seed: int | None, device: torch.device) -> None:
        super().__init__(schema, recipe.optimiser, recipe.steps, recipe.averaging, seed, device)
        self._recipe = recipe

    def _counted(self, door: Door, count: float) -> CodeStatistics:
        """Up to four vectors; how many codes of a record count, and which are compared, follow from noisy counts."""
        assert isinstance(self._schema, CodeSchema)
        recipe, weights = self._recipe, self.label_weights or (1.0,)
        classes, size, most = len(weights), len(self._schema.codes), self._schema.max_count
        seen = door.publish(LENGTHS, LengthCounts(classes, min(recipe.longest, size)))
        lengths = known_lengths(seen.value.numpy(), weights, count, seen.deviation)
        kept = kept_codes(lengths, recipe.covered, door.sigma(CODE_COUNTS), size)
        seen = door.publish(CODE_COUNTS, CodeCounts(classes, size, kept))
        codes, noises = seen.value.numpy(), [seen.deviation, 0.0]
        frequent, pairs = np.empty(0, dtype=np.int64), np.empty(0)
        if size > 1 and recipe.pair_share > 0:
            frequent = most_frequent(codes, recipe.frequent)
            seen = door.publish(CODE_PAIRS, PairCounts(frequent, kept))
            pairs, noises[1] = seen.value.numpy(), seen.deviation
        repeats = np.zeros(size)
        if most > 1:
            seen = door.publish(REPEATS, RepeatSums(size, most, kept, recipe.repeats))
            repeats = chance_of_repeats(seen.value.numpy(), codes.sum(axis=0), seen.deviation, most)
        return assembled(lengths, kept, codes, frequent, pairs, repeats, (noises[0], noises[1]))

    def _new_generator(self) -> CodeModel:
        """A mixture that knows lengths and repetitions and starts near the rates of single codes."""
        statistics = self.statistics
        self._precision = precision_weights(statistics.noise, (True, len(statistics.frequent) > 0))
        model = build_code_model(self._recipe, self._schema)
        with torch.no_grad():
            model.scores.mul_(_SPREAD if self._recipe.components > 1 else 0.0).add_(statistics.start[:, None])
            model.lengths.copy_(statistics.lengths)
            model.repeats.copy_(statistics.repeats)
        return model

    def _loss(self) -> Tensor:
        """The squared distance of expected codes and pairs from the published ones."""
        known = self.statistics
        codes, pairs = known.expected(self.generator())
        rare = known.weights.rsqrt()[:, None]
        loss = self._precision[0] * ((codes - known.codes) * rare).square().sum()
        return loss + self._precision[1] * (pairs - known.pairs).square().sum()
