"""Charging steps before they run, in groups that cost next to nothing.

A durable write per step would slow training; a write per run would forgive nothing after a crash. The meter
charges the next group of steps before the first of them runs, and sizes the groups by what it measures, so
that writing takes less than one hundredth of the time. A crash wastes at most the rest of one group.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.ledger.entries import Entry
    from understudy.ledger.ledger import Ledger

__all__ = ["Meter"]

_SHARE = 0.01
_GROWTH = 4
"""How much larger than the last one a group may be; one slow write must not swallow a run."""


class Meter:
    """Counts the steps of one entry.

    Args:
        ledger: the open ledger.
        entry: the reservation, owned by this process. Drawing starts where its charged steps end.
        largest_group: an upper limit on the steps charged at once.
        boundary: groups never cross a multiple of this number of steps (the interval of checkpoints), so that
            the steps on record tell whether a checkpoint is the newest one.
    """

    def __init__(
        self, ledger: Ledger, entry: Entry, *, largest_group: int = 1000, boundary: int | None = None
    ) -> None:
        self._ledger = ledger
        self.entry = entry
        self._largest = largest_group
        self._boundary = boundary
        self._group = 1
        self._charged_at = math.nan
        self.drawn = entry.steps_charged

    @property
    def left(self) -> int:
        """How many more steps may be drawn."""
        return self.entry.steps_planned - self.drawn

    @property
    def settled(self) -> bool:
        """Whether every step on record was drawn; then a run can stop without wasting any."""
        return self.drawn == self.entry.steps_charged

    def before_step(self) -> None:
        """Announce one step; returns when it is on record. Call it before the batch is drawn.

        Raises:
            LedgerError: if the reservation is used up, was closed or taken over, or cannot be written.
        """
        if self.drawn >= self.entry.steps_charged:
            self._charge()
        self.drawn += 1

    def _charge(self) -> None:
        start = time.perf_counter()
        planned = self.entry.steps_planned
        steps = min(self.drawn + self._group, max(planned, self.drawn + 1))
        if self._boundary is not None:
            steps = min(steps, (self.drawn // self._boundary + 1) * self._boundary)
        self.entry = self._ledger.progress(self.entry, steps)
        end = time.perf_counter()
        if math.isfinite(self._charged_at):
            step = max((start - self._charged_at) / self._group, 1e-9)
            wanted = math.ceil((end - start) / (_SHARE * step))
            self._group = max(1, min(wanted, self._group * _GROWTH, self._largest))
        self._charged_at = end
