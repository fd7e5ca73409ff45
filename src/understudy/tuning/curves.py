"""Privacy-utility curves: what runs of a sweep reached, as points with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.tuning.variation import Setting  # noqa: TC001 - the codec reads the hint

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CurvePoint", "Limits", "Outcome", "curve_points"]


@dataclass(frozen=True)
class Outcome:
    """What one run reached."""

    setting: Setting
    spent_epsilon: float
    accuracy: float
    macro_auroc: float


@dataclass(frozen=True)
class Limits:
    """Scores of the same classifier on real training rows, and of a predictor that knows class shares only."""

    ceiling_accuracy: float
    ceiling_macro_auroc: float
    floor_accuracy: float
    floor_macro_auroc: float


@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve: the mean over repeats with its 95 % interval (NaN ends for a single run)."""

    epsilon: float
    value: float
    low: float
    high: float
    runs: int


def curve_points(outcomes: Sequence[Outcome], score: str) -> dict[str, tuple[CurvePoint, ...]]:
    """For each combination of varied settings, the score over ε."""
    found: dict[str, dict[float, list[float]]] = {}
    for outcome in outcomes:
        at = found.setdefault(outcome.setting.label, {})
        at.setdefault(outcome.setting.epsilon, []).append(float(getattr(outcome, score)))
    return {
        label: tuple(_point(epsilon, values) for epsilon, values in sorted(points.items()))
        for label, points in found.items()
    }


def _point(epsilon: float, values: list[float]) -> CurvePoint:
    mean, runs = float(np.mean(values)), len(values)
    if runs == 1:
        return CurvePoint(epsilon, mean, math.nan, math.nan, 1)
    half = float(stats.t.ppf(0.975, runs - 1)) * float(np.std(values, ddof=1)) / math.sqrt(runs)
    return CurvePoint(epsilon, mean, max(0.0, mean - half), min(1.0, mean + half), runs)
