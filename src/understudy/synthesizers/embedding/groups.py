"""Groups of alike images, found under privacy, which serve as classes where images have no labels.

A few rounds of k-means on the labeller's features: each publishes, with noise, the sum of the features of every group
and how many records it has. A record belongs to all groups, by parts that fall steeply with the distance to their
centres (`queries`). The first groups are cells of random public directions; the last round counts the groups as they
then are. The labeller that comes out gives each image its most probable group.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import torch

from understudy.synthesizers.embedding.labeller import CONSTANT
from understudy.synthesizers.embedding.recipe import FEATURE_MEAN, GROUPS

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.query import Published
    from understudy.synthesizers.embedding.labeller import Labeller
    from understudy.synthesizers.embedding.recipe import Grouping

__all__ = ["find_groups"]

_SEED = 4321
"""Public: of the first directions, and of how a group that has lost its records begins anew."""
_SMALLEST = 0.1
"""A group of less than this part of an average one begins anew beside the largest."""
_SPREAD = 2.0
"""The first directions are this much shorter than normal ones, so that parts are neither equal nor all or nothing."""
_APART = 0.3
"""How far it begins from there; features have norm 1."""


@torch.no_grad()
def find_groups(labeller: Labeller, part: Grouping, door: Door, count: float) -> Tensor:
    """Make the labeller tell groups of images, and return the share of each.

    Args:
        labeller: changed in place; it has as many classes as there are groups.
        part: rounds, and how sharply groups are told apart.
        door: to images.
        count: the public or noisy number of images.
    """
    from understudy.synthesizers.embedding import queries

    standard = door.derived(partial(queries.standard_features, labeller))
    mean = standard.publish(FEATURE_MEAN, queries.FeatureSum(len(labeller.mean))).value / count
    labeller.mean.copy_(mean)
    features = standard.derived(partial(queries.centred_features, labeller))
    del standard  # as large as what replaced it
    source = torch.Generator().manual_seed(_SEED)
    labeller.head.copy_(part.sharpness * torch.randn(labeller.head.shape, generator=source) / _SPREAD)
    labeller.head[-1] = 0.0
    bound = math.hypot(1.0, CONSTANT)
    for _ in range(part.rounds - 1):
        found = features.publish(GROUPS, queries.GroupSums(labeller.head, bound))
        labeller.head.copy_(_nearest(_centres(found, count, source), part.sharpness))
    counts = features.publish(GROUPS, queries.GroupSums(labeller.head, bound)).value[:, -1] / CONSTANT
    positive = counts.clamp(min=1.0)
    return positive / positive.sum()


def _centres(found: Published, count: float, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """The mean of each group, and its squared length without what noise adds to it."""
    sums, sizes = found.value[:, :-1], found.value[:, -1:] / CONSTANT
    least = max(1.0, _SMALLEST * count / len(sums))
    means = sums / sizes.clamp(min=least)
    squares = (
        means.square().sum(dim=1) - sums.shape[1] * (found.deviation / sizes.clamp(min=least)[:, 0]) ** 2
    )
    largest = int(sizes.argmax())
    for lost in (sizes[:, 0] < least).nonzero().flatten().tolist():
        away = torch.randn(sums.shape[1], generator=source, dtype=torch.float64)
        means[lost] = means[largest] + _APART * away / away.norm()
        squares[lost] = squares[largest] + _APART**2
    return means, squares.clamp(min=0.0)


def _nearest(centres: tuple[Tensor, Tensor], sharpness: float) -> Tensor:
    """Scores that are highest for the nearest centre: c·x - |c|²/2, whose second term hangs on the constant feature."""
    means, squares = centres
    return sharpness * torch.cat([means.T, -squares[None] / (2 * CONSTANT)])
