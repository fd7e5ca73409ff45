"""Image statistics against closed forms and a brute-force oracle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg
from scipy.spatial.distance import cdist

from understudy.errors import EvaluationError
from understudy.evaluation import images
from understudy.evaluation.neighbours import nearest, radii


def test_inception_score_at_its_ends() -> None:
    """Sure and balanced predictions score the number of classes; equal ones score 1."""
    assert images.inception_score(np.eye(10)[np.arange(1000) % 10]) == pytest.approx(10)
    assert images.inception_score(np.full((50, 10), 0.1)) == pytest.approx(1)
    assert images.inception_score(np.eye(10)[np.zeros(50, int)]) == pytest.approx(1)


def test_inception_score_by_hand() -> None:
    """Rows (0.9, 0.1) and (0.1, 0.9) give exp(0.9 ln 1.8 + 0.1 ln 0.2)."""
    expected = np.exp(0.9 * np.log(1.8) + 0.1 * np.log(0.2))
    assert images.inception_score(np.array([[0.9, 0.1], [0.1, 0.9]])) == pytest.approx(expected)


def test_splits_are_contiguous() -> None:
    """Ten splits of sorted classes see one class each and score 1, one split scores 10."""
    probabilities = np.eye(10)[np.repeat(np.arange(10), 20)]
    assert images.inception_scores(probabilities, 10) == pytest.approx(np.ones(10))
    assert images.inception_scores(probabilities, 1) == pytest.approx([10])
    with pytest.raises(EvaluationError, match="cannot be cut"):
        images.inception_scores(probabilities, 0)


def test_jensen_shannon_score_by_hand() -> None:
    """An unsure discriminator scores 0; p = 0.75 gives the formula's value, and 0.25 the same."""
    expected = 0.5 * (0.75 * np.log(1.5) + 0.25 * np.log(0.5)) - 0.25 * (np.log(1.5) + np.log(0.5))
    assert images.jensen_shannon_score(np.full(5, 0.5)) == pytest.approx(0)
    assert images.jensen_shannon_score(np.array([0.75, 0.25])) == pytest.approx(expected)


def test_generate_score_by_hand() -> None:
    """Scores 1, 2, 6 have mean 3 and range 5; the same score twice has no range."""
    assert images.generate_scores([1, 2, 6]) == pytest.approx([0.4, 0.2, 0.6])
    with pytest.raises(EvaluationError, match="two different"):
        images.generate_scores([2.0, 2.0])


def test_frechet_distance_agrees_with_the_matrix_root() -> None:
    """The eigenvalue form equals the textbook form with SciPy's matrix square root."""
    generator = np.random.default_rng(0)
    first, second = (
        generator.normal(size=(300, 5)),
        generator.normal(0.5, 2, size=(200, 5)) @ np.diag(range(1, 6)),
    )
    sigma_1, sigma_2 = np.cov(first.T), np.cov(second.T)
    root = linalg.sqrtm(sigma_1 @ sigma_2).real
    expected = ((first.mean(0) - second.mean(0)) ** 2).sum() + np.trace(sigma_1 + sigma_2 - 2 * root)
    assert images.frechet_distance(first, second) == pytest.approx(expected, rel=1e-6)
    assert images.frechet_distance(first, first) == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_shifted_samples_is_the_squared_shift() -> None:
    """Same covariance, means 3 apart: 9."""
    sample = np.random.default_rng(1).normal(size=(100, 4))
    assert images.frechet_distance(sample, sample + np.array([3, 0, 0, 0])) == pytest.approx(9)


def test_manifold_scores_agree_with_brute_force() -> None:
    """Precision, recall, density and coverage equal their definitions written with all distances."""
    generator = np.random.default_rng(2)
    real, fake = generator.normal(size=(120, 3)), generator.normal(0.5, 0.8, size=(90, 3))
    k = 4
    real_radius = np.sort(cdist(real, real), axis=1)[:, k]
    fake_radius = np.sort(cdist(fake, fake), axis=1)[:, k]
    across = cdist(real, fake)
    found = images.manifold_scores(real, fake, k)
    assert found.precision == pytest.approx((across <= real_radius[:, None]).any(axis=0).mean())
    assert found.recall == pytest.approx((across <= fake_radius[None, :]).any(axis=1).mean())
    assert found.density == pytest.approx((across <= real_radius[:, None]).sum(axis=0).mean() / k)
    assert found.coverage == pytest.approx((across.min(axis=1) <= real_radius).mean())


def test_neighbours_agree_with_all_distances() -> None:
    """Blocked products find the same neighbours and radii as the full matrix, over several blocks."""
    generator = np.random.default_rng(3)
    queries, points = generator.normal(size=(1500, 6)), generator.normal(size=(1200, 6))
    distances, places = nearest(queries, points)
    full = cdist(queries, points)
    assert places.tolist() == full.argmin(axis=1).tolist()
    assert distances == pytest.approx(full.min(axis=1))
    assert radii(points, 3) == pytest.approx(np.sort(cdist(points, points), axis=1)[:, 3])
