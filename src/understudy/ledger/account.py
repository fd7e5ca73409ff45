"""How a run pays: nothing is drawn before it is on record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from understudy.errors import CheckpointError
from understudy.ledger.meter import Meter
from understudy.schema import unit_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.ledger.entries import Entry
    from understudy.ledger.ledger import Ledger
    from understudy.planning import Plan

__all__ = ["Account", "LedgerAccount"]


class Account(Protocol):
    """What is told before anything is spent; `LedgerAccount` is one."""

    def reserve(self, plan: Plan) -> None:
        """Set the whole plan aside; called before the first private row is read."""
        ...

    def resume(self, entry: str | None, step: int, every: int) -> int:
        """Take up an entry again after a checkpoint at `step`; returns how many steps are on record."""
        ...

    def cancel(self) -> None:
        """The run ends before anything was drawn; the reservation is given back."""
        ...

    def announce(self, purpose: str) -> None:
        """Something besides training steps is about to be drawn."""
        ...

    @property
    def draws(self) -> Mapping[str, int]:
        """How often each purpose was announced."""
        ...

    def charge(self) -> None:
        """One training step is about to be drawn."""
        ...

    @property
    def settled(self) -> bool:
        """Whether every step on record was drawn, so that a run can stop without waste."""
        ...

    @property
    def entry(self) -> str | None:
        """The number of the entry, for the checkpoint."""
        ...

    def finish(self, release_hash: str) -> str | None:
        """The run is over; returns the hash of the last record for the release card.

        Its number is not for publication: it counts the groups in which steps were charged, whose sizes follow the time
        of private steps, and whatever else the ledger was used for.
        """
        ...


class LedgerAccount:
    """An account in a ledger.

    Args:
        ledger: the open ledger.
        dataset: the name that the data set is registered by.
        command: what to note as the command of the run.
        every: steps between checkpoints, or None without checkpoints.
    """

    def __init__(self, ledger: Ledger, dataset: str, *, command: str = "", every: int | None = None) -> None:
        self._ledger = ledger
        self._dataset = dataset
        self._command = command
        self._every = every
        self._meter: Meter | None = None

    def reserve(self, plan: Plan) -> None:
        """Reserve the whole plan, or refuse it with what would still fit."""
        unit = unit_words(plan.schema).whole
        self._begin(self._ledger.reserve(self._dataset, plan.charges, command=self._command, unit=unit))

    def resume(self, entry: str | None, step: int, every: int) -> int:
        """Claim the entry of an interrupted run; one that was closed just before the crash is only looked at.

        Raises:
            CheckpointError: the checkpoint belongs to no entry, or is not the newest one.
        """
        if entry is None:
            raise CheckpointError(
                "this checkpoint was written without a ledger, so it cannot go on with one."
            )
        known = self._ledger.entry(entry)
        over = known.release is not None and step == known.steps_charged
        claimed = known if over else self._ledger.claim(entry)
        if not step <= claimed.steps_charged <= step + every:
            raise CheckpointError(
                f"the checkpoint stands at step {step:,}, but the ledger says that {claimed.steps_charged:,} steps "
                "were charged: this is not the newest checkpoint of the run. Resume from the newest one."
            )
        self._begin(claimed)
        return claimed.steps_charged

    def _begin(self, entry: Entry) -> None:
        self._meter = Meter(self._ledger, entry, boundary=self._every)

    @property
    def _open(self) -> Meter:
        assert self._meter is not None, "reserve or resume comes first"
        return self._meter

    def cancel(self) -> None:
        """Give the reservation back."""
        self._ledger.refund(self._open.entry)

    def announce(self, purpose: str) -> None:
        """Put on record what will be drawn; from here on there is no refund."""
        self._open.entry = self._ledger.draw(self._open.entry, purpose)

    @property
    def draws(self) -> Mapping[str, int]:
        """How often each purpose was announced."""
        return self._open.entry.draws

    def charge(self) -> None:
        """Put the next step on record, unless its group already is."""
        self._open.before_step()

    @property
    def settled(self) -> bool:
        """Whether every step on record was drawn."""
        return self._open.settled

    @property
    def entry(self) -> str | None:
        """The number of the entry."""
        return self._open.entry.id

    def finish(self, release_hash: str) -> str | None:
        """Close the entry with the hash of the published weights."""
        self._ledger.finish(self._open.entry, release_hash)
        return self._ledger.head().hash
