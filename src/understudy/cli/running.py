"""What a long run needs around it: a ledger, a checkpoint, signals that stop it in order."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.console import err
from understudy.escaping import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from understudy.ledger.account import LedgerAccount
    from understudy.planning import Plan
    from understudy.schema import Schema
    from understudy.synthesizers.protocol import Recipe
    from understudy.tuning.sweep import Bill

__all__ = [
    "Signals",
    "beside",
    "bill_for",
    "chosen_recipe",
    "command_line",
    "open_account",
    "remove_finished_checkpoint",
    "saved_plan",
    "stopping",
]

OWN_DATASET = "this data set"
NO_LIMIT = 1e6
"""The ε of a ledger that only records: a sweep's own, which must take any number of runs."""


def chosen_recipe(name: str | None, schema: Schema | None) -> Recipe | str:
    """The recipe that was named, or the default for such data, with a line if it is not the usual one."""
    from understudy.synthesizers.registry import default_recipe

    if name is not None:
        return name
    default = default_recipe(schema)
    if default.why is not None:
        err.print(default.why)
    elif schema is None:
        err.print("no schema: planned as for labelled images; pass --schema for a table.")
    return default.recipe


def saved_plan(path: Path) -> Plan:
    """The plan that `understudy plan --save` (or `--json`) wrote, its cost computed anew."""
    from understudy.certificate import checked_plan
    from understudy.codec import from_json
    from understudy.errors import PlanError
    from understudy.files import read_text
    from understudy.planning import Plan

    return checked_plan(from_json(Plan, read_text(path, error=PlanError), error=PlanError))


def beside(release: Path, ending: str) -> Path:
    """The working file of a release: in the same folder, with another ending."""
    return release.parent / f"{release.name}.{ending}"


@contextmanager
def open_account(
    plan: Plan, release: Path, ledger: Path | None, dataset: str | None, every: int
) -> Iterator[LedgerAccount | None]:
    """An account in the given ledger, or in a private one beside the release; None for a baseline."""
    from understudy.errors import UnderstudyError

    if plan.budget is None:
        yield None
        return
    _refuse_half(ledger, dataset)
    path = beside(release, "ledger") if ledger is None else ledger
    new = not path.exists()
    try:
        with _opened(plan, path, ledger, dataset, every) as account:
            yield account
    except UnderstudyError:
        if ledger is None and new:
            _remove_unused(path)
        raise


@contextmanager
def _opened(
    plan: Plan, path: Path, ledger: Path | None, dataset: str | None, every: int
) -> Iterator[LedgerAccount]:
    from understudy.ledger.account import LedgerAccount
    from understudy.ledger.ledger import Ledger

    with Ledger(path, create=ledger is None) as book:
        if ledger is None:
            assert plan.budget is not None
            book.register(OWN_DATASET, plan.budget)
            _tell_own(path)
        yield LedgerAccount(book, dataset or OWN_DATASET, command=command_line(), every=every)


def bill_for(folder: Path, ledger: Path | None, dataset: str | None, delta: float) -> Bill:
    """Where the runs of a sweep are charged: the given ledger, or one beside the folder that sets no limit."""
    from understudy.ledger.ledger import Ledger
    from understudy.privacy.budget import Budget
    from understudy.tuning.sweep import Bill

    _refuse_half(ledger, dataset)
    if ledger is not None and dataset is not None:
        return Bill(ledger, dataset, command_line())
    path = beside(folder, "ledger")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Ledger(path, create=True) as book:
        book.register(OWN_DATASET, Budget(NO_LIMIT, delta))
    _tell_own(path)
    return Bill(path, OWN_DATASET, command_line())


def command_line() -> str:
    """This command, as the ledger notes it."""
    return for_terminal("understudy " + " ".join(sys.argv[1:]))


def _refuse_half(ledger: Path | None, dataset: str | None) -> None:
    from understudy.errors import PlanError

    if (ledger is None) != (dataset is None):
        raise PlanError(
            "--ledger and --dataset go together: the file, and the name the data set is registered by."
        )


def _tell_own(path: Path) -> None:
    err.print(
        f"no ledger was given: this run is recorded in {path}. Other runs on the same data add up; "
        "register the data set with `understudy ledger register` to have that counted.",
    )


def _remove_unused(path: Path) -> None:
    """Take away a ledger that this run made if nobody uses it; what hinders that does not hide why the run failed."""
    from understudy.errors import UnderstudyError
    from understudy.ledger.ledger import Ledger

    with suppress(UnderstudyError), Ledger(path) as book:
        book.discard()


def remove_finished_checkpoint(release: Path, ledger: Path | None) -> bool:
    """Take away the checkpoint of a run whose release is saved: it was killed between the two; returns whether.

    It stays unless the checkpoint's plan is that of the release and, of a private run, the ledger has its entry closed
    with these very weights.
    """
    from understudy.errors import UnderstudyError
    from understudy.files import remove_leftovers
    from understudy.release.release import WEIGHTS, Release
    from understudy.run.checkpoint import load_checkpoint

    path = beside(release, "checkpoint")
    if not path.exists():
        return False
    try:
        card, state = Release.load(release).card, load_checkpoint(path)[0]
        weights = next(record.sha256 for record in card.files if record.name == WEIGHTS)
        closed = (
            state.entry is None or _closed_with(ledger or beside(release, "ledger"), state.entry) == weights
        )
    except UnderstudyError:
        return False
    if state.plan != card.plan or not closed:
        return False
    path.unlink(missing_ok=True)
    for one in (release, path):
        remove_leftovers(one)
    return True


def _closed_with(ledger: Path, entry: str) -> str | None:
    from understudy.ledger.ledger import Ledger

    with Ledger(ledger) as book:
        return book.entry(entry).release


@dataclass
class Signals:
    """Which signal arrived, if any."""

    received: list[int] = field(default_factory=list)

    def asked(self) -> bool:
        """Whether the run should stop."""
        return bool(self.received)

    @property
    def exit_code(self) -> int:
        """128 and the number of the signal, as shells expect."""
        return 128 + self.received[0] if self.received else 1


@contextmanager
def stopping() -> Iterator[Signals]:
    """Turn the first SIGINT or SIGTERM into a request to stop after the step; a second SIGINT stops at once."""
    signals = Signals()

    def note(number: int, _frame: object) -> None:
        if signals.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        signals.received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
