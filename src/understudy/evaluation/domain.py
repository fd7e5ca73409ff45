"""The domain classifier: the judge of image measures, trained on real images of the data's own domain.

It is trained on private images, so whatever it says about synthetic ones is internal. Training takes a
minute or two; the result may be kept in a cache folder under a name made of the hash of everything it
depends on.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.evaluation.network import SmallCNN, fit_cnn, predict_features, predict_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from understudy.evaluation.utility import Labelled

__all__ = ["DomainClassifier", "domain_classifier"]

Floats = npt.NDArray[np.floating[Any]]
FILTERS, EPOCHS, SHIFT = 24, 4, 1


@dataclass(frozen=True, eq=False)
class DomainClassifier:
    """A trained network with the two views of an image that the measures need."""

    network: SmallCNN

    def probabilities(self, images: Floats) -> Floats:
        """Class probabilities, (rows, classes)."""
        return predict_probabilities(self.network, images)

    def features(self, images: Floats) -> Floats:
        """The 128 features before the last layer, (rows, 128)."""
        return predict_features(self.network, images)


def domain_classifier(
    reference: Labelled,
    *,
    seed: int = 0,
    cache: Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> DomainClassifier:
    """Train on real images, or read the same training's result from the cache.

    Args:
        reference: real labelled images.
        seed: of the training.
        cache: a folder for weights, which depend on private images: keep it as private as they are.
        progress: called with the finished share.
    """
    from safetensors.torch import load_file, save_file

    path = None if cache is None else cache / f"domain-{_fingerprint(reference, seed)}.safetensors"
    if path is not None and path.is_file():
        network = SmallCNN(*_shape(reference), reference.classes, FILTERS)
        network.load_state_dict(load_file(path))
        network.eval()
        return DomainClassifier(network)
    network = fit_cnn(
        reference.features,
        reference.labels,
        reference.classes,
        seed=seed,
        epochs=EPOCHS,
        filters=FILTERS,
        shift=SHIFT,
        progress=progress,
    )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        save_file(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
    return DomainClassifier(network)


def _shape(reference: Labelled) -> tuple[int, int, int]:
    channels, height, width = reference.features.shape[1:]
    return channels, height, width


def _fingerprint(reference: Labelled, seed: int) -> str:
    digest = hashlib.sha256(f"{FILTERS} {EPOCHS} {SHIFT} {seed} {reference.classes}".encode())
    digest.update(str(reference.features.shape).encode())
    digest.update(np.ascontiguousarray(reference.features, dtype=np.float32).tobytes())
    digest.update(np.ascontiguousarray(reference.labels, dtype=np.int64).tobytes())
    return digest.hexdigest()[:32]
