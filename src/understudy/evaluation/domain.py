"""The domain classifier: the judge of image measures, trained on real images of the data's own domain.

It is trained on private images, so whatever it says about synthetic ones is internal. Training takes a
minute or two; the result may be kept in a cache folder under a name made of the hash of everything it
depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.evaluation.keeping import kept
from understudy.evaluation.network import (
    SmallCNN,
    fit_cnn,
    predict_both,
    predict_features,
    predict_probabilities,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.evaluation.utility import Labelled

__all__ = ["DomainClassifier", "domain_classifier"]

Floats = npt.NDArray[np.floating[Any]]
FILTERS, EPOCHS, SHIFT = 24, 4, 1
VERSION = 2
"""Raised when the same numbers would train another network, so that older files are left alone."""


@dataclass(frozen=True, eq=False)
class DomainClassifier:
    """A trained network with the two views of an image that the measures need."""

    network: SmallCNN

    def probabilities(self, images: Floats) -> Floats:
        """Class probabilities, (rows, classes)."""
        return predict_probabilities(self.network, images)

    def both(self, images: Floats) -> tuple[Floats, Floats]:
        """Class probabilities and features, for the price of one."""
        return predict_both(self.network, images)

    def features(self, images: Floats) -> Floats:
        """The 128 features before the last layer, (rows, 128)."""
        return predict_features(self.network, images)


def domain_classifier(
    reference: Labelled,
    *,
    seed: int = 0,
    cache: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> DomainClassifier:
    """Train on real images, or read the same training's result from the cache.

    Args:
        reference: real labelled images.
        seed: of the training.
        cache: a folder for weights, which depend on private images: keep it as private as they are.
        on_progress: called with the finished share.
    """
    network = SmallCNN(*_shape(reference), reference.classes, FILTERS)

    def trained() -> dict[str, npt.NDArray[Any]]:
        made = fit_cnn(
            reference.features,
            reference.labels,
            reference.classes,
            seed=seed,
            epochs=EPOCHS,
            filters=FILTERS,
            shift=SHIFT,
            on_progress=on_progress,
        )
        return {name: tensor.numpy() for name, tensor in made.state_dict().items()}

    settings = (VERSION, FILTERS, EPOCHS, SHIFT, seed, reference.classes)
    state = kept(cache, "domain", trained, *settings, reference.features, reference.labels)
    network.load_state_dict({name: torch.as_tensor(array) for name, array in state.items()})
    network.eval()
    return DomainClassifier(network)


def _shape(reference: Labelled) -> tuple[int, int, int]:
    channels, height, width = reference.features.shape[1:]
    return channels, height, width
