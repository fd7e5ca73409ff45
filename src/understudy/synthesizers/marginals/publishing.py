"""What a table publishes before training: three vectors of noisy counts, each as the plan charged.

This is the only module of tables, besides `counting`, that takes PRIVATE rows. Bins, groups and targets are computed
from noisy counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.charges import COLUMNS, LABEL_PAIRS, PAIRS
from understudy.recipes.parts import NoisyMarginals
from understudy.schema import TableSchema
from understudy.synthesizers.marginals.cells import axes_of
from understudy.synthesizers.marginals.columns import Compared, affordable, binned, chosen_pairs
from understudy.synthesizers.marginals.queries import (
    column_marginals,
    label_marginals,
    noisy_counts,
    pair_marginals,
)
from understudy.synthesizers.marginals.statistics import assembled

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.planning import Plan
    from understudy.schema import Schema
    from understudy.synthesizers.marginals.cells import Axis
    from understudy.synthesizers.marginals.columns import BinnedColumn
    from understudy.synthesizers.marginals.statistics import Marginals

    Floats = NDArray[np.float64]

__all__ = ["publish_marginals"]


def publish_marginals(
    plan: Plan, schema: Schema, rows: Rows, weights: tuple[float, ...] | None, count: float, noise: Noise
) -> Marginals:
    """Publish the counts that the plan charges, and compute bins and groups from them.

    Args:
        plan: a plan of a recipe with marginals.
        schema: of a table.
        rows: PRIVATE records.
        weights: class frequencies as published, or None without a label.
        count: the number of rows as published.
        noise: where the noise comes from.
    """
    assert isinstance(schema, TableSchema)
    part = plan.recipe.statistic
    assert isinstance(part, NoisyMarginals)
    x = np.asarray(rows.x)
    labels = None if rows.labels is None or weights is None else np.asarray(rows.labels)
    classes = len(weights or (1.0,))
    columns, first = _publish_columns(plan, part, axes_of(schema), classes, x, count, noise)
    second, by_label = 0.0, []
    if labels is not None and part.label_share > 0:
        sigma = plan.noise_of(LABEL_PAIRS)
        second = sigma * math.sqrt(len(columns))
        bins = [(column.outcome(x), column.bins) for column in columns]
        by_label = [_array(one) for one in noisy_counts(label_marginals(bins, labels, classes), sigma, noise)]
    third, chosen, by_pair = 0.0, Compared((), (), by_class=False), []
    if len(columns) > 1 and part.pair_share > 0:
        sigma = plan.noise_of(PAIRS)
        chosen = chosen_pairs(part, columns, by_label, classes, sigma, count)
        third = sigma * math.sqrt(math.comb(len(chosen.columns), 2))
        taken = [
            (group[columns[i].outcome(x)], int(group.max()) + 1)
            for i, group in zip(chosen.columns, chosen.groups, strict=True)
        ]
        split = labels if chosen.by_class else None
        by_pair = [_array(one) for one in noisy_counts(pair_marginals(taken, split, classes), sigma, noise)]
    noises = torch.tensor([first, second, third], dtype=torch.float64) / count
    return assembled(columns, by_label, chosen, by_pair, weights or (1.0,), count, noises)


def _array(tensor: Tensor) -> Floats:
    found: Floats = tensor.numpy()
    return found


def _publish_columns(
    plan: Plan,
    part: NoisyMarginals,
    axes: tuple[Axis, ...],
    classes: int,
    x: NDArray[np.float32],
    count: float,
    noise: Noise,
) -> tuple[list[BinnedColumn], float]:
    """The columns with their bins, and the standard deviation of the noise in their counts."""
    sigma = plan.noise_of(COLUMNS)
    counts = iter(noisy_counts(column_marginals(axes, x), sigma, noise))
    deviation = sigma * math.sqrt(sum(axis.depth for axis in axes))
    cell_noise = deviation
    if part.label_share > 0 and classes > 1:
        cell_noise = plan.noise_of(LABEL_PAIRS) * math.sqrt(len(axes))
    bins = affordable(count / classes, cell_noise, part.support, part.bins, 1)
    columns = []
    for axis in axes:
        levels = [_array(next(counts)) for _ in range(axis.depth)]
        columns.append(binned(axis, part, levels, bins, deviation, count))
    return columns, deviation
