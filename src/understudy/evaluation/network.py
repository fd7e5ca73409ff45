"""The small convolutional network of all image measures.

Two 5×5 convolutions of stride 2 with batch normalisation and ReLU (`width`, then 2·`width` channels), one
hidden layer of 128 units, dropout, and a linear layer. Adam with a one-cycle learning rate, batches of 256.
At width 16 it is the classifier that train-on-synthetic-test-on-real trains (about 0.2 M weights); at width
24, trained with random shifts of one pixel, it is the domain classifier whose 128 features carry the Fréchet
distance, precision and recall. Everything random comes from a generator of the training's own, so that several
trainings can run in threads side by side and each gives what it gives alone.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from understudy.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SmallCNN",
    "fit_cnn",
    "fit_until_worse",
    "predict_both",
    "predict_features",
    "predict_probabilities",
]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
FEATURES = 128
BATCH = 256
LEAST_STEPS = 60
DROPOUT = 0.2
_MAKING = threading.Lock()
"""Initial weights come from torch's global generator, which one thread at a time may seed."""


class SmallCNN(nn.Module):
    """Two strided convolutions, 128 features, one linear layer.

    Args:
        channels: of the images.
        height: of the images in pixels, at least 8.
        width: of the images in pixels, at least 8.
        classes: number of outputs.
        filters: channels after the first convolution.
    """

    def __init__(self, channels: int, height: int, width: int, classes: int, filters: int = 16) -> None:
        super().__init__()
        if min(height, width) < 8:
            raise EvaluationError(
                f"images must be at least 8×8 pixels for the evaluation CNN, got {height}×{width}."
            )
        cells = -(-height // 4) * -(-width // 4)
        self.body = nn.Sequential(
            nn.Conv2d(channels, filters, 5, stride=2, padding=2),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.Conv2d(filters, 2 * filters, 5, stride=2, padding=2),
            nn.BatchNorm2d(2 * filters),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * filters * cells, FEATURES),
            nn.BatchNorm1d(FEATURES),
            nn.ReLU(),
        )
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, images: torch.Tensor, dropout: torch.Generator | None = None) -> torch.Tensor:
        """Logits; with a generator, a fifth of the features is dropped at random, for training."""
        features: torch.Tensor = self.body(images)
        if dropout is not None:
            kept = torch.rand(features.shape, generator=dropout) >= DROPOUT
            features = features * kept / (1 - DROPOUT)
        logits: torch.Tensor = self.head(features)
        return logits


def fit_cnn(
    images: Floats,
    labels: Ints,
    classes: int,
    *,
    seed: int,
    epochs: int = 3,
    filters: int = 16,
    shift: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> SmallCNN:
    """Train on (rows, channels, height, width) images with values in [-1, 1].

    Args:
        images: the training images.
        labels: their classes, 0 to classes - 1.
        classes: number of classes.
        seed: of initial weights, order and shifts.
        epochs: passes over the images; more (at most 60) if that is fewer than 60 steps.
        filters: channels after the first convolution.
        shift: largest random shift in pixels, 0 for none.
        on_progress: called with the finished share after each pass.
    """
    targets = torch.as_tensor(np.ascontiguousarray(labels, dtype=np.int64))
    epochs = max(epochs, min(60, LEAST_STEPS * BATCH // max(1, len(labels))))
    data, chance = _tensor(images), torch.Generator().manual_seed(seed)
    model = _made(data.shape, classes, filters, seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    steps = max(1, epochs * -(-len(data) // BATCH))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
    for epoch in range(epochs):
        _pass(model, optimiser, data, targets, chance, shift, after=schedule.step)
        if on_progress:
            on_progress((epoch + 1) / epochs)
    return model.eval()


def fit_until_worse(
    images: Floats,
    targets: torch.Tensor,
    held_images: Floats,
    held_targets: torch.Tensor,
    classes: int,
    *,
    seed: int,
    patience: int = 3,
    most_passes: int = 40,
) -> SmallCNN:
    """Train until so many passes in a row do not lower the loss on held-out images; returned is the best state."""
    data, chance = _tensor(images), torch.Generator().manual_seed(seed)
    model = _made(data.shape, classes, 16, seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, state, waited = np.inf, copy.deepcopy(model.state_dict()), 0
    for _ in range(most_passes):
        _pass(model, optimiser, data, targets, chance, 0)
        model.eval()
        chances = torch.as_tensor(predict_probabilities(model, held_images)).clamp_min(1e-12)
        loss = float(nn.functional.nll_loss(chances.log(), held_targets))
        waited += 1
        if loss < best:
            best, state, waited = loss, copy.deepcopy(model.state_dict()), 0
        if waited == patience:
            break
    model.load_state_dict(state)
    return model.eval()


def _pass(
    model: SmallCNN,
    optimiser: torch.optim.Optimizer,
    data: torch.Tensor,
    targets: torch.Tensor,
    chance: torch.Generator,
    shift: int,
    after: Callable[[], None] = lambda: None,
) -> None:
    """One pass over the images in a new order."""
    model.train()
    for rows in torch.split(torch.randperm(len(data), generator=chance), BATCH):
        if len(rows) > 1:
            logits = model(_shifted(data[rows], shift, chance), chance)
            optimiser.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(logits, targets[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        after()


def _made(shape: torch.Size, outputs: int, filters: int, seed: int) -> SmallCNN:
    channels, height, width = shape[1:]
    with _MAKING, torch.random.fork_rng():
        torch.manual_seed(seed)
        return SmallCNN(channels, height, width, outputs, filters)


def predict_probabilities(model: SmallCNN, images: Floats) -> Floats:
    """Class probabilities, (rows, classes)."""
    return _in_chunks(lambda chunk: torch.softmax(model(chunk).double(), dim=1), images)


def predict_both(model: SmallCNN, images: Floats) -> tuple[Floats, Floats]:
    """Class probabilities and features, from one pass over the images."""
    features = predict_features(model, images)
    with torch.no_grad():
        logits = model.head(torch.as_tensor(features).float())
    return torch.softmax(logits.double(), dim=1).numpy(), features


def predict_features(model: SmallCNN, images: Floats) -> Floats:
    """The 128 features before the last layer, (rows, 128)."""
    return _in_chunks(lambda chunk: model.body(chunk).double(), images)


def _in_chunks(function: Callable[[torch.Tensor], torch.Tensor], images: Floats) -> Floats:
    with torch.no_grad():
        parts = [function(chunk).numpy() for chunk in torch.split(_tensor(images), 1000)]
    return np.concatenate(parts)


def _tensor(images: Floats) -> torch.Tensor:
    if images.ndim != 4:
        raise EvaluationError(f"images must be (rows, channels, height, width), got shape {images.shape}.")
    return torch.as_tensor(np.ascontiguousarray(images, dtype=np.float32)).contiguous(
        memory_format=torch.channels_last
    )


def _shifted(images: torch.Tensor, limit: int, chance: torch.Generator) -> torch.Tensor:
    if limit == 0:
        return images
    down, right = (int(torch.randint(-limit, limit + 1, (), generator=chance).item()) for _ in range(2))
    return torch.roll(images, (down, right), dims=(2, 3))
