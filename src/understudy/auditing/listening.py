"""A door that listens: what was about to be released, what was, and with which scale.

Everything private that leaves a run leaves it through `Door._drawn`, or through `Door._selected` where the texts are
private too. The listener stands there.
It can also *force history*: put, in place of each release, the release of an earlier run. Two runs with one history may
differ only in what they were about to release; if anything else differs, it leaked past the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.query import Published

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from understudy.auditing.readings import Floats
    from understudy.door.query import Chance

__all__ = ["Draw", "Ear", "ListeningDoor", "listening"]

_AT_ONCE = 7


@dataclass(frozen=True, eq=False)
class Draw:
    """One release.

    Args:
        purpose: what it was charged as.
        before: every number before the noise.
        after: the same after it.
        scale: the standard deviation that was asked for.
        released: the tensors as they were released.
        words: the texts that the numbers count, where these are private too.
        threshold: what a number must reach for its text to be released.
        selected: the texts that were released with their numbers; None if the release is no selection.
    """

    purpose: str
    before: Floats
    after: Floats
    scale: float
    released: tuple[Tensor, ...]
    words: tuple[str, ...] = ()
    threshold: float = 0.0
    selected: dict[str, float] | None = None

    def distance(self, other: Draw) -> float:
        """How far apart two releases of one purpose are before the noise; a text that one lacks counts 0 in it."""
        if self.selected is None:
            return float(np.linalg.norm(self.before - other.before))
        one, two = (dict(zip(draw.words, draw.before, strict=True)) for draw in (self, other))
        return math.hypot(*(one.get(word, 0.0) - two.get(word, 0.0) for word in one.keys() | two.keys()))

    @property
    def noise(self) -> Floats:
        """What was added, in units of the scale that was asked for."""
        added: Floats = (self.after - self.before) / max(self.scale, 1e-300)
        return added


class Ear:
    """What was heard.

    Args:
        history: releases of an earlier run, to be put in place of this run's.

    `strayed` names the releases that have another shape than in history: what was asked depends on a record, and the
    two runs part.
    """

    def __init__(self, history: Sequence[Draw] = ()) -> None:
        self.history = history
        self.draws: list[Draw] = []
        self.strayed: set[str] = set()


class ListeningDoor(Door):
    """The door itself, with an ear at the place where noise is added."""

    ear: Ear

    @property
    def chance(self) -> Chance:
        """The same coins for a record in every run, so that runs differ by one record alone."""
        return SeededNoise(len(self.ear.draws))

    def _at_once(self, rows: int) -> int:
        """Few records at a time, so that a bound which holds for the first batch only is found out."""
        return min(rows, _AT_ONCE)

    def _drawn(self, purpose: str, sums: list[Tensor], scale: float) -> Published:
        before = _flat(sums)
        seen = super()._drawn(purpose, sums, scale)
        ear = self.ear
        copies = tuple(one.clone() for one in seen.values)
        ear.draws.append(Draw(purpose, before, _flat(seen.values), scale, copies))
        if len(ear.draws) <= len(ear.history):
            past = ear.history[len(ear.draws) - 1].released
            if [one.shape for one in past] != [one.shape for one in copies]:
                ear.strayed.add(f"what is asked about the {purpose}")
                return seen
            return Published(tuple(one.clone() for one in past), seen.deviation)
        return seen

    def _selected(
        self, purpose: str, words: Sequence[str], counts: Tensor, scale: float, threshold: float
    ) -> dict[str, float]:
        before = _flat([counts])
        found = super()._selected(purpose, words, counts, scale, threshold)
        ear = self.ear
        ear.draws.append(
            Draw(purpose, before, _flat([counts]), scale, (), tuple(words), threshold, dict(found))
        )
        if len(ear.draws) <= len(ear.history):
            return dict(ear.history[len(ear.draws) - 1].selected or {})
        return found


def listening(ear: Ear) -> Callable[..., Door]:
    """Makes doors that this ear listens at."""

    def make(*arguments: Any, **options: Any) -> Door:
        door = ListeningDoor(*arguments, **options)
        door.ear = ear
        return door

    return make


def _flat(tensors: Sequence[Tensor]) -> Floats:
    flat: Floats = np.concatenate([tensor.detach().double().cpu().numpy().ravel() for tensor in tensors])
    return flat
