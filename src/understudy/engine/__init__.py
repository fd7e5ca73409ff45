"""Exact private steps at the price of ordinary ones; knows nothing of GANs beyond their losses.

The public names are loaded on first use, so that the values (`clipping`, `objectives`, `conditioning`) can be
imported without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.engine.batch import ClippedSum, CriticBatch
    from understudy.engine.critics import Critic
    from understudy.engine.gradients import Path, clipped_sum, explain
    from understudy.engine.mechanism import PrivateStep
    from understudy.engine.noise import Noise, SecureNoise, SeededNoise
    from understudy.engine.nonprivate import NonPrivateStep
    from understudy.engine.postprocess import MovingAverage, clamp_weights, spectral_normalise
    from understudy.engine.sampling import Rows, poisson_indices

__all__ = [
    "ClippedSum",
    "Critic",
    "CriticBatch",
    "MovingAverage",
    "Noise",
    "NonPrivateStep",
    "Path",
    "PrivateStep",
    "Rows",
    "SecureNoise",
    "SeededNoise",
    "clamp_weights",
    "clipped_sum",
    "explain",
    "poisson_indices",
    "spectral_normalise",
]

_HOME = {
    "ClippedSum": "batch",
    "Critic": "critics",
    "CriticBatch": "batch",
    "MovingAverage": "postprocess",
    "Noise": "noise",
    "NonPrivateStep": "nonprivate",
    "Path": "gradients",
    "PrivateStep": "mechanism",
    "Rows": "sampling",
    "SecureNoise": "noise",
    "SeededNoise": "noise",
    "clamp_weights": "postprocess",
    "clipped_sum": "gradients",
    "explain": "gradients",
    "poisson_indices": "sampling",
    "spectral_normalise": "postprocess",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
