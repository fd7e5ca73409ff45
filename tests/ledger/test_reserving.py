"""Reserving computes its cost while others may write, and no two runs spend the same remainder."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_children import child, result
from understudy.errors import BudgetError
from understudy.ledger import journal, ledger
from understudy.ledger.ledger import Ledger
from understudy.privacy.accounting import Spent, spent
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

TRAINING = (Charge("training", SubsampledGaussian(0.01, 1.0, 1500)),)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with two data sets, of which the first has room for one training; nobody waits long."""
    monkeypatch.setattr(journal, "_PATIENCE", 0.2)
    made = tmp_path / "ledger.db"
    with Ledger(made, create=True) as book:
        book.register("ward", Budget(3.0, 1e-5))
        book.register("clinic", Budget(3.0, 1e-5))
    return made


def while_computing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another process act each time before a cost is computed."""

    def slow(*words: object) -> Spent:
        act()
        return spent(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger, "spent", slow)


def test_others_charge_while_a_cost_is_computed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on another data set gets its charges on record whenever a reservation is computing."""
    with Ledger(path) as book, Ledger(path) as other:
        running, steps = other.reserve("clinic", TRAINING), itertools.count(1)
        while_computing(monkeypatch, lambda: other.progress(running, next(steps)))
        book.reserve("ward", TRAINING)
        assert other.entry(running.id).steps_charged >= 1


def test_a_remainder_that_was_taken_meanwhile_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost that was computed for an account that has changed does not count: it is computed again and refused."""
    with Ledger(path) as book, Ledger(path) as other:
        first = iter([True])
        while_computing(monkeypatch, lambda: next(first, False) and other.reserve("ward", TRAINING))
        with pytest.raises(BudgetError, match="largest ε"):
            book.reserve("ward", TRAINING)
        assert len(book.statement("ward").entries) == 1


def test_a_turn_that_never_comes_stops_nobody(path: Path) -> None:
    """Whoever waits in line behind a process that hangs goes on after a while; the check inside the lock guards."""
    with Ledger(path) as book, Ledger(path) as hanging, hanging._journal.turn():
        assert book.reserve("ward", TRAINING).steps_planned == 1500


RESERVE = """
    path, go, number = sys.argv[1:]
    with Ledger(path) as book:
        print("ready", flush=True)
        while not os.path.exists(go):
            time.sleep(0.001)
        book.reserve("ward", [Charge("training", SubsampledGaussian(0.01, 2 + 0.01 * int(number), 1000))])
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_charge_does_not_wait_for_twenty_four_reserves(tmp_path: Path) -> None:
    """With 24 processes reserving at once all succeed, and a run on another data set goes on charging meanwhile."""
    path, go = tmp_path / "ledger.db", tmp_path / "go"
    with Ledger(path, create=True) as book:
        book.register("ward", Budget(100.0, 1e-5))
        book.register("clinic", Budget(3.0, 1e-5))
        entry = book.reserve("clinic", TRAINING)
        crowd: list[subprocess.Popen[str]] = [child(RESERVE, path, go, number) for number in range(24)]
        for one in crowd:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        go.touch()
        waits, charged = [], 0
        while any(one.poll() is None for one in crowd) and charged < 1500:
            start = time.perf_counter()
            charged += 1
            entry = book.progress(entry, charged)
            waits.append(time.perf_counter() - start)
            time.sleep(0.1)
        assert [result(one)[0] for one in crowd] == [0] * 24
        assert len(book.statement("ward").entries) == 24
        assert charged > 10, "the run was held up"
    print(f"worst wait for a charge: {max(waits):.3f} s over {len(waits)} charges")  # noqa: T201
