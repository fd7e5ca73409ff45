"""Fitting a mixture of rates to the published counts of code sets.

Nothing is drawn while it learns: how often codes and pairs of codes would occur is computed from the rates. Both are
moved towards the published counts, each weighted by the inverse variance of its noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from understudy.schema import CodeSchema
from understudy.synthesizers.codes.denoising import believed_counts
from understudy.synthesizers.codes.model import build_code_model, groups_of
from understudy.synthesizers.codes.queries import CodeCounts, LengthCounts, PairCounts, RepeatSums
from understudy.synthesizers.codes.recipe import CODE_COUNTS, CODE_PAIRS, LENGTHS, REPEATS
from understudy.synthesizers.codes.repeats import chance_of_repeats
from understudy.synthesizers.codes.statistics import (
    CodeStatistics,
    Items,
    KnownLengths,
    assembled,
    known_lengths,
    with_pairs,
)
from understudy.synthesizers.codes.weighing import compared_items, weighing
from understudy.synthesizers.shared.counts import CountFitter, precision_weights, single

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.door.door import Door
    from understudy.schema import Schema
    from understudy.synthesizers.codes.recipe import CodesRecipe

__all__ = ["CodesFitter"]

_SPREAD = 0.5
"""How far the components are apart at first."""

_CAUTION = 4.0
"""What it costs that components are apart in an item, in units of the noise: with few records they follow only what
is loud."""


class CodeRates(nn.Module):
    """What learns: logarithms of rates, and of chances of components. What was published goes with it into the file.

    Args:
        shapes: of the weights of the model.
        statistics: what was published.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], statistics: CodeStatistics) -> None:
        super().__init__()
        spread = torch.zeros(statistics.start.shape[1])
        spread[statistics.compared] = _SPREAD
        scores = torch.randn(shapes["scores"]) * spread + statistics.start[:, None]
        self.scores = nn.Parameter(scores)
        self.mixing = nn.Parameter(torch.zeros(shapes["mixing"]))
        for name in ("lengths", "length_groups", "frequent", "within", "repeats"):
            self.register_buffer(name, getattr(statistics, name).clone())

    def forward(self) -> tuple[Tensor, Tensor]:
        """The rates of all items, of shape (classes, components, items), and the chances of components by length."""
        return self.scores.softmax(dim=-1), self.mixing.softmax(dim=-1)


class CodesFitter(CountFitter[CodeRates, CodeStatistics]):
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
        """Up to four vectors; what a record weighs, and which codes are compared, follow from noisy counts."""
        assert isinstance(self._schema, CodeSchema)
        recipe, schema, weights = self._recipe, self._schema, self.label_weights or (1.0,)
        classes, size, most = len(weights), len(schema.codes), schema.max_count
        seen = door.publish(LENGTHS, LengthCounts(classes, min(recipe.longest, size)))
        lengths = known_lengths(seen.value.numpy(), weights, count, seen.deviation)
        weighed = weighing(
            np.arange(lengths.chances.shape[1]),
            lengths.pooled,
            count,
            recipe.covered,
            door.sigma(CODE_COUNTS),
            size * classes,
        )
        seen = door.publish(CODE_COUNTS, CodeCounts(classes, size, weighed.full))
        codes, noise = seen.value.numpy() * weighed.scale, seen.deviation * weighed.scale
        levels = [np.array(level) for level in schema.levels]
        believed = np.stack(
            [
                believed_counts(row, noise, total, levels)
                for row, total in zip(codes, lengths.mentions, strict=True)
            ]
        )
        items = Items.of(believed, groups_of(schema), recipe.frequent)
        found = assembled(lengths, items, noise)
        if size > 1 and recipe.pair_share > 0:
            found = self._with_pairs(door, found, items, lengths)
        if most > 1:
            seen = door.publish(REPEATS, RepeatSums(size, most, recipe.repeats))
            chances = chance_of_repeats(seen.value.numpy(), codes.sum(axis=0), seen.deviation, most)
            found = replace(found, repeats=single(chances))
        return found

    def _with_pairs(
        self, door: Door, found: CodeStatistics, items: Items, lengths: KnownLengths
    ) -> CodeStatistics:
        """Pairs of as many codes as the noise allows, and with a tree of groups of the others."""
        assert isinstance(self._schema, CodeSchema)
        count, mentions = lengths.count, items.mentions.sum(axis=0) / lengths.count
        own = len(items.frequent)
        groups = mentions[own:] if self._schema.levels else np.zeros(0)
        chosen = compared_items(
            mentions[:own], groups, lengths.pooled, count, self._recipe.covered, door.sigma(CODE_PAIRS)
        )
        compared, places = items.places(chosen.codes, groups=chosen.groups)
        seen = door.publish(CODE_PAIRS, PairCounts(places, len(compared), chosen.full))
        pairs, noise = seen.value.numpy() / count, seen.deviation / count
        return with_pairs(found, compared, chosen.weights, pairs, noise)

    def _new_generator(self) -> CodeRates:
        """A mixture that knows lengths and repetitions and starts near the rates of single items.

        Components differ at first in what was compared, and in nothing else: other codes keep no company.
        """
        known = self.statistics
        heard = known.noise[known.noise > 0]
        self._caution = _CAUTION / float(heard.pow(-2).sum()) if len(heard) else 0.0
        self._precision = precision_weights(known.noise, (True, len(known.compared) > 0))
        return CodeRates(build_code_model(self._recipe, self._schema).shapes, known)

    def _loss(self) -> Tensor:
        """The squared distance of expected items and pairs from the published ones."""
        known = self.statistics
        items, pairs = known.expected(*self.generator())
        rare = known.weights.rsqrt()[:, None]
        loss = self._precision[0] * ((items - known.items) * rare).square().sum()
        loss = loss + self._precision[1] * (pairs - known.pairs).square().sum()
        apart = (self.generator.scores - self.generator.scores.mean(dim=1, keepdim=True)).square().mean(dim=1)
        return loss + self._caution * apart.sum()
