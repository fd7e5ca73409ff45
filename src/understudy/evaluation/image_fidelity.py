"""All image measures of synthetic images against real ones, gathered with ceilings and floors.

Needs a domain classifier when there are labels; without labels principal components of pixels take its place. The
independent discriminator of the dp-gan paper needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.errors import TooFewRows
from understudy.evaluation import images
from understudy.evaluation.intervals import Estimate, Progress, jackknife
from understudy.evaluation.keeping import kept
from understudy.evaluation.neighbours import nearest
from understudy.evaluation.network import fit_until_worse, predict_probabilities
from understudy.evaluation.result import Better, Measure, Pictures, fidelity_measure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.evaluation.domain import DomainClassifier

__all__ = ["discriminator_score", "image_fidelity", "neighbour_pictures"]

Floats = npt.NDArray[np.floating[Any]]
MOST_MANIFOLD = 3_000
MOST_REFERENCE = 20_000
LEAST_IMAGES = 18
LEAST_JUDGED, MOST_JUDGED = 300, 6_000


def image_fidelity(
    synthetic: Floats,
    test: Floats,
    judge: DomainClassifier | None,
    *,
    reference: Floats | None = None,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """Inception scores, Fréchet distance and manifold scores of (rows, channels, height, width) images.

    The ceiling comes from real reference images (of the test images for the inception score), the floor
    from images of uniform noise. Without a judge there is no inception score, and features are the principal
    components of the test images' pixels.

    Raises:
        TooFewRows: there are fewer than 18 images on a side.
    """
    if min(len(synthetic), len(test)) < LEAST_IMAGES:
        raise TooFewRows(f"it takes {LEAST_IMAGES} real and synthetic images.")
    noise = _noise(synthetic[:2_000])
    tell, measures = on_progress or _silent, list[Measure]()
    if judge is None:
        features, kind = _components(test), "pixel components"
        drawn, real, trivial = (features(side) for side in (synthetic, test, noise))
    else:
        features, kind = judge.features, "classifier features"
        sides = [judge.both(side) for side in (synthetic, test, noise)]
        measures += _inception(*(probabilities for probabilities, _ in sides))
        drawn, real, trivial = (found for _, found in sides)
    tell("inception score", 0.4)
    best = None if reference is None else features(reference[: min(len(synthetic), MOST_REFERENCE)])
    measures.append(_frechet(drawn, real, trivial, best, kind))
    tell("Fréchet distance", 0.7)
    measures += _manifold(drawn, real, trivial, best)
    tell("precision and recall", 1.0)
    return tuple(measures)


def discriminator_score(
    synthetic: Floats,
    test: Floats,
    *,
    reference: Floats | None = None,
    seed: int = 0,
    cache: Path | None = None,
) -> Measure:
    """The dp-gan paper's Jensen-Shannon score by an independent discriminator.

    A new CNN learns real against synthetic on a third of the images until it gets no better on another third, and is
    asked about the synthetic images of the last. Images of noise, black ones and real ones upside down are measured
    in the same way: the floor is the least of the three, and whoever does not stay below it made nothing that a
    discriminator of this size and these images could take for real. The ceiling is the same with real reference
    images in the place of synthetic ones.

    Raises:
        TooFewRows: there are fewer than 300 images on a side, from which no discriminator learns to tell anything.
    """
    if min(len(synthetic), len(test)) < LEAST_JUDGED:
        raise TooFewRows(f"it takes {LEAST_JUDGED} real and synthetic images.")
    chance = np.random.default_rng(seed)
    synthetic, real = (side[chance.permutation(len(side))[:MOST_JUDGED]] for side in (synthetic, test))
    estimate = jackknife(images.jensen_shannon_score, _held_out(synthetic, real, seed), low=0.0)

    def score(stand_in: Floats) -> float:
        return images.jensen_shannon_score(_held_out(stand_in, real, seed))

    def measured() -> dict[str, npt.NDArray[Any]]:
        upside_down = np.ascontiguousarray(real[:, :, ::-1])
        stand_ins = {"noise": _noise(real), "black": np.full_like(real, -1), "upside down": upside_down}
        return {name: np.array(score(one)) for name, one in stand_ins.items()}

    floors = {name: float(one) for name, one in kept(cache, "discriminator", measured, real, seed).items()}
    best = None if reference is None or len(reference) < LEAST_JUDGED else score(reference)
    shown = ", ".join(f"{name} {floor:.3g}" for name, floor in floors.items())
    words = (
        "How sure an independent discriminator is about the origin of synthetic images: 0 is not at all. "
        f"Images of no use score: {shown}; the floor is the least of these."
    )
    return fidelity_measure("Jensen-Shannon score", estimate, Better.LOWER, best, min(floors.values()), words)


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


def _frechet(drawn: Floats, real: Floats, trivial: Floats, best: Floats | None, kind: str) -> Measure:
    estimate = jackknife(images.frechet_distance, real, drawn, groups=5, low=0.0)
    return fidelity_measure(
        f"Fréchet distance in {kind}",
        estimate,
        Better.LOWER,
        None if best is None else images.frechet_distance(real, best),
        images.frechet_distance(real, trivial),
        f"Distance of means and covariances of {real.shape[1]} {kind}; not comparable with FID.",
    )


def _manifold(drawn: Floats, real: Floats, trivial: Floats, best: Floats | None) -> list[Measure]:
    """Scores that a generator of one good image cannot have: being among real images counts only with variety."""
    rows = min(len(drawn), len(real), MOST_MANIFOLD)
    drawn, real = drawn[:rows], real[:rows]
    floor = images.manifold_scores(real, trivial[:rows])
    top = None if best is None or len(best) < LEAST_IMAGES else images.manifold_scores(real, best[:rows])
    thirds = zip(np.array_split(real, 3), np.array_split(drawn, 3), strict=True)
    parts = [images.manifold_scores(some_real, some_drawn) for some_real, some_drawn in thirds]
    value = images.manifold_scores(real, drawn)
    words = {
        "precision and recall": (
            f"Harmonic mean of the share of synthetic images among real ones ({value.precision:.3g}) and of real "
            f"images among synthetic ones ({value.recall:.3g}), in feature space."
        ),
        "recall": "Share of real images that lie among synthetic ones in feature space.",
        "density and coverage": (
            f"Harmonic mean of the real neighbourhoods around a synthetic image over k ({value.density:.3g}, cut at "
            f"1) and of the share of real images with a synthetic one near ({value.coverage:.3g})."
        ),
        "coverage": "Share of real images with a synthetic one in their neighbourhood.",
    }
    return [
        fidelity_measure(
            name,
            _third(value.score(name), [part.score(name) for part in parts]),
            Better.HIGHER,
            None if top is None else top.score(name),
            floor.score(name),
            explanation,
        )
        for name, explanation in words.items()
    ]


def _third(value: float, parts: list[float]) -> Estimate:
    """The interval from the spread over thirds: a third has three times the variance of the whole."""
    half = 1.96 * float(np.std(parts, ddof=1)) / np.sqrt(len(parts))
    return Estimate.around(value, half, 0.0)


def _held_out(synthetic: Floats, real: Floats, seed: int) -> Floats:
    """The chance of being real that the discriminator gives to synthetic images of which it saw none."""
    rows = min(len(synthetic), len(real), MOST_JUDGED) // 3
    parts = [
        np.concatenate([real[start : start + rows], synthetic[start : start + rows]]) for start in (0, rows)
    ]
    labels = torch.as_tensor(np.repeat([1, 0], rows))
    network = fit_until_worse(parts[0], labels, parts[1], labels, 2, seed=seed)
    return predict_probabilities(network, synthetic[2 * rows : 3 * rows])[:, 1]


def _components(real: Floats, most: int = 64) -> Callable[[Floats], Floats]:
    """A projection of images onto the first principal components of real ones."""
    flat = real[:MOST_MANIFOLD].reshape(min(len(real), MOST_MANIFOLD), -1).astype(np.float64)
    centre = flat.mean(axis=0)
    basis = np.linalg.svd(flat - centre, full_matrices=False)[2][: min(most, len(flat) // 4)].T

    def project(images: Floats) -> Floats:
        found: Floats = (images.reshape(len(images), -1) - centre) @ basis
        return found

    return project


def _noise(like: Floats) -> Floats:
    return np.random.default_rng(0).uniform(-1, 1, like.shape).astype(np.float32)


def _bytes(pixels: Floats) -> tuple[tuple[int, ...], ...]:
    grey = np.clip(np.round((pixels + 1) * 127.5), 0, 255).astype(int)
    return tuple(tuple(row) for row in grey.transpose(0, 2, 3, 1).reshape(len(grey), -1).tolist())


def _silent(what: str, share: float) -> None:
    del what, share
