"""PRIVATE: what is asked of images: sums of embeddings, of features by group, and the labeller's clipped gradients.

Images without labels belong to groups by centres that were published before (`groups`): each to all of them, by parts
that follow from it and from the published numbers alone and sum to one. A record that is shared out between the rows of
a table moves it by no more than one that lies in one row. Parts are smooth in the record: were each image in its
nearest group only, the rounding of others, which changes when a record comes or goes, could move some between groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from understudy.synthesizers.embedding.features import brightness
from understudy.synthesizers.embedding.labeller import MARGIN, standardised
from understudy.synthesizers.shared.queries import of_known_class

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.door.query import Batch
    from understudy.synthesizers.embedding.features import Embedding
    from understudy.synthesizers.embedding.labeller import Labeller

__all__ = [
    "ClassSums",
    "FeatureSum",
    "GroupSums",
    "LabellerGradient",
    "centred_features",
    "random_features",
    "standard_features",
]

_SLACK = 1 + 1e-9
"""Covers the rounding of a norm in float64."""


class ClassSums:
    """The sum of the embedding of each class's images.

    A record's features are shortened to a norm just below 1 in float64, and count as zero if they are not finite, so
    the bound does not rest on the features being well behaved. They lie in the row of one class, or are shared out
    between groups by parts whose squares sum to at most one: sensitivity 1.

    Args:
        embedding: the features φ.
        classes: how many.
        grouping: tells the parts of groups in images without labels.
    """

    sensitivity: ClassVar[float] = 1.0

    def __init__(self, embedding: Embedding, classes: int, grouping: Labeller | None = None) -> None:
        self._embedding, self._classes, self._grouping = embedding, classes, grouping
        self.rows_at_once = embedding.wavelets.images_at_once

    def zero(self) -> list[Tensor]:
        """No images."""
        return [torch.zeros(self._classes, self._embedding.width, dtype=torch.float64)]

    @torch.no_grad()
    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the features of a batch."""
        features = _of_norm_one(self._embedding(batch.x).double())
        if self._grouping is not None:
            moduli = standardised(self._grouping.wavelets(brightness(batch.x)))
            sums[0].addmm_(_parts(self._grouping.features(moduli), self._grouping.head).T, features)
            return
        assert batch.labels is not None
        known = of_known_class(batch.labels, self._classes)
        sums[0].index_add_(0, batch.labels[known], features[known])


def _of_norm_one(features: Tensor) -> Tensor:
    norms = features.norm(dim=1, keepdim=True)
    return torch.where(norms.isfinite() & (norms > 0), features / (norms * MARGIN), 0.0)


def random_features(embedding: Embedding, batch: Batch) -> Tensor:
    """PRIVATE: the features of each image by which a critic tells it from fakes."""
    with torch.no_grad():
        return torch.cat(
            [embedding(part) for part in torch.split(batch.x, embedding.wavelets.images_at_once)]
        )


def standard_features(labeller: Labeller, batch: Batch) -> Tensor:
    """PRIVATE: standardised wavelet moduli of each image; the norm is below 1."""
    with torch.no_grad():
        parts = torch.split(batch.x, labeller.wavelets.images_at_once)
        return torch.cat([standardised(labeller.wavelets(brightness(part))) for part in parts])


def centred_features(labeller: Labeller, batch: Batch) -> Tensor:
    """PRIVATE: what the labeller learns from: centred moduli of norm at most 1, and a constant."""
    with torch.no_grad():
        return labeller.features(batch.x)


class FeatureSum:
    """The sum of standardised moduli, behind a door to them: each is shortened to a norm of 1, the sensitivity.

    The moduli of `standard_features` are shorter already and stay as they are.

    Args:
        width: how many moduli.
    """

    rows_at_once: ClassVar[int] = 2000
    sensitivity: ClassVar[float] = 1.0

    def __init__(self, width: int) -> None:
        self._width = width

    def zero(self) -> list[Tensor]:
        """No images."""
        return [torch.zeros(self._width, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add a batch."""
        sums[0] += _shortened(batch.x.double(), 1.0).sum(dim=0)


def _shortened(features: Tensor, bound: float) -> Tensor:
    """Features in float64 of at most this norm, and zero instead of what is not finite."""
    norms = features.norm(dim=1, keepdim=True)
    short = features / (norms * _SLACK / bound).clamp(min=1.0)
    return torch.where(norms.isfinite(), short, 0.0)


class GroupSums:
    """The sum of the features of each group, behind a door to them.

    A record's features are shortened to the bound in float64, and shared out between the groups by parts that sum to
    one. The last feature is the same for all records, so its sums count them.

    Args:
        head: for each feature and group a weight; the softmax of their product with the features gives the parts.
        bound: the largest norm of a record's features, which is the sensitivity.
    """

    rows_at_once: ClassVar[int] = 2000

    def __init__(self, head: Tensor, bound: float) -> None:
        self._head, self.sensitivity = head, bound

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros(self._head.shape[1], self._head.shape[0], dtype=torch.float64)]

    @torch.no_grad()
    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add a batch."""
        sums[0].addmm_(_parts(batch.x, self._head).T, _shortened(batch.x.double(), self.sensitivity))


def _parts(features: Tensor, head: Tensor) -> Tensor:
    """How much of each record belongs to each group, in float64; nothing of what is no number."""
    return (features.double() @ head.double()).softmax(dim=1).nan_to_num(nan=0.0)


class LabellerGradient:
    """The sum of clipped gradients of the labeller's cross-entropy, behind a door to its features.

    The gradient of one record is the outer product of its features f and its error p - y, with norm |f|·|p - y|,
    clipped to the bound; p depends on earlier noisy gradients and on this record only. All of it is computed in
    float64: a sum of thousands of records in float32 is rounded by more than the margin of one record, and one record
    more can change how all others are rounded. Of a person with r records the mean gradient is clipped as one; its
    squared norm is Σ (f_i·f_j)(e_i·e_j) / r² over pairs of records, e being the errors.

    Args:
        head: the classifier so far.
        bound: C, the sensitivity.
    """

    rows_at_once: ClassVar[int] = 2000

    def __init__(self, head: Tensor, bound: float) -> None:
        self._head = head.double()
        self.sensitivity = bound

    def zero(self) -> list[Tensor]:
        """No records."""
        return [torch.zeros_like(self._head)]

    @torch.no_grad()
    def add(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the clipped gradients of a batch."""
        features, error = self._factors(batch)
        norms = features.norm(dim=1) * error.norm(dim=1)
        sums[0].addmm_(features.T, self._clipped(error, norms))

    @torch.no_grad()
    def add_persons(self, sums: list[Tensor], batch: Batch) -> None:
        """PRIVATE: add the clipped gradients of the persons of a batch."""
        assert batch.persons is not None
        persons, sizes = batch.persons, torch.bincount(batch.persons)
        features, error = self._factors(batch)
        error /= sizes[persons].unsqueeze(1)
        squares = torch.zeros(len(sizes), dtype=torch.float64)
        for apart in range(int(sizes.max()) if len(sizes) else 0):
            one, other = slice(apart, None), slice(0, len(persons) - apart)
            products = (features[one] * features[other]).sum(1) * (error[one] * error[other]).sum(1)
            products = torch.where(persons[one] == persons[other], products, 0.0)
            squares.index_add_(0, persons[one], products if apart == 0 else 2 * products)
        norms = squares.clamp(min=0.0).sqrt()
        sums[0].addmm_(features.T, self._clipped(error, norms[persons]))

    def _factors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """PRIVATE: the features of each record, and its error; both are zero if a feature is no number.

        The error is zero if the class of the record is none.
        """
        assert batch.labels is not None
        features = batch.x.double()
        finite = features.isfinite().all(dim=1)
        features = torch.where(finite.unsqueeze(1), features, 0.0)
        error = (features @ self._head).softmax(dim=1)
        error -= (batch.labels[:, None] == torch.arange(self._head.shape[1])).double()
        known = of_known_class(batch.labels, self._head.shape[1]) & finite
        return features, torch.where(known.unsqueeze(1), error, 0.0)

    def _clipped(self, error: Tensor, norms: Tensor) -> Tensor:
        """The errors, shrunk so that gradients of these norms are within the bound; zero where a norm is not finite."""
        shrink = self.sensitivity / (MARGIN * norms.clamp(min=self.sensitivity))
        return torch.where(norms.isfinite().unsqueeze(1), error * shrink.unsqueeze(1), 0.0)
