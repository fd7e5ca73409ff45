"""What runs of a study have to show, as it is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the codec reads the hint
from dataclasses import dataclass

from understudy.papers.measuring import Value  # noqa: TC001 - the codec reads the hint

__all__ = ["Begun", "LossPoint", "Outcome", "Point"]


@dataclass(frozen=True)
class LossPoint:
    """The losses at one step."""

    step: int
    critic: float
    generator: float


@dataclass(frozen=True)
class Point:
    """What a run had reached at one of its stops, certified for the steps until there."""

    steps: int
    epsilon: float | None
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Outcome:
    """The result of one job with one seed, as it is kept on disk.

    Args:
        job: name of the job.
        seed: its seed.
        fingerprint: of everything that the result depends on.
        epsilon: certified for this very run; None for real rows and for baselines without noise.
        steps: steps taken.
        noise_multiplier: σ.
        seconds: CPU time that it took, on one core.
        values: the scores by name.
        losses: the curve of the losses, where the job keeps them; NOT PRIVATE.
        points: what was reached at the job's stops.
        updates: of the generator.
        date: when it was finished.
    """

    job: str
    seed: int
    fingerprint: str
    epsilon: float | None
    steps: int
    noise_multiplier: float
    seconds: float
    values: Mapping[str, Value]
    losses: tuple[LossPoint, ...] = ()
    points: tuple[Point, ...] = ()
    updates: int = 0
    date: str = ""


@dataclass(frozen=True)
class Begun:
    """What an unfinished run has to show, beside its checkpoint."""

    fingerprint: str
    seconds: float = 0.0
    points: tuple[Point, ...] = ()
    losses: tuple[LossPoint, ...] = ()
