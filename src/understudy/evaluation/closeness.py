"""Similarity: do synthetic rows lie closer to training rows than chance would have it?

Experts discourage such numbers as measures of privacy (Pilgram et al. 2025, arXiv 2503.04980): they have no
interpretation for a person. They find copies, and are kept for that; what the release tells about people is
`disclosure`. The promise is the accountant's, the test of the promise is the audit. All of them read training rows
and are internal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import TooFewRows
from understudy.evaluation.intervals import Progress, from_seeds, wilson
from understudy.evaluation.neighbours import nearest_distances
from understudy.evaluation.result import Better, Group, Measure

__all__ = ["closeness", "exact_matches"]

Floats = npt.NDArray[np.floating[Any]]
MOST_ROWS = 5_000


def exact_matches(rows: Floats, among: Floats) -> int:
    """How many of the rows are equal, bit for bit, to one of the others."""
    known = {row.tobytes() for row in _flat(among)}
    return sum(row.tobytes() in known for row in _flat(rows))


def nearer(first: Floats, second: Floats) -> Floats:
    """1 where the first distance is the smaller one, 0 where the second is, ½ where they are equal."""
    return np.where(first == second, 0.5, (first < second).astype(float))


def closeness(
    synthetic: Floats,
    training: Floats,
    holdout: Floats,
    *,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """Nearness of encoded rows; training and hold-out rows are cut to the same number, at most 5,000.

    Args:
        synthetic: encoded rows drawn from the release.
        training: encoded rows that the generator was trained on.
        holdout: encoded real rows that it was not trained on.
        seed: of the random cuts.
        on_progress: called as measures finish.
    """
    generator = np.random.default_rng(seed)
    rows = min(len(training), len(holdout), MOST_ROWS)
    if rows < 2 or len(synthetic) == 0:
        raise TooFewRows("it takes synthetic rows and at least two training and hold-out rows.")
    train, held = (_some(side, rows, generator) for side in (training, holdout))
    near = _some(synthetic, MOST_ROWS, generator)
    say = on_progress or _silent
    to_training, to_holdout = (nearest_distances(near, side) for side in (train, held))
    say("distance to closest record", 0.5)
    measures = [_distance(nearer(to_training, to_holdout)), *_matches(synthetic, training, holdout)]
    measures.append(_near_matches(to_training, nearest_distances(held, train)))
    say("matches", 1.0)
    return tuple(measures)


def _distance(shares: Floats) -> Measure:
    estimate = from_seeds(lambda rows: [float(shares[rows].mean())], len(shares))
    return _measure(
        "closer to training than to hold-out",
        estimate.value,
        estimate.low,
        estimate.high,
        ceiling=0.5,
        floor=1.0,
        explanation="Share of synthetic rows whose nearest real row is a training row; chance is one half.",
    )


def _matches(synthetic: Floats, training: Floats, holdout: Floats) -> list[Measure]:
    found = wilson(exact_matches(synthetic, training), len(synthetic))
    chance = exact_matches(holdout, training) / len(holdout)
    words = (
        "Share of synthetic rows equal to a training row; the ceiling is the share of hold-out rows that are."
    )
    return [_measure("exact matches", found.value, found.low, found.high, chance, 1.0, words)]


def _near_matches(synthetic: Floats, holdout: Floats) -> Measure:
    """From the distances of synthetic and of hold-out rows to the training rows."""
    threshold = float(np.quantile(holdout, 0.01))
    found = wilson(int((synthetic < threshold).sum()), len(synthetic))
    chance = float((holdout < threshold).mean())
    words = "Share of synthetic rows nearer to a training row than 99 % of hold-out rows are."
    return _measure("near matches", found.value, found.low, found.high, chance, 1.0, words)


def _measure(
    name: str, value: float, low: float, high: float, ceiling: float, floor: float, explanation: str
) -> Measure:
    return Measure(
        name, value, Better.LOWER, Group.CLOSENESS, low, high, ceiling, floor, explanation=explanation
    )


def _silent(what: str, share: float) -> None:
    del what, share


def _flat(rows: Floats) -> Floats:
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


def _some(rows: Floats, most: int, generator: np.random.Generator) -> Floats:
    return rows if len(rows) <= most else rows[generator.choice(len(rows), most, replace=False)]
