"""Mixtures of products: fitted to exact counts, and asked for what was given."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from understudy.synthesizers.marginals.given import narrowed
from understudy.synthesizers.marginals.mixture import (
    Mixture,
    Targets,
    Triple,
    components_for,
    fitted,
    started,
)
from understudy.synthesizers.marginals.questions import chosen_triples, expected_sums, leans, sums_of_products


def exact_targets(codes: np.ndarray, labels: np.ndarray, widths: tuple[int, ...]) -> Targets:
    """All columns, labels and pairs by class without noise; every outcome is its own group."""
    starts = np.cumsum([0, *widths])
    hot = np.zeros((len(codes), starts[-1]))
    for i in range(len(widths)):
        hot[np.arange(len(codes)), starts[i] + codes[:, i]] = 1
    classes = int(labels.max()) + 1
    pairs = np.stack([(hot[labels == c].T @ hot[labels == c]) for c in range(classes)]) / len(codes)
    compared = np.ones((starts[-1], starts[-1]))
    for i in range(len(widths)):
        compared[starts[i] : starts[i + 1], starts[i] : starts[i + 1]] = 0
    by_class = np.stack([hot[labels == c].sum(axis=0) for c in range(classes)]) / len(codes)
    single = [
        torch.tensor(one, dtype=torch.float32)
        for one in (
            np.bincount(labels) / len(labels),
            by_class.sum(axis=0),
            by_class,
            pairs * compared,
            compared,
        )
    ]
    return Targets(
        widths, single[0], single[1], single[2], torch.eye(int(starts[-1])), single[3], single[4], (0, 0, 0)
    )


def pairs_of(mixture: Mixture, classes: torch.Tensor) -> torch.Tensor:
    """The shares of any two outcomes in each class."""
    weighted = mixture.chances * (mixture.shares * classes[:, None])[:, :, None]
    return weighted.transpose(1, 2) @ mixture.chances


def chained(rows: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Four columns of eight values that follow one another, and a label that hangs on the last."""
    source = np.random.default_rng(0)
    columns = [source.integers(0, 8, rows)]
    for _ in range(3):
        columns.append(np.clip(columns[-1] + source.integers(-1, 2, rows), 0, 7))
    labels = (columns[-1] + source.integers(0, 3, rows) > 5).astype(np.int64)
    return np.stack(columns, axis=1), labels, (8, 8, 8, 8)


def test_error_falls_with_capacity() -> None:
    """On exact counts of a strong chain, more components and steps bring the error of pairs towards zero."""
    targets = exact_targets(*chained(5000))
    errors = []
    for components, steps in ((4, 50), (60, 300), (200, 1000)):
        mixture = fitted(targets, started(targets, components, torch.Generator().manual_seed(0)), steps)
        gap = (pairs_of(mixture, targets.classes) - targets.pairs).abs() * targets.compared
        errors.append(float(gap.sum()) / 4 / 6)
    assert errors[0] > 3 * errors[1] > 3 * errors[2]
    assert errors[2] < 0.01


def test_a_fit_stays_a_distribution_whatever_was_published() -> None:
    """Negative, huge and contradictory targets leave shares and chances finite, not negative, and summing to 1."""
    targets = exact_targets(*chained(200))
    wild = torch.Generator().manual_seed(0)
    noisy = Targets(
        targets.widths,
        targets.classes,
        targets.columns + torch.randn(32, generator=wild),
        targets.labels - 5,
        targets.groups,
        targets.pairs + 3 * torch.randn(targets.pairs.shape, generator=wild),
        targets.compared,
        (1e-9, 0.0, 1e3),
    )
    mixture = fitted(noisy, started(noisy, 8, torch.Generator().manual_seed(0)), 50)
    assert torch.isfinite(mixture.chances).all()
    assert (mixture.chances >= 0).all()
    assert torch.allclose(mixture.shares.sum(dim=1), torch.ones(2), atol=1e-5)
    for piece in torch.split(mixture.chances, list(mixture.widths), dim=-1):
        assert torch.allclose(piece.sum(dim=-1), torch.ones(2, 8), atol=1e-5)


def test_noise_that_covers_everything_teaches_nothing() -> None:
    """With a variance far above every share the mixture stays where it started."""
    targets = exact_targets(*chained(500))
    covered = Targets(**{**vars(targets), "variances": (1e9, 1e9, 1e9)})
    start = started(covered, 8, torch.Generator().manual_seed(0))
    assert torch.allclose(fitted(covered, start, 20).chances, start.chances, atol=1e-4)


def test_a_rule_of_three_columns_is_found_and_learned() -> None:
    """Parity hides from pairs; its triple is chosen by noisy sums, and with its counts the mixture knows it."""
    source = np.random.default_rng(0)
    codes = source.integers(0, 2, (4000, 6))
    labels = (codes[:, 0] + codes[:, 2] + codes[:, 5]) % 2
    targets = exact_targets(codes, labels, (2,) * 6)
    mixture = fitted(targets, started(targets, 40, torch.Generator().manual_seed(0)), 100)
    leaning = {
        i: leans(np.bincount(codes[:, i], minlength=2).astype(float), None, ordered=True) for i in range(6)
    }
    of_class = leans(np.bincount(labels).astype(float), None, ordered=True)
    records = torch.tensor(np.stack([leaning[i][codes[:, i]] for i in range(6)], axis=1))
    plain = sums_of_products(records, torch.ones(len(codes), dtype=torch.float64))
    sums = torch.stack([plain, sums_of_products(records, torch.tensor(of_class[labels]))])
    noisy = sums + 100 * torch.randn(sums.shape, generator=torch.Generator().manual_seed(1))
    expected = expected_sums(mixture, leaning, targets.classes, of_class)
    chosen = chosen_triples(range(6), noisy, expected, 100.0, len(codes), most=4)
    assert chosen.triples == ((0, 2, 5),)
    assert chosen.surprising
    dull = chosen_triples(range(6), len(codes) * expected, expected, 100.0, len(codes), most=4)
    assert len(dull.triples) == 1  # something is asked whatever the noise says, but it is known to be dull
    assert not dull.surprising

    counts = np.zeros((2, 2, 2, 2))
    np.add.at(counts, (labels, codes[:, 0], codes[:, 2], codes[:, 5]), 1 / len(codes))
    places = (slice(0, 2), slice(4, 6), slice(10, 12))
    triple = Triple(places, torch.tensor(counts, dtype=torch.float32), 0.0)
    learned = fitted(
        Targets(**{**vars(targets), "triples": (triple,)}),
        started(targets, 40, torch.Generator().manual_seed(0)),
        200,
    )
    made = torch.einsum(
        "cz,cza,czb,czd->cabd",
        learned.shares * targets.classes[:, None],
        *(learned.chances[:, :, p] for p in places),
    )
    assert float((made - triple.shares).abs().sum()) / 2 < 0.02


def test_sums_of_products_add_over_batches_in_the_order_of_triples() -> None:
    """Batches add up to the whole, and each entry is the weighted sum of its own triple's products."""
    source = torch.Generator().manual_seed(0)
    leaning = 2 * torch.rand(40, 5, generator=source, dtype=torch.float64) - 1
    weights = torch.rand(40, generator=source, dtype=torch.float64)
    whole = sums_of_products(leaning, weights)
    parts = [sums_of_products(leaning[one], weights[one]) for one in (slice(13), slice(13, None))]
    assert torch.allclose(whole, parts[0] + parts[1])
    by_hand = [(weights * leaning[:, list(t)].prod(dim=1)).sum() for t in itertools.combinations(range(5), 3)]
    assert torch.allclose(whole, torch.stack(by_hand))
    assert sums_of_products(leaning[:, :2], weights).numel() == 0


def test_targets_come_back_from_a_checkpoint() -> None:
    """Named tensors hold everything, triples included."""
    targets = exact_targets(*chained(50))
    triple = Triple((slice(0, 8), slice(8, 16), slice(16, 24)), torch.rand(2, 8, 8, 8), 0.25)
    before = Targets(**{**vars(targets), "triples": (triple, triple)})
    after = Targets.of(before.named())
    assert after.widths == before.widths
    assert after.variances == before.variances
    assert [(one.places, one.variance) for one in after.triples] == [(triple.places, 0.25)] * 2
    assert all(torch.equal(value, after.named()[name]) for name, value in before.named().items())


@pytest.mark.parametrize("ordered", [True, False])
def test_leans_lie_within_one_and_have_no_mean(ordered: bool) -> None:
    """Skewed, negative and empty masses give numbers in [-1, 1]; over the rows that masses tell, their mean is 0."""
    for masses in ([900.0, 50, 50], [5.0, -3, 8, 0], [0.0, 0, 0], [1.0]):
        found = leans(np.array(masses), np.arange(len(masses))[::-1].astype(float), ordered=ordered)
        assert (np.abs(found) <= 1).all()
        assert abs(float((found * np.maximum(masses, 0)).sum())) < 1e-9


def test_what_is_given_is_weighed_as_bayes_does() -> None:
    """Given sets of outcomes of two columns, classes and components have the chances that enumeration gives."""
    source = np.random.default_rng(0)
    classes, shares = np.array([0.3, 0.7]), source.random((2, 5))
    shares /= shares.sum(axis=1, keepdims=True)
    pieces = [source.random((2, 5, width)) for width in (3, 2, 4)]
    chances = np.concatenate([piece / piece.sum(axis=-1, keepdims=True) for piece in pieces], axis=-1)
    first, third = np.array([1.0, 0, 1]), np.array([0.0, 1, 0, 0])
    left, kept, by_class = narrowed((3, 2, 4), shares, chances, {0: first, 2: third}, classes)
    by_hand = shares * classes[:, None] * (chances[..., 0] + chances[..., 2]) * chances[..., 6]
    np.testing.assert_allclose(by_class, by_hand.sum(axis=1))
    np.testing.assert_allclose(left * by_class[:, None], by_hand)
    possible = chances[..., :3] * first
    np.testing.assert_allclose(kept[..., :3], possible / possible.sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(kept[..., 3:5], chances[..., 3:5])


def test_components_are_bounded_whatever_the_number_of_classes() -> None:
    """Few classes get many components each; many classes never fewer than a tenth; nobody none."""
    assert [components_for(600, classes) for classes in (1, 2, 10, 1000)] == [400, 300, 60, 60]
    assert components_for(1, 3) == 1
