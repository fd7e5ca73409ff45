"""Where a run is on record: in the ledger that was given, or in one of its own beside the release."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import PlanError, ReleaseError, UnderstudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from understudy.ledger.account import Account, LedgerAccount
    from understudy.planning import Plan
    from understudy.run.checkpoint import Checkpoints

__all__ = ["OWN_DATASET", "beside", "open_account", "recorded", "refuse_half", "told_own"]

OWN_DATASET = "this data set"
"""How a ledger beside a release calls the one data set that it knows."""

_log = logging.getLogger(__name__)


def beside(release: Path, ending: str) -> Path:
    """The working file of a release: in the same folder, with another ending."""
    return release.parent / f"{release.name}.{ending}"


def refuse_half(ledger: Path | None, dataset: str | None) -> None:
    """Refuse a ledger without the name of a data set in it, and the other way round."""
    if (ledger is None) != (dataset is None):
        raise PlanError(
            "--ledger and --dataset (ledger=…, dataset=…) go together: the file, and the name the data set is "
            "registered by."
        )


def told_own(path: Path) -> str:
    """What is said about a run that was given no ledger."""
    return (
        f"no ledger was given: this run is recorded in {path}. Other runs on the same data add up; "
        "register the data set with `understudy ledger register` to have that counted."
    )


@contextmanager
def open_account(
    plan: Plan,
    release: Path,
    ledger: Path | None,
    dataset: str | None,
    every: int | None = None,
    *,
    command: str = "",
    say: Callable[[str], None] = _log.info,
) -> Iterator[LedgerAccount | None]:
    """An account in the given ledger, or in a private one beside the release; None for a baseline.

    Args:
        plan: what will be charged.
        release: where the release will be saved.
        ledger: the ledger, together with `dataset`; None makes one beside the release.
        dataset: the name that the data set is registered by.
        every: steps between checkpoints, or None without checkpoints.
        command: what to note as the command of the run.
        say: told where the run is recorded if no ledger was given.
    """
    if plan.budget is None:
        yield None
        return
    refuse_half(ledger, dataset)
    path = beside(release, "ledger") if ledger is None else ledger
    new = not path.exists()
    try:
        with _opened(plan, path, dataset, every, command, say) as account:
            yield account
    except UnderstudyError:
        if ledger is None and new:
            _remove_unused(path)
        raise


@contextmanager
def recorded(
    plan: Plan,
    account: Account | None,
    out: str | Path | None,
    ledger: str | Path | None,
    dataset: str | None,
    checkpoints: Checkpoints | None,
    *,
    seeded: bool,
) -> Iterator[Account | None]:
    """The account that a run in Python is charged to; a warning where there is none.

    A private run with checkpoints always has one, beside the checkpoint if nobody says where: only a record tells after
    a crash what was drawn since the last checkpoint, so that it is not drawn again.

    Raises:
        PlanError: both an account and a ledger are given, or half of a ledger.
        ReleaseError: the folder of the release exists already.
    """
    if out is not None and Path(out).exists():
        raise ReleaseError(f"{out} exists already. Remove it or choose another name for out.")
    if account is not None:
        if ledger is not None or dataset is not None:
            raise PlanError("give either an account or a ledger with the name of a data set, not both.")
        yield account
    elif (out, ledger, dataset) == (None, None, None) and (checkpoints is None or seeded or not plan.private):
        if plan.private and not seeded:
            _log.warning(
                "This run is charged to no ledger. Pass out='folder', and it is recorded beside the release, or "
                "ledger='file' and dataset='name'; several runs on the same data add up."
            )
        yield None
    else:
        given = None if ledger is None else Path(ledger)
        folder = (
            Path(out) if out is not None else Path("release") if checkpoints is None else checkpoints.path
        )
        every = None if checkpoints is None else checkpoints.every
        with open_account(plan, folder, given, dataset, every, command="understudy.fit") as opened:
            yield opened


@contextmanager
def _opened(
    plan: Plan,
    path: Path,
    dataset: str | None,
    every: int | None,
    command: str,
    say: Callable[[str], None],
) -> Iterator[LedgerAccount]:
    from understudy.ledger.account import LedgerAccount
    from understudy.ledger.ledger import Ledger

    with Ledger(path, create=dataset is None) as book:
        if dataset is None:
            assert plan.budget is not None
            book.register(OWN_DATASET, plan.budget)
            say(told_own(path))
        yield LedgerAccount(book, dataset or OWN_DATASET, command=command, every=every)


def _remove_unused(path: Path) -> None:
    """Take away a ledger that this run made if nobody uses it; what hinders that does not hide why the run failed."""
    from understudy.ledger.ledger import Ledger

    with suppress(UnderstudyError), Ledger(path) as book:
        book.discard()
