"""What a data set has spent over its whole life, kept so that no crash and no second process can hide it.

A data set is registered with an overall budget. A run reserves the cost of its whole plan before it reads a
record, marks its progress before each group of steps, and ends by being finished (or refunded if nothing was
drawn). What counts against the budget is the composition, by the accountant, of all entries: an open
reservation counts in full, a finished entry counts the steps it charged.
"""

from __future__ import annotations

import contextlib
import platform
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from understudy._version import __version__
from understudy.codec import from_plain, to_plain
from understudy.errors import BudgetError, LedgerError
from understudy.files import has_ended, this_process
from understudy.ledger.entries import Entry, Statement, Status, entry_of
from understudy.ledger.journal import Head, Journal, Record
from understudy.privacy.accounting import Spent, spent
from understudy.privacy.budget import Budget
from understudy.privacy.calibration import noise_for
from understudy.privacy.mechanisms import Charge, GaussianRelease

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Entry", "Ledger", "Statement", "Status", "remaining_epsilon"]


class Ledger:
    """The open ledger; a context manager. Every method sees what other processes wrote before it.

    Args:
        path: the SQLite file.
        create: make a new ledger if there is none.
    """

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self._journal = Journal(Path(path), create=create)
        self._budgets: dict[str, Budget] = {}
        self._entries: dict[str, Entry] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; open reservations stay reserved."""
        self._journal.close()

    # ------------------------------------------------------------ asking

    def datasets(self) -> dict[str, Budget]:
        """The registered data sets and their overall budgets."""
        self._refresh()
        return dict(self._budgets)

    def entry(self, entry_id: str) -> Entry:
        """One entry by its id."""
        self._refresh()
        return self._known(entry_id)

    def head(self) -> Head:
        """The last record; the card of a release carries its hash."""
        self._refresh()
        return self._journal.head

    def verify(self, known: str | None = None) -> Head:
        """Check every record against the chain, and the chain against a head noted elsewhere."""
        return self._journal.verify(known)

    def counted(self, dataset: str) -> tuple[Charge, ...]:
        """All charges that count against the data set's budget now."""
        self._refresh()
        return self._counted(dataset)

    def statement(self, dataset: str) -> Statement:
        """The account of one data set."""
        self._refresh()
        budget = self._budget(dataset)
        cost = spent(self._counted(dataset), budget.delta, budget.adjacency)
        entries = tuple(entry for entry in self._entries.values() if entry.dataset == dataset)
        return Statement(dataset, budget, cost, entries, self._journal.head)

    def would_leave(self, dataset: str, charges: Sequence[Charge]) -> Spent:
        """What would be spent in all after these charges; nothing is written.

        Raises:
            BudgetError: if they do not fit, with the largest ε that would.
        """
        self._refresh()
        return self._afford(dataset, charges)

    # ------------------------------------------------------------ writing

    def register(self, dataset: str, budget: Budget) -> None:
        """Open an account. Registering again with the same budget does nothing; another budget is refused."""
        if not dataset.strip() or not dataset.isprintable():
            raise LedgerError(f"a data set needs a printable name, got {dataset!r}.")
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            known = self._budgets.get(dataset)
            if known == budget:
                return
            if known is not None:
                raise LedgerError(
                    f"the data set {dataset!r} is registered with {known}; a budget cannot be changed to "
                    f"{budget} once it was promised. Register only other data under another name."
                )
            record = self._journal.append("register", {"dataset": dataset, "budget": to_plain(budget)})
        self._apply([record])

    def reserve(self, dataset: str, charges: Sequence[Charge], *, command: str = "", unit: str = "") -> Entry:
        """Put the cost of a whole plan aside, before any record is read.

        The cost is computed while others may write, and counts only if the account is then still the one it was
        computed for; otherwise it is computed again. So nobody waits for the accountant, and no two runs can
        spend the same remainder.

        Raises:
            BudgetError: if it does not fit beside what is spent and reserved, with the largest ε that would.
        """
        body = {
            "dataset": dataset,
            "charges": [to_plain(charge) for charge in charges],
            "command": command,
            "unit": unit,
            "versions": _versions(),
            "owner": _owner(),
        }
        self._give_back_lost(dataset)
        record = None
        with self._journal.turn():
            while record is None:
                self._refresh()
                judged = self._counted(dataset)
                self._afford(dataset, charges)
                with self._journal.transaction() as fresh:
                    self._apply(fresh)
                    if self._counted(dataset) == judged:
                        record = self._journal.append("reserve", body)
        self._apply([record])
        return self._known(str(record.seq))

    def claim(self, entry_id: str) -> Entry:
        """Take over an open entry in order to resume it; the process that held it can charge no more."""
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            self._open(entry_id)
            record = self._journal.append("claim", {"entry": entry_id, "owner": _owner()})
        self._apply([record])
        return self._known(entry_id)

    def progress(self, entry: Entry, steps: int) -> Entry:
        """Charge the entry's steps up to number `steps`, before they are drawn; durable on return.

        Raises:
            LedgerError: if the entry is closed, was claimed by another process, or has fewer steps.
        """
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            current = self._owned(entry)
            if not current.steps_charged <= steps <= current.steps_planned:
                raise LedgerError(
                    f"entry {entry.id} has charged {current.steps_charged} of {current.steps_planned} steps "
                    f"and cannot charge up to {steps}: progress goes forward, never beyond what was reserved."
                )
            record = self._journal.append("progress", {"entry": entry.id, "steps": steps})
        self._apply([record])
        return self._known(entry.id)

    def draw(self, entry: Entry, purpose: str) -> Entry:
        """Put on record that one of the other charges is about to be drawn (a histogram, a count); durable on return.

        Raises:
            LedgerError: if the entry is closed or was claimed by another process.
        """
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            self._owned(entry)
            record = self._journal.append("draw", {"entry": entry.id, "purpose": purpose})
        self._apply([record])
        return self._known(entry.id)

    def finish(self, entry: Entry, release_hash: str | None = None) -> Entry:
        """Close an entry: from now on the steps it charged count, and everything else it reserved.

        Closing it again for the same release does nothing, so that a crash between closing and saving can be mended.

        Args:
            entry: an open entry.
            release_hash: the hash of what was published, or None for an interrupted run.
        """
        current = self.entry(entry.id)
        if current.status is Status.SPENT and release_hash is not None and current.release == release_hash:
            return current
        return self._close(entry.id, {"action": Status.SPENT.value, "release": release_hash})

    def _give_back_lost(self, dataset: str) -> None:
        """Refund what processes of this machine reserved that died before they announced any draw.

        Were one of them alive after all, it would be refused when it announces: its entry is closed.
        """
        self._refresh()
        for entry in list(self._entries.values()):
            waiting = entry.dataset == dataset and entry.status is Status.RESERVED and not entry.drawn
            if waiting and has_ended(entry.owner.rpartition("-")[0]):
                with contextlib.suppress(LedgerError):  # another process was quicker
                    self.refund(entry)

    def refund(self, entry: Entry) -> Entry:
        """Give a reservation back; only where nothing was drawn."""
        return self._close(entry.id, {"action": Status.REFUNDED.value, "release": None})

    def discard(self) -> bool:
        """Delete the ledger if nothing in it counts or may count: no entry, or all given back; returns whether it did.

        A process that has it open and has not reserved yet is refused when it does: the noted head is gone.
        """
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            if any(entry.status is not Status.REFUNDED for entry in self._entries.values()):
                return False
            self._journal.unlink()
        return True

    def _close(self, entry_id: str, body: dict[str, Any]) -> Entry:
        with self._journal.transaction() as fresh:
            self._apply(fresh)
            current = self._open(entry_id)
            if body["action"] == Status.REFUNDED.value and current.drawn:
                raise LedgerError(
                    f"entry {entry_id} announced that it would draw from the data and cannot be refunded; "
                    "finish it instead, which counts only the steps it charged."
                )
            record = self._journal.append("close", {"entry": entry_id, **body})
        self._apply([record])
        return self._known(entry_id)

    # ------------------------------------------------------------ inside

    def _refresh(self) -> None:
        with self._journal.transaction() as fresh:
            self._apply(fresh)

    def _budget(self, dataset: str) -> Budget:
        if dataset not in self._budgets:
            names = ", ".join(sorted(self._budgets)) or "none yet"
            raise LedgerError(f"no data set {dataset!r} in {self._journal.path}; registered: {names}.")
        return self._budgets[dataset]

    def _known(self, entry_id: str) -> Entry:
        if entry_id not in self._entries:
            raise LedgerError(f"no entry {entry_id!r} in {self._journal.path}.")
        return self._entries[entry_id]

    def _open(self, entry_id: str) -> Entry:
        entry = self._known(entry_id)
        if entry.status is not Status.RESERVED:
            raise LedgerError(f"entry {entry_id} is closed ({entry.status.value}); reserve a new one.")
        return entry

    def _owned(self, entry: Entry) -> Entry:
        current = self._open(entry.id)
        if current.owner != entry.owner:
            raise LedgerError(f"entry {entry.id} was taken over by another process; this one must not go on.")
        return current

    def _counted(self, dataset: str) -> tuple[Charge, ...]:
        entries = (entry for entry in self._entries.values() if entry.dataset == dataset)
        return tuple(charge for entry in entries for charge in entry.counted())

    def _afford(self, dataset: str, charges: Sequence[Charge]) -> Spent:
        budget = self._budget(dataset)
        before = self._counted(dataset)
        total = spent((*before, *charges), budget.delta, budget.adjacency)
        if total.fits(budget):
            return total
        already = spent(before, budget.delta, budget.adjacency)
        left = remaining_epsilon(before, budget)
        raise BudgetError(
            f"the data set {dataset!r} has a budget of {budget}, of which ε = {already.epsilon:.4g} is spent "
            f"or reserved; with this run it would be {total.epsilon:.4g}. The largest ε that would still fit "
            f"is {left:.4g}."
        )

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                self._apply_one(record)
            except (KeyError, TypeError, ValueError) as cause:
                raise LedgerError(
                    f"record {record.seq} ({record.action}) is incomplete: {cause!r}."
                ) from cause

    def _apply_one(self, record: Record) -> None:
        body = record.body
        match record.action:
            case "register":
                self._budgets[body["dataset"]] = from_plain(Budget, body["budget"], error=LedgerError)
            case "reserve":
                self._entries[str(record.seq)] = entry_of(record)
            case "claim":
                self._change(body["entry"], owner=body["owner"])
            case "progress":
                self._change(body["entry"], steps_charged=int(body["steps"]), drawn=True)
            case "draw":
                draws = dict(self._known(body["entry"]).draws)
                draws[body["purpose"]] = draws.get(body["purpose"], 0) + 1
                self._change(body["entry"], draws=draws, drawn=True)
            case "close":
                self._change(body["entry"], status=Status(body["action"]), release=body["release"])
            case unknown:
                raise LedgerError(f"record {record.seq} has the unknown action {unknown!r}: a newer ledger?")

    def _change(self, entry_id: str, **changes: Any) -> None:
        self._entries[entry_id] = replace(self._known(entry_id), **changes)


def remaining_epsilon(before: Sequence[Charge], budget: Budget) -> float:
    """The largest ε, at the budget's δ, of one more Gaussian mechanism that still fits beside `before`.

    0 if nothing fits. It is less than the difference of the two ε's would suggest only by what the
    composition of small charges adds, and often more.
    """
    try:
        sigma = noise_for(lambda value: (*before, Charge("next", GaussianRelease(value))), budget)
    except BudgetError:
        return 0.0
    return spent((Charge("next", GaussianRelease(sigma)),), budget.delta, budget.adjacency).epsilon


def _owner() -> str:
    """A mark that no other process has, and by which others can tell whether this one still runs."""
    return f"{this_process()}-{secrets.token_hex(8)}"


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "understudy": __version__,
        "dp-accounting": version("dp-accounting"),
        "python": platform.python_version(),
    }
