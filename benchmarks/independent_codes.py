"""The baseline of code sets: noisy prevalences, and independent coins.

The whole budget goes to the counts of codes. It is a strong baseline: how many codes 99 % of the records have is told
to it for free, longer records take part with as many of their codes, drawn at random, and counts below two standard
deviations of the noise are taken for zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.privacy.calibration import noise_for
from understudy.privacy.mechanisms import Charge, GaussianRelease

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from understudy.privacy.budget import Budget

__all__ = ["independent_codes"]

_LOUD = 2.0


def independent_codes(real: NDArray[np.bool_], budget: Budget, drawn: int) -> NDArray[np.bool_]:
    """Synthetic records in which each code occurs by a coin of its own.

    Args:
        real: which record has which code.
        budget: of the counts.
        drawn: how many records are made.
    """
    source = np.random.default_rng()
    kept = max(1, int(np.quantile(real.sum(axis=1), 0.99)))
    sigma = noise_for(lambda value: (Charge("code counts", GaussianRelease(value)),), budget)
    noise = sigma * np.sqrt(kept)
    counts = _shortened(real, kept, source).sum(axis=0) + source.normal(0, noise, real.shape[1])
    chances = np.where(counts >= _LOUD * noise, counts / len(real), 0.0)
    made: NDArray[np.bool_] = source.random((drawn, real.shape[1])) < chances
    return made


def _shortened(real: NDArray[np.bool_], kept: int, source: np.random.Generator) -> NDArray[np.bool_]:
    """The same records with at most so many codes each."""
    order = np.where(real, source.random(real.shape), 2.0)
    last = np.partition(order, kept - 1, axis=1)[:, [kept - 1]]
    return real & (order <= last)
