"""The labeller: a linear classifier of wavelet moduli, trained under privacy, that labels generated images.

Two quantities are published (`queries`). First the sum of the standardised moduli r(x), whose norm is at most 1:
sensitivity 1. Then T noisy gradients of the cross-entropy over *all* records. The gradient of one record is the
outer product of its features f(x) and its error p - y, with norm |f|·|p - y|, clipped to the bound C; p depends on
earlier noisy gradients and on this record only. So each sum has sensitivity C, and the noise has standard deviation
σ·C. There is no sampling, hence no amplification to account for.

Momentum, the learning rate's schedule and the average of the last third of the iterates are post-processing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.synthesizers.embedding.features import brightness
from understudy.synthesizers.embedding.recipe import FEATURE_MEAN, LABELLER
from understudy.synthesizers.embedding.wavelets import Wavelets

if TYPE_CHECKING:
    from understudy.door.door import Door
    from understudy.synthesizers.embedding.recipe import Lessons, LinearLabeller

__all__ = ["CONSTANT", "MARGIN", "Labeller", "standardised", "train_labeller"]

CONSTANT = 0.3
"""The last feature, the same for all records, so that the classifier has an offset."""
_SPREAD = 0.05
"""Added to the spread of the moduli of one image, so that an empty image does not become pure contrast."""
MARGIN = 1 + 1e-4
"""Norms are kept this much below their bounds, which is more than the rounding of one record to float32 can err."""


def standardised(moduli: tuple[Tensor, ...]) -> Tensor:
    """The moduli of each image, every order centred and scaled by its own spread; the norm is below 1."""
    orders = [
        (order - order.mean(dim=1, keepdim=True)) / ((_spread(order) + _SPREAD) * order.shape[1] ** 0.5)
        for order in moduli
    ]
    return _shortened(torch.cat(orders, dim=1) / len(orders) ** 0.5)


def _spread(order: Tensor) -> Tensor:
    """The standard deviation within each row, with a derivative also where all entries are equal."""
    return (order.var(dim=1, keepdim=True, correction=0) + 1e-12).sqrt()


def _shortened(vectors: Tensor) -> Tensor:
    """Vectors of norm at most 1 / margin, and zero instead of what is not finite."""
    norms = vectors.double().norm(dim=1, keepdim=True)
    shrink = (MARGIN * norms.clamp(min=1.0)).reciprocal().to(vectors.dtype)
    return torch.where(norms.isfinite(), vectors * shrink, 0.0)


class Labeller(nn.Module):
    """A linear softmax classifier of encoded images.

    Args:
        part: the recipe's part; its contrast belongs to the classifier.
        shape: (channels, height, width).
        classes: how many.
    """

    mean: Tensor
    head: Tensor

    def __init__(self, part: LinearLabeller, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.wavelets = Wavelets(shape)
        self._contrast = part.contrast
        width = sum(self.wavelets.widths)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("head", torch.zeros(width + 1, classes))

    def features(self, standard: Tensor) -> Tensor:
        """Centred moduli of norm at most 1, and a constant."""
        near = _shortened((standard - self.mean) * self._contrast)
        return functional.pad(near, (0, 1), value=CONSTANT)

    def of_moduli(self, moduli: tuple[Tensor, ...]) -> Tensor:
        """Scores of images whose wavelet moduli are known already."""
        return self.features(standardised(moduli)) @ self.head

    def forward(self, encoded: Tensor) -> Tensor:
        """Scores of encoded images, one column per class."""
        return self.of_moduli(self.wavelets(brightness(encoded)))


@torch.no_grad()
def train_labeller(labeller: Labeller, part: LinearLabeller, door: Door, count: float) -> None:
    """Fill in the labeller through the noisy mean of its features and noisy gradients.

    Args:
        labeller: changed in place.
        part: its lessons and momentum.
        door: to images with labels.
        count: the public or noisy number of images.
    """
    from understudy.synthesizers.embedding import queries

    standard = door.derived(partial(queries.standard_features, labeller))
    mean = standard.publish(FEATURE_MEAN, queries.FeatureSum(len(labeller.mean))).value / count
    labeller.mean.copy_(mean)
    features = standard.derived(partial(queries.centred_features, labeller))
    del standard  # as large as what replaced it
    lessons, averaged = part.lessons, 0
    velocity, average = torch.zeros_like(labeller.head), torch.zeros_like(labeller.head)
    for step in range(lessons.steps):
        asked = queries.LabellerGradient(labeller.head, lessons.bound)
        gradient = features.publish(LABELLER, asked).value / count
        velocity.mul_(part.momentum).add_(gradient)
        labeller.head.sub_(velocity, alpha=_rate(lessons, step))
        if step >= lessons.steps * 2 // 3:
            average += labeller.head
            averaged += 1
    labeller.head.copy_(average / averaged)


def _rate(lessons: Lessons, step: int) -> float:
    """Constant for the first half, then linear to five percent."""
    done = step / lessons.steps
    return lessons.rate * (1.0 if done < 0.5 else 2 * (1 - done) + 0.05)
