"""All image measures of synthetic images against real ones, gathered with ceilings and floors.

Needs a domain classifier when there are labels; without labels the independent discriminator of the dp-gan
paper and plain pixels take its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.evaluation import images
from understudy.evaluation.intervals import Estimate, Progress, jackknife
from understudy.evaluation.neighbours import nearest
from understudy.evaluation.network import fit_logits, predict_probabilities
from understudy.evaluation.result import Better, Measure, Pictures, fidelity_measure

if TYPE_CHECKING:
    from understudy.evaluation.domain import DomainClassifier

__all__ = ["discriminator_score", "image_fidelity", "neighbour_pictures"]

Floats = npt.NDArray[np.floating[Any]]
MOST_MANIFOLD = 3_000
MOST_REFERENCE = 20_000


def image_fidelity(
    synthetic: Floats,
    test: Floats,
    judge: DomainClassifier,
    *,
    reference: Floats | None = None,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """Inception scores, Fréchet distance and manifold scores of (rows, channels, height, width) images.

    The ceiling comes from real reference images (of the test images for the inception score), the floor
    from images of uniform noise.
    """
    noise = np.random.default_rng(0).uniform(-1, 1, (min(len(synthetic), 2_000), *synthetic.shape[1:]))
    tell = on_progress or _silent
    sides = [judge.both(side) for side in (synthetic, test, noise)]
    measures = list(_inception(*(probabilities for probabilities, _ in sides)))
    tell("inception score", 0.4)
    drawn, real, trivial = (features for _, features in sides)
    best = None if reference is None else judge.features(reference[: min(len(synthetic), MOST_REFERENCE)])
    measures.append(_frechet(drawn, real, trivial, best))
    tell("Fréchet distance", 0.7)
    measures += _manifold(drawn, real, trivial, best)
    tell("precision and recall", 1.0)
    return tuple(measures)


def discriminator_score(
    synthetic: Floats, test: Floats, *, reference: Floats | None = None, seed: int = 0
) -> Measure:
    """The dp-gan paper's Jensen-Shannon score by an independent discriminator.

    A new CNN learns real against synthetic on half of the images and is asked about the other half of the
    synthetic ones. The ceiling is the same with real reference images in the place of the synthetic ones.
    """
    probabilities = _held_out(synthetic, test, seed)
    estimate = jackknife(images.jensen_shannon_score, probabilities, low=0.0)
    best = None if reference is None else images.jensen_shannon_score(_held_out(reference, test, seed))
    words = "How sure an independent discriminator is about the origin of synthetic images: 0 is not at all."
    floor = images.jensen_shannon_score(np.zeros(1))
    return fidelity_measure("Jensen-Shannon score", estimate, Better.LOWER, best, floor, words)


def neighbour_pictures(synthetic: Floats, real: Floats, count: int = 10) -> Pictures:
    """The first synthetic images beside the real images nearest to them in pixels; internal."""
    shown = synthetic[:count]
    _, places = nearest(shown, real)
    channels, height, width = synthetic.shape[1:]
    return Pictures(height, width, channels, _bytes(shown), _bytes(real[places]))


def _inception(drawn: Floats, real: Floats, trivial: Floats) -> tuple[Measure, Measure]:
    """From the judge's probabilities of synthetic, real and noise images."""
    order = np.random.default_rng(0).permutation(len(drawn))
    splits = min(10, len(drawn))
    ten = images.inception_scores(drawn[order], splits)
    half = 2.262 * float(ten.std(ddof=1)) / np.sqrt(splits) if splits > 1 else float("nan")
    one = jackknife(images.inception_score, drawn, low=1.0, high=drawn.shape[1])
    ceiling, floor = images.inception_score(real), images.inception_score(trivial)
    words = "Sure and varied predictions of a classifier of this domain: 1 to the number of classes"
    mean = Estimate.around(float(ten.mean()), half, 1.0, drawn.shape[1])
    return (
        fidelity_measure(
            "inception score, 10 splits", mean, Better.HIGHER, ceiling, floor, f"{words}; mean of ten parts."
        ),
        fidelity_measure(
            "inception score, 1 split", one, Better.HIGHER, ceiling, floor, f"{words}; all images at once."
        ),
    )


def _frechet(drawn: Floats, real: Floats, trivial: Floats, best: Floats | None) -> Measure:
    estimate = jackknife(images.frechet_distance, real, drawn, groups=5, low=0.0)
    return fidelity_measure(
        "Fréchet distance in classifier features",
        estimate,
        Better.LOWER,
        None if best is None else images.frechet_distance(real, best),
        images.frechet_distance(real, trivial),
        (
            "Distance of means and covariances of 128 features of the domain classifier; not "
            "comparable with FID."
        ),
    )


def _manifold(drawn: Floats, real: Floats, trivial: Floats, best: Floats | None) -> list[Measure]:
    rows = min(len(drawn), len(real), MOST_MANIFOLD)
    drawn, real = drawn[:rows], real[:rows]
    floor = images.manifold_scores(real, trivial[:rows])
    top = None if best is None else images.manifold_scores(real, best[:rows])
    thirds = zip(np.array_split(real, 3), np.array_split(drawn, 3), strict=True)
    parts = [images.manifold_scores(some_real, some_drawn) for some_real, some_drawn in thirds]
    value = images.manifold_scores(real, drawn)
    words = {
        "precision": "Share of synthetic images that lie among real ones in feature space.",
        "recall": "Share of real images that lie among synthetic ones in feature space.",
        "density": "Real neighbourhoods around a synthetic image, divided by k; above 1 is crowded.",
        "coverage": "Share of real images with a synthetic one in their neighbourhood.",
    }
    return [
        fidelity_measure(
            name,
            _third(getattr(value, name), [getattr(part, name) for part in parts]),
            Better.HIGHER,
            None if top is None else getattr(top, name),
            getattr(floor, name),
            words[name],
        )
        for name in words
    ]


def _third(value: float, parts: list[float]) -> Estimate:
    """The interval from the spread over thirds: a third has three times the variance of the whole."""
    half = 1.96 * float(np.std(parts, ddof=1)) / np.sqrt(len(parts))
    return Estimate.around(value, half, 0.0)


def _held_out(synthetic: Floats, real: Floats, seed: int) -> Floats:
    rows = min(len(synthetic), len(real)) // 2
    both = np.concatenate([real[:rows], synthetic[:rows]])
    labels = torch.as_tensor(np.repeat([1, 0], rows))
    # Three passes, however few images: a discriminator that learns them by heart is sure of everything.
    network = fit_logits(both, labels, 2, seed=seed, epochs=3, filters=16)
    return predict_probabilities(network, synthetic[rows : 2 * rows])[:, 1]


def _bytes(pixels: Floats) -> tuple[tuple[int, ...], ...]:
    grey = np.clip(np.round((pixels + 1) * 127.5), 0, 255).astype(int)
    return tuple(tuple(row) for row in grey.transpose(0, 2, 3, 1).reshape(len(grey), -1).tolist())


def _silent(what: str, share: float) -> None:
    del what, share
