"""What code vectors publish before training: up to four vectors of noisy counts, each as the plan charged.

This is the only module of codes, besides `code_counting`, that takes PRIVATE rows. How many codes of a record count,
which codes are compared, and all targets are computed from noisy counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.charges import CODE_COUNTS, CODE_PAIRS, LENGTHS, REPEATS
from understudy.recipes.parts import NoisyCodeCounts
from understudy.schema import CodeSchema
from understudy.synthesizers.codes.queries import (
    code_counts,
    length_counts,
    noisy,
    pair_counts,
    present_codes,
    repeat_sums,
    shortened,
)
from understudy.synthesizers.codes.repeats import chance_of_repeats
from understudy.synthesizers.codes.statistics import assembled, kept_codes, known_lengths, most_frequent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.planning import Plan
    from understudy.schema import Schema
    from understudy.synthesizers.codes.statistics import CodeStatistics

    Floats = NDArray[np.float64]

__all__ = ["publish_codes"]


def publish_codes(
    plan: Plan, schema: Schema, rows: Rows, weights: tuple[float, ...] | None, count: float, noise: Noise
) -> CodeStatistics:
    """Publish the counts that the plan charges.

    Args:
        plan: a plan of a recipe with code counts.
        schema: of code vectors.
        rows: PRIVATE records.
        weights: class frequencies as published, or None without a label.
        count: the number of rows as published.
        noise: where the noise comes from.
    """
    part = plan.recipe.statistic
    assert isinstance(part, NoisyCodeCounts)
    assert isinstance(schema, CodeSchema)
    x, weights = np.asarray(rows.x), weights or (1.0,)
    labels = np.zeros(len(x), dtype=np.int64) if rows.labels is None else np.asarray(rows.labels)
    present, classes, size = present_codes(x), len(weights), len(schema.codes)
    spread = plan.noise_of(LENGTHS)
    counted = noisy(length_counts(present, labels, classes, min(part.longest, size)), spread, noise)
    lengths = known_lengths(counted.numpy(), weights, count, spread)
    kept = kept_codes(lengths, part.covered)
    present = shortened(present, kept)
    exact = code_counts(present, labels, classes, kept)
    codes = noisy(exact, plan.noise_of(CODE_COUNTS), noise).numpy()
    noises = [plan.noise_of(CODE_COUNTS) * exact.sensitivity, 0.0]
    frequent, pairs = np.empty(0, dtype=np.int64), np.empty(0)
    if size > 1 and part.pair_share > 0:
        frequent = most_frequent(codes, part.frequent)
        together = pair_counts(present, frequent, kept)
        pairs = noisy(together, plan.noise_of(CODE_PAIRS), noise).numpy()
        noises[1] = plan.noise_of(CODE_PAIRS) * together.sensitivity
    repeats = np.zeros(size)
    if schema.max_count > 1:
        again = repeat_sums(x, present, schema.max_count, part.repeats)
        extra = noisy(again, plan.noise_of(REPEATS), noise).numpy()
        deviation = plan.noise_of(REPEATS) * again.sensitivity
        repeats = chance_of_repeats(extra, codes.sum(axis=0), deviation, schema.max_count)
    return assembled(lengths, kept, codes, frequent, pairs, repeats, (noises[0], noises[1]))
