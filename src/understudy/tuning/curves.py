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

__all__ = ["CurvePoint", "Limits", "Outcome", "Reached", "curve_points"]


@dataclass(frozen=True)
class Reached:
    """A score of some records, and what trivial records or a guess by class shares reach."""

    name: str
    value: float
    floor: float


@dataclass(frozen=True)
class Outcome:
    """What one run reached."""

    setting: Setting
    spent_epsilon: float
    scores: tuple[Reached, ...]

    def score(self, name: str) -> float:
        """One of the scores."""
        return next(one.value for one in self.scores if one.name == name)


@dataclass(frozen=True)
class Limits:
    """What real training rows reach in the place of synthetic ones, with the floors."""

    ceilings: tuple[Reached, ...]


@dataclass(frozen=True)
class CurvePoint:
    """A point of a curve: the mean over repeats with its 95 % interval (NaN ends for a single run)."""

    epsilon: float
    value: float
    low: float
    high: float
    runs: int


def curve_points(outcomes: Sequence[Outcome], score: str) -> dict[str, tuple[CurvePoint, ...]]:
    """For each combination of varied settings, one of the scores over ε."""
    found: dict[str, dict[float, list[float]]] = {}
    for outcome in outcomes:
        at = found.setdefault(outcome.setting.label, {})
        at.setdefault(outcome.setting.epsilon, []).append(outcome.score(score))
    return {
        label: tuple(_point(epsilon, values) for epsilon, values in sorted(points.items()))
        for label, points in found.items()
    }


def _point(epsilon: float, values: list[float]) -> CurvePoint:
    mean, runs = float(np.mean(values)), len(values)
    if runs == 1:
        return CurvePoint(epsilon, mean, math.nan, math.nan, 1)
    half = float(stats.t.ppf(0.975, runs - 1)) * float(np.std(values, ddof=1)) / math.sqrt(runs)
    return CurvePoint(epsilon, mean, mean - half, mean + half, runs)
