"""Fidelity of images: pure statistics of class probabilities and of features.

The probabilities and features come from a classifier of the data's own domain (`DomainClassifier`), so the
inception score reaches the number of classes at most and the Fréchet distance is not comparable with FID,
which is defined by one particular network; it is therefore never called that here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError, TooFewRows
from understudy.evaluation.neighbours import nearest_distances, radii, within_any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Manifold",
    "frechet_distance",
    "generate_scores",
    "inception_score",
    "inception_scores",
    "jensen_shannon_score",
    "manifold_scores",
]

Floats = npt.NDArray[np.floating[Any]]
SMALLEST = 1e-12


def inception_score(probabilities: Floats) -> float:
    """Exponential of the mean KL divergence of rows from the mean row: from 1 to the number of classes.

    Salimans et al. 2016, "Improved techniques for training GANs", with our own domain's classifier.
    """
    if len(probabilities) == 0:
        raise EvaluationError("the inception score of no images is not defined.")
    marginal = probabilities.mean(axis=0, keepdims=True)
    logs = np.log(np.maximum(probabilities, SMALLEST)) - np.log(np.maximum(marginal, SMALLEST))
    return float(np.exp((probabilities * logs).sum(axis=1).mean()))


def inception_scores(probabilities: Floats, splits: int = 10) -> Floats:
    """The inception score of each of several contiguous parts; one reports their mean and deviation."""
    if not 1 <= splits <= len(probabilities):
        raise EvaluationError(f"{len(probabilities)} images cannot be cut into {splits} parts.")
    return np.array([inception_score(part) for part in np.array_split(probabilities, splits)])


def jensen_shannon_score(real_probability: Floats) -> float:
    """The dp-gan paper's score of unlabelled images: ½ KL(p‖½) + ½ KL(½‖p), averaged over images.

    Its equation is this symmetrised divergence, although the paper calls it Jensen-Shannon. 0 means that the
    independent discriminator cannot tell; it grows without bound as it becomes certain (p is cut to
    [1e-6, 1 - 1e-6]).

    Args:
        real_probability: for each synthetic image, the discriminator's probability that it is real.
    """
    p = np.clip(real_probability, 1e-6, 1 - 1e-6)
    forward = p * np.log(2 * p) + (1 - p) * np.log(2 * (1 - p))
    backward = -0.5 * np.log(2 * p) - 0.5 * np.log(2 * (1 - p))
    return float(np.mean(0.5 * forward + 0.5 * backward))


def generate_scores(inception: Sequence[float]) -> Floats:
    """The ppgan paper's generate score, |IS - mean| / (max - min), of a set of compared generators.

    It is relative to the set and, being an absolute value, not a measure of quality; it exists to reproduce
    the paper's figures.
    """
    values = np.asarray(inception, dtype=float)
    span = float(np.ptp(values)) if len(values) else 0.0
    if span == 0:
        raise EvaluationError("generate scores need at least two different inception scores.")
    return np.asarray(np.abs(values - values.mean()) / span)


def frechet_distance(first: Floats, second: Floats) -> float:
    """Squared Wasserstein-2 distance of two Gaussians with the moments of two sets of features.

    |μ₁ - μ₂|² + tr(Σ₁ + Σ₂ - 2 (Σ₁Σ₂)^½), the trace of the root taken from the eigenvalues of Σ₁^½ Σ₂ Σ₁^½,
    which are real and not negative.
    """
    if min(len(first), len(second)) < 2:
        raise TooFewRows("the Fréchet distance needs at least two rows on each side.")
    gap = first.mean(axis=0) - second.mean(axis=0)
    sigma_1, sigma_2 = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    sigma_1, sigma_2 = np.atleast_2d(sigma_1), np.atleast_2d(sigma_2)
    values, vectors = np.linalg.eigh(sigma_1)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ sigma_2 @ root), 0)).sum()
    return float(max(0.0, gap @ gap + np.trace(sigma_1) + np.trace(sigma_2) - 2 * cross))


@dataclass(frozen=True)
class Manifold:
    """How two sets of features overlap, each a share.

    Args:
        precision: synthetic rows that lie in the real manifold (Kynkäänniemi et al. 2019).
        recall: real rows that lie in the synthetic manifold.
        density: real neighbourhoods per synthetic row, divided by k; may exceed 1 (Naeem et al. 2020).
        coverage: real rows whose neighbourhood holds a synthetic row.
    """

    precision: float
    recall: float
    density: float
    coverage: float

    def score(self, name: str) -> float:
        """One of the shares, or two of them together by their harmonic mean, density cut at 1."""
        joint = {
            "precision and recall": (self.precision, self.recall),
            "density and coverage": (min(1.0, self.density), self.coverage),
        }
        if name not in joint:
            return float(getattr(self, name))
        first, second = joint[name]
        return 2 * first * second / (first + second) if first + second > 0 else 0.0


def manifold_scores(real: Floats, synthetic: Floats, k: int = 5) -> Manifold:
    """Precision, recall, density and coverage with k-nearest-neighbour balls as manifolds."""
    if min(len(real), len(synthetic)) <= k:
        raise TooFewRows(f"manifold scores with k = {k} need more than {k} rows on each side.")
    real_radius, synthetic_radius = radii(real, k), radii(synthetic, k)
    inside_real = within_any(synthetic, real, real_radius)
    inside_synthetic = within_any(real, synthetic, synthetic_radius)
    return Manifold(
        precision=float((inside_real > 0).mean()),
        recall=float((inside_synthetic > 0).mean()),
        density=float(inside_real.mean() / k),
        coverage=float((nearest_distances(real, synthetic) <= real_radius).mean()),
    )
