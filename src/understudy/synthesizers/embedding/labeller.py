"""The teacher: a linear classifier of wavelet moduli, trained under privacy, that labels generated images.

Two quantities are published. First the sum of the standardised moduli r(x), whose norm is at most 1: sensitivity 1.
Then T noisy gradients of the cross-entropy over *all* records. The gradient of one record is the outer product of
its features f(x) and its error p - y, with norm |f|·|p - y|, clipped to the bound C; p depends on earlier noisy
gradients and on this record only. So each sum has sensitivity C, and the noise has standard deviation σ·C. There is no
sampling, hence no amplification to account for.

Momentum, the learning rate's schedule and the average of the last third of the iterates are post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.synthesizers.embedding.features import brightness
from understudy.synthesizers.embedding.wavelets import Wavelets

if TYPE_CHECKING:
    from understudy.door.noise import Noise
    from understudy.door.source import Rows
    from understudy.recipes.parts import Lessons, LinearTeacher

__all__ = ["Taught", "Teacher", "clipped_gradient_sum", "feature_sum", "standardised", "teach"]

_CHUNK = 2000
_CONSTANT = 0.3
"""The last feature, the same for all records, so that the classifier has an offset."""
_SPREAD = 0.05
"""Added to the spread of the moduli of one image, so that an empty image does not become pure contrast."""
_MARGIN = 1 + 1e-4
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
    shrink = (_MARGIN * norms.clamp(min=1.0)).reciprocal().to(vectors.dtype)
    return torch.where(norms.isfinite(), vectors * shrink, 0.0)


class Teacher(nn.Module):
    """A linear softmax classifier of encoded images.

    Args:
        part: the recipe's part; its contrast belongs to the classifier.
        shape: (channels, height, width).
        classes: how many.
    """

    mean: Tensor
    head: Tensor

    def __init__(self, part: LinearTeacher, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.wavelets = Wavelets(shape)
        self._contrast = part.contrast
        width = sum(self.wavelets.widths)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("head", torch.zeros(width + 1, classes))

    def features(self, standard: Tensor) -> Tensor:
        """Centred moduli of norm at most 1, and a constant."""
        near = _shortened((standard - self.mean) * self._contrast)
        return functional.pad(near, (0, 1), value=_CONSTANT)

    def of_moduli(self, moduli: tuple[Tensor, ...]) -> Tensor:
        """Scores of images whose wavelet moduli are known already."""
        return self.features(standardised(moduli)) @ self.head

    def forward(self, encoded: Tensor) -> Tensor:
        """Scores of encoded images, one column per class."""
        return self.of_moduli(self.wavelets(brightness(encoded)))


@torch.no_grad()
def teach(
    teacher: Teacher,
    part: LinearTeacher,
    rows: Rows,
    divisor: float,
    mean_noise: float,
    step_noise: float,
    noise: Noise,
) -> None:
    """Fill in the teacher from private rows, through the noisy mean and the noisy gradients only.

    Args:
        teacher: changed in place.
        part: its lessons and momentum.
        rows: PRIVATE records with labels.
        divisor: the public or noisy number of rows.
        mean_noise: σ of the feature mean.
        step_noise: σ of every gradient step.
        noise: where the noise comes from.
    """
    standard, labels = _standard_rows(teacher, rows)
    total = feature_sum(standard)
    noise.perturb([total], mean_noise, 1.0 / divisor)
    teacher.mean.copy_(total)
    taught, lessons = Taught.by(teacher, standard, labels), part.lessons
    del standard  # as large as what replaced it
    velocity, average, averaged = torch.zeros_like(teacher.head), torch.zeros_like(teacher.head), 0
    for step in range(lessons.steps):
        gradient = clipped_gradient_sum(taught, teacher.head, lessons.bound)
        noise.perturb([gradient], step_noise * lessons.bound, 1.0 / divisor)
        velocity.mul_(part.momentum).add_(gradient)
        teacher.head.sub_(velocity, alpha=_rate(lessons, step))
        if step >= lessons.steps * 2 // 3:
            average += teacher.head
            averaged += 1
    teacher.head.copy_(average / averaged)


def _rate(lessons: Lessons, step: int) -> float:
    """Constant for the first half, then linear to five percent."""
    done = step / lessons.steps
    return lessons.rate * (1.0 if done < 0.5 else 2 * (1 - done) + 0.05)


def _standard_rows(teacher: Teacher, rows: Rows) -> tuple[Tensor, Tensor]:
    standard = torch.empty(len(rows), sum(teacher.wavelets.widths))
    for start in range(0, len(rows), _CHUNK):
        chunk = torch.arange(start, min(start + _CHUNK, len(rows)))
        x, _ = rows.take(chunk, standard)
        standard[start : start + len(chunk)] = standardised(teacher.wavelets(brightness(x)))
    assert rows.labels is not None
    return standard, torch.as_tensor(rows.labels).to(torch.int64)


def feature_sum(standard: Tensor) -> Tensor:
    """PRIVATE: the sum of standardised moduli, in float64; sensitivity 1."""
    return standard.sum(dim=0, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Taught:
    """PRIVATE: what every step looks at.

    Args:
        features: one row per record: centred moduli of norm at most 1, and the constant.
        norms: of these rows, in float64.
        labels: the class of each record.
    """

    features: Tensor
    norms: Tensor
    labels: Tensor

    @classmethod
    def by(cls, teacher: Teacher, standard: Tensor, labels: Tensor) -> Taught:
        """From standardised moduli, with the mean that the teacher knows already."""
        features = torch.empty(len(standard), standard.shape[1] + 1)
        norms = torch.empty(len(standard), dtype=torch.float64)
        for start in range(0, len(standard), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            features[chunk] = teacher.features(standard[chunk])
            norms[chunk] = features[chunk].double().norm(dim=1)
        return cls(features, norms, labels)


def clipped_gradient_sum(taught: Taught, head: Tensor, bound: float) -> Tensor:
    """PRIVATE: the sum over records of clipped gradients of the cross-entropy, in float64; sensitivity `bound`.

    All of it is computed in float64. A sum of thousands of records in float32 is rounded by more than the margin
    of one record, and one record more can change how all others are rounded.

    Args:
        taught: the records.
        head: the classifier.
        bound: C.
    """
    total, wide = torch.zeros(head.shape, dtype=torch.float64), head.double()
    space = torch.empty(min(_CHUNK, len(taught.labels)), len(head), dtype=torch.float64)
    for start in range(0, len(taught.labels), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        labels = taught.labels[chunk]
        features = space[: len(labels)].copy_(taught.features[chunk])
        error = (features @ wide).softmax(dim=1)
        error -= functional.one_hot(labels, head.shape[1])
        norms = taught.norms[chunk] * error.norm(dim=1)
        shrink = bound / (_MARGIN * norms.clamp(min=bound))
        error = torch.where(norms.isfinite().unsqueeze(1), error * shrink.unsqueeze(1), 0.0)
        total.addmm_(features.T, error)
    return total
