"""Whether the noise of two releases, or of two parts of one, is the same: noise that is used twice cancels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.auditing.verdict import Outcome, Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.auditing.listening import Draw
    from understudy.auditing.readings import Floats

__all__ = ["repeated_noise", "shared_noise"]

_FIRST = 256
"""Entries of each release that are compared with those of the others: a reused key repeats from the first one on."""

_LEAST = 64
"""Fewer entries cannot tell one noise from another."""

_LONG = 1_000
"""Entries that a release must have to be compared with itself."""


def shared_noise(draws: Sequence[Draw], alpha: float) -> Reading:
    """The largest correlation between the noise of any two releases; a draw with a key of its own has none.

    Args:
        draws: releases, and noise that was asked of the source itself.
        alpha: the probability of a false alarm.
    """
    known = [draw.noise[:_FIRST] for draw in draws if draw.noise.size >= _LEAST and draw.scale > 0]
    size = min(one.size for one in known)
    unit = np.stack([one[:size] / max(float(np.linalg.norm(one[:size])), 1e-300) for one in known])
    gram = np.abs(unit @ unit.T)
    np.fill_diagonal(gram, 0.0)
    pairs = len(known) * (len(known) - 1) / 2
    limit = _largest_correlation(size, alpha / max(1.0, pairs))
    worst = float(gram.max())
    says = f"largest correlation between the noise of two releases {worst:.3f}; below {limit:.3f} by chance."
    return Reading("shared-noise", _fails(worst > limit), worst, 0.0, limit, 0.0, says)


def _largest_correlation(size: int, alpha: float) -> float:
    """What the correlation of two independent normal vectors exceeds with this probability, either way."""
    score = float(stats.t.isf(alpha / 2, size - 1))
    return score / math.sqrt(size - 1 + score * score)


def repeated_noise(draws: Sequence[Draw], alpha: float) -> Reading:
    """The largest correlation of the noise of a release with itself, shifted by any distance.

    Halves of one normal transformation that are equal, or a block that is used again, show at their distance.

    Args:
        draws: as for `shared_noise`.
        alpha: the probability of a false alarm.
    """
    long = [draw.noise for draw in draws if draw.noise.size >= _LONG and draw.scale > 0]
    tests = sum(one.size for one in long)
    worst, limit = 0.0, float(stats.norm.isf(alpha / (4 * max(1, tests))))
    for one in long:
        worst = max(worst, float(np.abs(_autocorrelation(one)).max()))
    says = f"largest score of the noise of a release against itself, shifted, {worst:.1f}; below {limit:.1f} by chance."
    return Reading("repeated-noise", _fails(worst > limit), worst, 0.0, limit, 0.0, says)


def _autocorrelation(noise: Floats) -> Floats:
    """For every shift with enough overlap, the sum of products as a number of its standard deviations."""
    size = noise.size
    spectrum = np.fft.rfft(noise, 2 * size)
    products = np.fft.irfft(spectrum * np.conj(spectrum))[1 : size - _LEAST * 4]
    overlap = size - np.arange(1, size - _LEAST * 4)
    scores: Floats = products / np.sqrt(overlap) / float(np.mean(np.square(noise)))
    return scores


def _fails(wrong: bool) -> Outcome:
    return Outcome.FAIL if wrong else Outcome.PASS
