"""Images without labels: groups that stand for classes, found through the door and told to nobody."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Batch
from understudy.door.source import Rows
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.release.release import Release
from understudy.run.fit import fit
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding import queries
from understudy.synthesizers.embedding.features import Embedding
from understudy.synthesizers.embedding.groups import find_groups
from understudy.synthesizers.embedding.labeller import CONSTANT, Labeller
from understudy.synthesizers.embedding.model import build_image_model
from understudy.synthesizers.embedding.queries import ClassSums, GroupSums
from understudy.synthesizers.embedding.recipe import (
    EMBEDDING,
    FEATURE_MEAN,
    GROUPS,
    UNDERSTUDY_IMAGES,
    Grouping,
    LinearLabeller,
    MeanEmbedding,
    UpsamplingGenerator,
)
from understudy.synthesizers.registry import default_recipe

SCHEMA = ImageSchema(12, 12, 1)
RECIPE = replace(
    UNDERSTUDY_IMAGES,
    embedding=MeanEmbedding(pixel_frequencies=5, wavelet_frequencies=7),
    grouping=Grouping(count=3, rounds=4),
    generator=UpsamplingGenerator(hidden=(8,), channels=2),
    steps=3,
    batch=12,
)
BOUND = math.hypot(1.0, CONSTANT)


def strokes(rows: int = 90) -> Images:
    """Bars upright, bars lying and rings, in turn, each shifted a little."""
    source, pixels = np.random.default_rng(0), np.zeros((rows, 12, 12, 1), np.uint8)
    for i in range(rows):
        down, right = source.integers(-1, 2, 2)
        if i % 3 == 0:
            pixels[i, 2:10, 5 + right : 7 + right] = 255
        elif i % 3 == 1:
            pixels[i, 5 + down : 7 + down, 2:10] = 255
        else:
            pixels[i, 3 + down : 9 + down, 3 + right : 9 + right] = 255
            pixels[i, 5 + down : 7 + down, 5 + right : 7 + right] = 0
    return Images(pixels)


def added(query: Any, x: torch.Tensor) -> torch.Tensor:
    """What a query adds up."""
    (sums,) = whole = query.zero()
    query.add(whole, Batch(x, None, SeededNoise(0)))
    return torch.as_tensor(sums)


def largest_group_change() -> float:
    """How far one record moves the sums of groups, at most, over features of every size and steep heads."""
    source = torch.Generator().manual_seed(2)
    others, changes = torch.randn(10, 6, generator=source) / 10, []
    for steepness in (0.0, 1.0, 1e3, 1e30):
        query = GroupSums(steepness * torch.randn(6, 4, generator=source), BOUND)
        base = added(query, others)
        for size in (1e-30, 0.5, 1.0, 3.0, 1e19, 1e38, math.inf, math.nan):
            odd = torch.randn(1, 6, generator=source).sign() * size
            changes.append(float((added(query, torch.cat([others, odd])) - base).norm()))
    return max(changes)


def largest_embedding_change() -> float:
    """How far one image without label moves the sums of the embedding, at most."""
    source = torch.Generator().manual_seed(3)
    labeller = Labeller(LinearLabeller(), (1, 12, 12), 4)
    labeller.head.copy_(torch.randn(labeller.head.shape, generator=source) * 5)
    query = ClassSums(Embedding(RECIPE.embedding, (1, 12, 12)), 4, labeller)
    others = torch.rand(5, 1, 12, 12, generator=source) * 2 - 1
    base, odd = added(query, others), [-torch.ones(1, 1, 12, 12), torch.full((1, 1, 12, 12), math.nan)]
    odd += [torch.rand(1, 1, 12, 12, generator=source) * 2 - 1, torch.full((1, 1, 12, 12), 1e30)]
    return max(float((added(query, torch.cat([others, one])) - base).norm()) for one in odd)


def test_one_record_moves_the_sums_by_at_most_the_bound() -> None:
    """Sums of features and of embeddings by groups keep their sensitivities, whatever the record and the groups are."""
    assert largest_group_change() <= BOUND
    assert largest_embedding_change() <= ClassSums.sensitivity


def test_parts_that_sum_to_more_than_one_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'a record counts in full in every group that it may be in' breaks both bounds."""
    monkeypatch.setattr(
        queries, "_parts", lambda features, head: (features.double() @ head.double()).sigmoid().nan_to_num()
    )
    assert largest_group_change() > BOUND
    assert largest_embedding_change() > ClassSums.sensitivity


def test_features_that_are_not_shortened_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug 'features as they come' breaks the bound of groups."""
    monkeypatch.setattr(queries, "_shortened", lambda features, _bound: features.nan_to_num())
    assert largest_group_change() > BOUND


def test_groups_are_of_alike_images_and_counted_with_noise() -> None:
    """Of three kinds of strokes, without noise, every group holds one kind; shares are those of the parts."""
    recipe = replace(RECIPE, grouping=Grouping(count=6, rounds=8))
    labeller = build_image_model(recipe, SCHEMA).labeller
    assert labeller is not None
    x = torch.as_tensor(encode(strokes(), SCHEMA).x)
    door = Door(Rows(x, None), (), SeededNoise(0), private=False, rows=90)
    shares = find_groups(labeller, recipe.grouping, door, 90.0)
    kinds = labeller(x).argmax(dim=1).reshape(30, 3).T
    held = [set(kind.tolist()) for kind in kinds]
    assert not held[0] & held[1]
    assert not held[2] & (held[0] | held[1])
    assert torch.allclose(shares.sum(), torch.ones((), dtype=torch.float64))


def test_the_plan_charges_groups_and_takes_as_many_as_noise_allows() -> None:
    """Mean, groups and embedding are charged, no class counts; few images or little budget mean few groups."""
    made = plan(SCHEMA, epsilon=10.0, rows=60_000)
    assert [charge.purpose for charge in made.charges] == [FEATURE_MEAN, GROUPS, EMBEDDING]

    def count(epsilon: float, rows: int | None) -> int:
        recipe = plan(SCHEMA, epsilon=epsilon, rows=rows, delta=1e-6).recipe
        return int(recipe.grouping.count)  # type: ignore[attr-defined]

    assert count(10.0, 60_000) == Grouping().count
    assert 1 < count(10.0, 2_000) < Grouping().count
    assert count(1.0, 500) == 1
    assert count(10.0, None) == count(10.0, 1_000)


def test_unlabelled_images_are_made_by_our_own_recipe_and_stay_without_labels(tmp_path: Path) -> None:
    """`fit` takes it without being told, and nothing that it draws tells a group."""
    assert default_recipe(SCHEMA).recipe is UNDERSTUDY_IMAGES
    release = fit(strokes(), plan(SCHEMA, epsilon=8.0, delta=1e-3, rows=90, recipe=RECIPE))
    made = Release.load(release.save(tmp_path / "release")).sample(50, seed=1)
    assert isinstance(made, Images)
    assert made.labels is None
    assert made.pixels.shape == (50, 12, 12, 1)
    assert release.card.label_weights is None
