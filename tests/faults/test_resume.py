"""What a run may lose: nothing by two crashes in a row, a full disk, a signal while reading, or a plan with a hole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tiny import TINY_TABLE, tiny_frame, tiny_plan
from understudy import files
from understudy.errors import CheckpointError, Interrupted, UnderstudyError
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger, Status
from understudy.planning import Plan, plan
from understudy.privacy.budget import Budget
from understudy.release.release import Release
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit

EVERY = 20


class Crash(BaseException):
    """The process is gone, as far as its files can tell."""


def run(
    folder: Path, made: Plan, *, resume: bool = False, dies_at: int | None = None, **options: Any
) -> Release:
    """A fit on record with checkpoints that crashes after some step, or the first one beyond it."""

    def die(progress: Any) -> None:
        if dies_at is not None and progress.done >= dies_at:
            raise Crash

    with Ledger(folder / "ward.ledger", create=True) as book:
        book.register("ward", Budget(made.budget.epsilon, made.budget.delta))  # type: ignore[union-attr]
        points = Checkpoints(folder / "run.checkpoint", EVERY, resume)
        account = LedgerAccount(book, "ward", every=EVERY)
        data = options.pop("data", tiny_frame())
        return fit(data, made, account=account, checkpoints=points, on_progress=die, **options)


def entries(folder: Path) -> list[Any]:
    """The entries of the ledger."""
    with Ledger(folder / "ward.ledger") as book:
        return list(book.statement("ward").entries)


@pytest.mark.parametrize("deaths", [(19, 30), (7, 27, 41), (20, 21), (39, 40, 59), (1, 19, 20)], ids=str)
def test_crashes_in_a_row_can_be_resumed(deaths: tuple[int, ...], tmp_path: Path) -> None:
    """However often a critic run dies, the next resume is accepted, and no step is drawn without a charge."""
    made = tiny_plan(steps=60)
    for number, step in enumerate(deaths):
        with pytest.raises(Crash):
            run(tmp_path, made, resume=number > 0, dies_at=step)
        (entry,) = entries(tmp_path)
        assert entry.steps_charged >= step
    assert run(tmp_path, made, resume=True).card.private
    assert entries(tmp_path)[0].steps_charged == 60


def table_plan() -> Plan:
    """A plan of the default for tables, which draws its statistics once, at the start."""
    return plan(TINY_TABLE, epsilon=2.0, delta=1e-3, rows=64, recipe="understudy", steps=30)


def test_a_full_disk_at_the_first_checkpoint_loses_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no checkpoint can be written, the run ends with its release, or before it draws, or can be resumed."""

    def full(path: Path, content: bytes, **_: object) -> None:
        raise CheckpointError(f"{path} cannot be written: No space left on device.")

    monkeypatch.setattr("understudy.ledger.journal.write_whole", files.write_whole)  # its disk has room
    monkeypatch.setattr(files, "write_whole", full)
    try:
        assert run(tmp_path, table_plan()).card.private
    except CheckpointError:
        (entry,) = entries(tmp_path)
        assert entry.status is Status.REFUNDED or (tmp_path / "run.checkpoint").exists(), "the budget is lost"


@pytest.mark.parametrize("made", [tiny_plan(), table_plan()], ids=["critic", "statistic"])
def test_a_signal_while_the_data_is_read_gives_the_budget_back(made: Plan, tmp_path: Path) -> None:
    """Nothing is drawn yet, so the run stops and the reservation is refunded."""
    with pytest.raises(Interrupted):
        run(tmp_path, made, stop=lambda: True)
    (entry,) = entries(tmp_path)
    assert entry.status is Status.REFUNDED
    assert not entry.drawn


@pytest.mark.parametrize("made", [tiny_plan(), table_plan()], ids=["critic", "statistic"])
def test_a_plan_with_a_hole_is_refused_before_anything_is_announced(made: Plan, tmp_path: Path) -> None:
    """A plan that neither declares the number of rows nor charges for it is refused with a reason, free of charge."""
    with pytest.raises(UnderstudyError):
        run(tmp_path, replace(made, rows=None))
    assert all(entry.status is Status.REFUNDED for entry in entries(tmp_path))
