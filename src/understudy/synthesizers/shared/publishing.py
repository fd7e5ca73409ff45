"""What a run publishes before it trains: class counts, the row count, the mean embedding and the teacher.

Each function takes PRIVATE rows and the plan, and returns numbers that carry the noise which the plan charged. All
sums have a fixed sensitivity; how it is bounded is said in `embedding` and `teacher`. In a baseline without a
budget the same numbers come without noise, and the release is marked as not private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from understudy.charges import EMBEDDING, FEATURE_MEAN, LABELS, ROWS, TEACHER
from understudy.errors import PlanError
from understudy.recipes.parts import (
    DeclaredLabels,
    MeanEmbedding,
    NoisyLabelHistogram,
    SharedLabelHistogram,
    UniformLabels,
)
from understudy.records.encode import encoded_shape
from understudy.synthesizers.embedding.features import Embedding, class_means, noisy_class_sums
from understudy.synthesizers.embedding.labeller import Teacher, teach
from understudy.synthesizers.gan.generators import image_shape

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.planning import Plan
    from understudy.schema import Schema

__all__ = ["label_weights", "mean_embedding", "row_count", "trained_teacher"]


def label_weights(plan: Plan, schema: Schema, rows: Rows, noise: Noise) -> tuple[float, ...] | None:
    """The class frequencies of fakes: uniform, declared, or counted with noise as the plan charged."""
    classes = schema.label_classes
    if classes is None:
        return None
    match plan.recipe.labels:
        case UniformLabels():
            return (1 / len(classes),) * len(classes)
        case DeclaredLabels():
            if schema.label_weights is None:
                raise PlanError(
                    "the recipe takes class weights from the schema, but the schema declares none: add label_weights, "
                    "or choose another label prior."
                )
            return schema.label_weights
        case NoisyLabelHistogram() | SharedLabelHistogram():
            return _noisy_histogram(plan, len(classes), rows, noise)


def _noisy_histogram(plan: Plan, classes: int, rows: Rows, noise: Noise) -> tuple[float, ...]:
    assert rows.labels is not None
    counts = torch.bincount(torch.as_tensor(rows.labels), minlength=classes).to(torch.float64)
    noise.perturb([counts], plan.noise_of(LABELS), 1.0)
    positive = counts.clamp(min=1.0)
    return tuple(float(weight) for weight in positive / positive.sum())


def row_count(plan: Plan, count: int, noise: Noise) -> float:
    """The number of rows that may be used as a divisor: declared public, or counted with noise."""
    if plan.rows is not None:
        return float(plan.rows)
    rows = torch.tensor([count], dtype=torch.float64)
    noise.perturb([rows], plan.noise_of(ROWS), 1.0)
    return max(1.0, float(rows))


def mean_embedding(
    plan: Plan, schema: Schema, rows: Rows, weights: tuple[float, ...], count: float, noise: Noise
) -> Tensor:
    """The published mean embedding, one row per class.

    Args:
        plan: a plan of a recipe with an embedding.
        schema: what an image looks like.
        rows: PRIVATE images with labels.
        weights: class frequencies as published; exact counts are never used.
        count: the number of rows as published.
        noise: where the noise comes from.
    """
    assert isinstance(plan.recipe.statistic, MeanEmbedding)
    embedding = Embedding(plan.recipe.statistic, image_shape(encoded_shape(schema), plan.recipe.name))
    sums = noisy_class_sums(embedding, rows, len(weights), plan.noise_of(EMBEDDING), noise)
    return class_means(sums, torch.tensor(weights, dtype=torch.float64) * count)


def trained_teacher(plan: Plan, schema: Schema, rows: Rows, count: float, noise: Noise) -> Teacher | None:
    """The published teacher, or None if the recipe has none; arguments as for `mean_embedding`."""
    part = plan.recipe.teacher
    if part is None:
        return None
    shape = image_shape(encoded_shape(schema), plan.recipe.name)
    teacher = Teacher(part, shape, len(schema.label_classes or ()))
    teach(teacher, part, rows, count, plan.noise_of(FEATURE_MEAN), plan.noise_of(TEACHER), noise)
    return teacher
