"""Small critics and batches that the engine's tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from understudy.dpsgd.batch import CriticBatch
from understudy.dpsgd.critics import Critic

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """Every test starts from the same torch seed (model weights and data, never the noise)."""
    torch.manual_seed(0)


@pytest.fixture
def small_critic() -> Critic:
    """A 6-5-1 critic in float64."""
    return Critic(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))).double()


@pytest.fixture
def make_batch() -> Callable[..., CriticBatch]:
    """A function that makes a random batch of given row counts and record shape."""

    def make(
        real: int, fake: int, shape: tuple[int, ...] = (6,), scale: float = 1.0, classes: int | None = None
    ) -> CriticBatch:
        dtype = torch.float64
        labels = (lambda n: None) if classes is None else (lambda n: torch.randint(0, classes, (n,)))
        return CriticBatch(
            real=scale * torch.randn(real, *shape, dtype=dtype),
            real_labels=labels(real),
            fake=scale * torch.randn(fake, *shape, dtype=dtype),
            fake_labels=labels(fake),
            mixing=torch.rand(real, dtype=dtype),
        )

    return make
