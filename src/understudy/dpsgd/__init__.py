"""Clipped gradients at the price of ordinary ones, as queries for a door; knows nothing of GANs beyond their losses.

The public names are loaded on first use, so that the values (`clipping`, `objectives`, `conditioning`) can be
imported without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.dpsgd.batch import ClippedSum, CriticBatch
    from understudy.dpsgd.critics import Critic, Predictor
    from understudy.dpsgd.gradients import Path, clipped_sum, explain
    from understudy.dpsgd.plain import PlainGradients
    from understudy.dpsgd.postprocess import clamp_weights
    from understudy.dpsgd.step import NoisyGradients

__all__ = [
    "ClippedSum",
    "Critic",
    "CriticBatch",
    "NoisyGradients",
    "Path",
    "PlainGradients",
    "Predictor",
    "clamp_weights",
    "clipped_sum",
    "explain",
]

_HOME = {
    "ClippedSum": "batch",
    "Critic": "critics",
    "CriticBatch": "batch",
    "NoisyGradients": "step",
    "PlainGradients": "plain",
    "Predictor": "critics",
    "Path": "gradients",
    "clamp_weights": "postprocess",
    "clipped_sum": "gradients",
    "explain": "gradients",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
