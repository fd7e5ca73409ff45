"""The values of a ledger: entries, where they stand, what they count, and the statement of a data set."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from understudy.codec import from_plain, to_plain
from understudy.errors import LedgerError
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.ledger.journal import Head, Record
    from understudy.privacy.accounting import Spent
    from understudy.privacy.budget import Budget

__all__ = ["Entry", "Statement", "Status", "entry_of"]


class Status(enum.Enum):
    """Where an entry stands."""

    RESERVED = "reserved"
    """Open: the whole plan counts, whatever was drawn so far."""

    SPENT = "spent"
    """Closed: what was charged counts."""

    REFUNDED = "refunded"
    """Closed before anything was drawn: nothing counts."""


@dataclass(frozen=True)
class Entry:
    """One run, or one release of statistics, on a data set.

    Args:
        id: its name within the ledger.
        dataset: the data set it was charged to.
        status: whether it is open, spent or refunded.
        charges: what was reserved.
        steps_charged: how many training steps were charged so far; at least as many as were drawn.
        drawn: whether drawing was announced; from then on there is no refund.
        draws: how often each purpose besides training steps was announced.
        release: the hash of the published release, if there is one.
        time: when it was reserved (for readers; nothing depends on it).
        command: the command that reserved it.
        unit: what it protects, in words, as in "patient with up to 4 visits"; empty if nobody said.
        versions: of this package and of what the accounting depends on.
        owner: a mark of the process that may charge it, with its number and a random part.
    """

    id: str
    dataset: str
    status: Status
    charges: tuple[Charge, ...]
    steps_charged: int = 0
    drawn: bool = False
    draws: Mapping[str, int] = field(default_factory=dict)
    release: str | None = None
    time: str = ""
    command: str = ""
    unit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""

    @property
    def steps_planned(self) -> int:
        """The training steps that were reserved."""
        mechanisms = (charge.mechanism for charge in self.charges)
        return sum(one.steps for one in mechanisms if isinstance(one, SubsampledGaussian))

    def counted(self) -> tuple[Charge, ...]:
        """The charges that count against the budget now."""
        if self.status is Status.REFUNDED:
            return ()
        if self.status is Status.RESERVED:
            return self.charges
        left = self.steps_charged
        counted = []
        for charge in self.charges:
            mechanism: Any = charge.mechanism
            if isinstance(mechanism, SubsampledGaussian):
                mechanism = replace(mechanism, steps=min(mechanism.steps, left))
                left -= mechanism.steps
            counted.append(replace(charge, mechanism=mechanism))
        return tuple(counted)


@dataclass(frozen=True)
class Statement:
    """The account of one data set: everything that `understudy ledger show` prints."""

    dataset: str
    budget: Budget
    spent: Spent
    entries: tuple[Entry, ...]
    head: Head

    @property
    def units(self) -> tuple[str, ...]:
        """What the entries that count protect, in words. A total holds for whoever all of them protect."""
        counted = (entry.unit for entry in self.entries if entry.status is not Status.REFUNDED)
        return tuple(dict.fromkeys(unit for unit in counted if unit))

    def to_plain(self) -> dict[str, Any]:
        """The statement as plain values, for JSON."""
        return {
            "dataset": self.dataset,
            "epsilon_spent": self.spent.epsilon,
            "epsilon_budget": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": self.budget.adjacency.value,
            "certified_by": self.spent.certified_by.name,
            "epsilon_spent_replace_one": self.spent.epsilon_replace_one,
            "head": str(self.head),
            "entries": [_entry_plain(entry) for entry in self.entries],
        }


def entry_of(record: Record) -> Entry:
    """The entry that a "reserve" record opens."""
    body = record.body
    charges = tuple(from_plain(Charge, plain, error=LedgerError) for plain in body["charges"])
    return Entry(
        id=str(record.seq),
        dataset=body["dataset"],
        status=Status.RESERVED,
        charges=charges,
        time=record.time,
        command=body["command"],
        unit=body.get("unit", ""),
        versions=body["versions"],
        owner=body["owner"],
    )


def _entry_plain(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "status": entry.status.value,
        "event": [to_plain(charge) for charge in entry.charges],
        "steps_charged": entry.steps_charged,
        "release": entry.release,
        "time": entry.time,
        "command": entry.command,
        "unit": entry.unit,
        "versions": dict(entry.versions),
    }
