"""What a run is charged for besides its private steps: noisy counts and statistics, and how they share a budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.recipes.parts import (
    MeanEmbedding,
    NoisyCodeCounts,
    NoisyLabelHistogram,
    NoisyMarginals,
    SharedLabelHistogram,
)
from understudy.schema import CodeSchema, TableSchema

if TYPE_CHECKING:
    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["shared_charges", "side_charges"]

TRAINING = "training"
LABELS = "label histogram"
ROWS = "row count"
EMBEDDING = "mean embedding"
FEATURE_MEAN = "feature mean"
TEACHER = "teacher"
COLUMNS = "column counts"
LABEL_PAIRS = "label pairs"
PAIRS = "column pairs"
LENGTHS = "codes per record"
CODE_COUNTS = "code counts"
CODE_PAIRS = "code pairs"
REPEATS = "code repetitions"
SCORE = "selection score"
"""Drawn by the choice among several runs, not by a run."""

ROW_COUNT_NOISE = 20.0
"""Standard deviation of the noisy row count, when the curator does not declare the number of rows."""


def side_charges(recipe: Recipe, schema: Schema | None, rows: int | None) -> tuple[Charge, ...]:
    """What is spent besides training: the row count if private, the class counts if needed."""
    charges = []
    if rows is None:
        charges.append(Charge(ROWS, GaussianRelease(ROW_COUNT_NOISE)))
    labelled = schema is None or schema.label_classes is not None
    if recipe.conditional and labelled and isinstance(recipe.labels, NoisyLabelHistogram):
        charges.append(Charge(LABELS, GaussianRelease(recipe.labels.noise_multiplier)))
    return tuple(charges)


def shared_charges(recipe: Recipe, schema: Schema | None, sigma: float) -> tuple[Charge, ...]:
    """Releases that together cost what one with noise σ does, each its share of it, in the order they run."""
    wanted: list[tuple[str, float, int]] = []
    labelled = schema is None or schema.label_classes is not None
    if isinstance(recipe.labels, SharedLabelHistogram) and labelled:
        wanted.append((LABELS, recipe.labels.share, 1))
    match recipe.statistic:
        case MeanEmbedding() as embedding:
            wanted.append((EMBEDDING, embedding.share, 1))
        case NoisyMarginals() as marginals:
            several = not isinstance(schema, TableSchema) or len(schema.features) > 1
            wanted.append((COLUMNS, marginals.column_share, 1))
            wanted.append((LABEL_PAIRS, marginals.label_share if labelled else 0.0, 1))
            wanted.append((PAIRS, marginals.pair_share if several else 0.0, 1))
        case NoisyCodeCounts() as counts:
            codes = schema if isinstance(schema, CodeSchema) else None
            wanted.append((LENGTHS, counts.length_share, 1))
            wanted.append((CODE_COUNTS, counts.code_share, 1))
            paired = codes is None or len(codes.codes) > 1
            wanted.append((CODE_PAIRS, counts.pair_share if paired else 0.0, 1))
            repeated = codes is None or codes.max_count > 1
            wanted.append((REPEATS, counts.repeat_share if repeated else 0.0, 1))
    if recipe.teacher is not None:
        wanted.append((FEATURE_MEAN, recipe.teacher.mean_share, 1))
        wanted.append((TEACHER, recipe.teacher.share, recipe.teacher.lessons.steps))
    whole = sum(share for _, share, _ in wanted)
    return tuple(
        Charge(purpose, GaussianRelease(sigma * math.sqrt(count * whole / share), count))
        for purpose, share, count in wanted
        if share > 0
    )
