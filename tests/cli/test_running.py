"""What stands around a run: its own ledger, and the checkpoint that a kill left beside a finished release."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tiny import tiny_frame, tiny_plan
from understudy.cli.running import command_line, remove_finished_checkpoint
from understudy.errors import DataError, LedgerError, UnderstudyError
from understudy.ledger.ledger import Ledger
from understudy.run.checkpoint import Checkpoints
from understudy.run.fit import fit
from understudy.run.record import OWN_DATASET, beside, open_account


def fail(release: Path, error: Exception) -> None:
    """A run without a ledger of its own that fails before it draws."""
    with open_account(tiny_plan(), release, None, None, 500):
        raise error


def test_a_run_that_fails_at_once_takes_its_ledger_away(tmp_path: Path) -> None:
    """Nothing was recorded, so nothing stays."""
    with pytest.raises(DataError):
        fail(tmp_path / "release", DataError("no such file"))
    assert list(tmp_path.iterdir()) == []


def test_a_refused_run_leaves_the_ledger_of_another(tmp_path: Path) -> None:
    """Two fits to one place: the one that made the ledger is refused, the other has reserved and not yet drawn."""
    release, plan = tmp_path / "release", tiny_plan()

    def refused() -> None:
        with open_account(plan, release, None, None, 500), Ledger(beside(release, "ledger")) as other:
            other.reserve(OWN_DATASET, plan.charges)
            raise DataError("no such file")

    with pytest.raises(DataError):
        refused()
    with Ledger(beside(release, "ledger")) as book:
        assert len(book.statement(OWN_DATASET).entries) == 1


def test_who_comes_between_is_refused_before_it_draws(tmp_path: Path) -> None:
    """A run that had opened a ledger which was then taken away cannot reserve in it unseen."""
    release, plan = tmp_path / "release", tiny_plan()
    with open_account(plan, release, None, None, 500), Ledger(beside(release, "ledger")) as other:
        with Ledger(beside(release, "ledger")) as book:
            assert book.discard()
        with pytest.raises(LedgerError, match="missing"):
            other.reserve(OWN_DATASET, plan.charges)


def test_the_true_error_is_shown(tmp_path: Path) -> None:
    """Where no ledger can be made, the reason is the place, not that there is no ledger."""
    (tmp_path / "blocked").write_text("a file where a folder is needed")
    with pytest.raises(UnderstudyError) as raised:
        fail(tmp_path / "blocked" / "release", AssertionError("it was opened"))
    assert "Not a directory" in str(raised.value)


def finished(folder: Path) -> Path:
    """A release on record whose run was killed before it deleted its checkpoint."""
    release, plan = folder / "release", tiny_plan()
    with open_account(plan, release, None, None, 2) as account:
        points = Checkpoints(beside(release, "checkpoint"), 2)
        fit(tiny_frame(), plan, account=account, checkpoints=points).save(release)
    return release


def test_the_checkpoint_of_a_finished_run_is_removed(tmp_path: Path) -> None:
    """The next command that finds the release complete takes the checkpoint away."""
    release = finished(tmp_path)
    assert beside(release, "checkpoint").exists()
    assert remove_finished_checkpoint(release, None)
    assert not beside(release, "checkpoint").exists()
    assert not remove_finished_checkpoint(release, None)


def test_the_checkpoint_of_another_run_stays(tmp_path: Path) -> None:
    """A checkpoint whose entry was closed with other weights, or is still open, is worth its budget."""
    release = finished(tmp_path / "one")
    other = finished(tmp_path / "two")
    for ending in ("ledger", "ledger.head", "checkpoint"):
        beside(other, ending).replace(beside(release, ending))
    assert not remove_finished_checkpoint(release, None)
    assert beside(release, "checkpoint").exists()


def test_no_password_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger notes the command of a run, but neither user nor password nor parameters of an address in it."""
    words = [
        "fit",
        "postgresql://curator:horse@host/wards?sslkey=horse",
        "--query",
        "select 1",
        "--out",
        "release",
    ]
    monkeypatch.setattr(sys, "argv", ["understudy", *words])
    assert command_line() == "understudy fit postgresql://host/wards --query select 1 --out release"
    with open_account(tiny_plan(), tmp_path / "release", None, None, 2, command=command_line()) as account:
        assert account is not None
        account.reserve(tiny_plan())
    for path in tmp_path.iterdir():
        assert b"horse" not in path.read_bytes()
        assert b"curator" not in path.read_bytes()
