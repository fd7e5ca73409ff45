"""The account of a data set: reservations, progress, refunds and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from understudy.errors import BudgetError, LedgerError
from understudy.ledger.ledger import Ledger, Status, remaining_epsilon
from understudy.privacy.accounting import spent
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    RunCount,
    Selection,
    SubsampledGaussian,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGET = Budget(3.0, 1e-5)
HISTOGRAM = Charge("label histogram", GaussianRelease(30.0))


def run(steps: int = 1000, sigma: float = 1.5) -> tuple[Charge, ...]:
    """A histogram and a training run."""
    return (HISTOGRAM, Charge("training", SubsampledGaussian(0.01, sigma, steps)))


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger with one registered data set."""
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("ward", BUDGET)
        yield ledger


def test_charges_survive_the_journal(book: Ledger, tmp_path: Path) -> None:
    """Every kind of mechanism is read back equal, by another process's view of the file."""
    charges = (
        HISTOGRAM,
        Charge("training", SubsampledGaussian(0.01, 3.0, 100, batch_cap=900, rows=60_000)),
        Charge("choice", Selection((HISTOGRAM,), 2.0, RunCount.POISSON)),
    )
    entry = book.reserve("ward", charges, command="understudy fit")
    with Ledger(tmp_path / "ledger.db") as other:
        assert other.entry(entry.id) == entry
        assert other.entry(entry.id).charges == charges
        assert other.entry(entry.id).versions["dp-accounting"].startswith("0.6")


def test_a_reservation_counts_in_full(book: Ledger) -> None:
    """An open entry counts its whole plan, whatever progress it reported."""
    entry = book.reserve("ward", run())
    book.progress(entry, 10)
    assert book.statement("ward").spent == spent(run(), BUDGET.delta)


def test_a_finished_run_counts_what_it_charged(book: Ledger) -> None:
    """A run that stopped early counts the steps it charged, and all of its other charges."""
    entry = book.reserve("ward", run(1000))
    book.progress(entry, 400)
    closed = book.finish(entry)
    assert closed.status is Status.SPENT
    assert closed.counted() == run(400)
    assert book.statement("ward").spent == spent(run(400), BUDGET.delta)


def test_steps_of_several_trainings_count_in_order(book: Ledger) -> None:
    """With two training charges, charged steps fill the first before the second."""
    warm = Charge("warm-up", SubsampledGaussian(0.01, 4.0, 100))
    entry = book.reserve("ward", (warm, *run(500)))
    assert entry.steps_planned == 600
    book.progress(entry, 250)
    steps = [
        charge.mechanism.steps
        for charge in book.finish(entry).counted()
        if isinstance(charge.mechanism, SubsampledGaussian)
    ]
    assert steps == [100, 150]


def test_entries_compose_by_the_accountant(book: Ledger) -> None:
    """Two runs together cost what the accountant says of their events, which is less than the sum."""
    for _ in range(2):
        entry = book.reserve("ward", run())
        book.progress(entry, 1000)
        book.finish(entry, "00" * 32)
    total = book.statement("ward").spent.epsilon
    one = spent(run(), BUDGET.delta).epsilon
    assert total == spent((*run(), *run()), BUDGET.delta).epsilon
    assert one < total < 2 * one


def test_over_budget_is_refused_with_what_would_fit(book: Ledger) -> None:
    """A run that does not fit is refused, nothing is written, and the ε named in the message does fit."""
    book.reserve("ward", run())
    head = book.head()
    with pytest.raises(BudgetError, match="largest ε that would still fit") as refusal:
        book.reserve("ward", run(20_000))
    assert book.head() == head
    named = float(str(refusal.value).rsplit(" ", 1)[1].rstrip("."))
    left = remaining_epsilon(book.counted("ward"), BUDGET)
    assert named == pytest.approx(left, rel=1e-3)
    assert 0 < left < BUDGET.epsilon


def test_what_is_left_fits_and_hardly_more_does(book: Ledger) -> None:
    """A release at the remaining ε is accepted; one with 5 % less noise is not."""
    from understudy.privacy.calibration import noise_for

    book.reserve("ward", run())
    before = book.counted("ward")
    sigma = noise_for(lambda value: (*before, Charge("next", GaussianRelease(value))), BUDGET)
    with pytest.raises(BudgetError):
        book.would_leave("ward", [Charge("next", GaussianRelease(sigma * 0.95))])
    book.reserve("ward", [Charge("next", GaussianRelease(sigma))])
    assert remaining_epsilon(book.counted("ward"), BUDGET) < 0.2


def test_refund_only_where_nothing_was_drawn(book: Ledger) -> None:
    """A reservation can be given back until drawing is announced, even of zero steps."""
    entry = book.reserve("ward", run())
    assert book.refund(entry).status is Status.REFUNDED
    assert book.statement("ward").spent.epsilon == 0
    second = book.reserve("ward", run())
    book.progress(second, 0)
    with pytest.raises(LedgerError, match="cannot be refunded"):
        book.refund(second)


@pytest.mark.parametrize("drew", [False, True])
def test_a_process_that_died_before_it_drew_costs_nothing(drew: bool, book: Ledger, tmp_path: Path) -> None:
    """The next reservation gives back what a dead process reserved, but only if no draw was announced."""
    program = f"""
from pathlib import Path
from understudy.ledger.ledger import Ledger
from understudy.privacy.mechanisms import Charge, GaussianRelease
with Ledger(Path({str(tmp_path / "ledger.db")!r})) as book:
    entry = book.reserve("ward", (Charge("label histogram", GaussianRelease(2.0)),))
    if {drew}:
        book.draw(entry, "label histogram")
"""
    source = str(Path(__file__).parent.parent.parent / "src")
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": source})
    alive = book.reserve("ward", (HISTOGRAM,))
    dead, _ = book.statement("ward").entries
    assert dead.status is (Status.RESERVED if drew else Status.REFUNDED)
    book.reserve("ward", (HISTOGRAM,))
    assert book.entry(alive.id).status is Status.RESERVED, "its process runs: this one"
    if not drew:
        with pytest.raises(LedgerError, match="closed"):
            book.draw(dead, "label histogram")


def test_progress_never_goes_back_or_beyond(book: Ledger) -> None:
    """Charged steps only grow, and never beyond the reservation."""
    entry = book.reserve("ward", run(100))
    book.progress(entry, 50)
    for steps in (49, 101, -1):
        with pytest.raises(LedgerError, match="progress goes forward"):
            book.progress(entry, steps)
    assert book.entry(entry.id).steps_charged == 50


def test_closed_entries_stay_closed(book: Ledger) -> None:
    """Nothing can be charged to, refunded from or closed on a closed entry."""
    entry = book.reserve("ward", run(100))
    book.finish(entry)
    for action in (lambda: book.progress(entry, 1), lambda: book.finish(entry), lambda: book.refund(entry)):
        with pytest.raises(LedgerError, match="closed"):
            action()


def test_a_claimed_entry_belongs_to_the_claimer(book: Ledger, tmp_path: Path) -> None:
    """Resuming takes an entry over: the process that held it can charge no more."""
    entry = book.reserve("ward", run(100))
    book.progress(entry, 10)
    with Ledger(tmp_path / "ledger.db") as other:
        mine = other.claim(entry.id)
        other.progress(mine, 20)
        with pytest.raises(LedgerError, match="taken over"):
            book.progress(entry, 30)
    assert book.entry(entry.id).steps_charged == 20


def test_a_budget_is_promised_once(book: Ledger) -> None:
    """Registering again with the same budget is harmless; with another one it is refused."""
    book.register("ward", BUDGET)
    with pytest.raises(LedgerError, match="cannot be changed"):
        book.register("ward", Budget(9.0, 1e-5))
    assert book.datasets() == {"ward": BUDGET}


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\x00b"])
def test_names_are_printable(book: Ledger, name: str) -> None:
    """A data set's name can be printed."""
    with pytest.raises(LedgerError, match="name"):
        book.register(name, BUDGET)


def test_data_sets_do_not_share_a_budget(book: Ledger) -> None:
    """What one data set spends does not count against another; unknown names are explained."""
    book.register("clinic", Budget(1.0, 1e-6, Adjacency.REPLACE_ONE))
    book.reserve("ward", run())
    assert book.statement("clinic").spent.epsilon == 0
    assert book.statement("clinic").spent.adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(LedgerError, match="clinic, ward"):
        book.statement("office")
    with pytest.raises(LedgerError, match="no entry"):
        book.entry("77")


def test_replace_one_budgets_are_held_to_the_replace_one_figure(tmp_path: Path) -> None:
    """The same run fits an add-or-remove budget and not the same number under replace-one."""
    cost = spent(run(), 1e-5)
    assert cost.epsilon_replace_one is not None
    limit = (cost.epsilon + cost.epsilon_replace_one) / 2
    with Ledger(tmp_path / "two.db", create=True) as book:
        book.register("add", Budget(limit, 1e-5))
        book.register("replace", Budget(limit, 1e-5, Adjacency.REPLACE_ONE))
        book.reserve("add", run())
        with pytest.raises(BudgetError, match="replace-one"):
            book.reserve("replace", run())


def test_statement_as_plain_values(book: Ledger) -> None:
    """The statement has the documented keys, and is JSON."""
    import json

    entry = book.reserve("ward", run(100), command="understudy fit")
    book.progress(entry, 100)
    book.finish(entry, "ab" * 32)
    plain = json.loads(json.dumps(book.statement("ward").to_plain(), allow_nan=False))
    assert plain["dataset"] == "ward"
    assert plain["epsilon_spent"] <= plain["epsilon_budget"] == 3.0
    assert (plain["delta"], plain["adjacency"]) == (1e-5, "add-or-remove-one")
    assert plain["head"] == str(book.head())
    (row,) = plain["entries"]
    assert {"id", "status", "event", "steps_charged", "release"} <= set(row)
    assert (row["status"], row["steps_charged"], row["release"]) == ("spent", 100, "ab" * 32)
    assert [event["mechanism"]["kind"] for event in row["event"]] == ["gaussian", "subsampled-gaussian"]


def test_unknown_records_are_refused(book: Ledger, tmp_path: Path) -> None:
    """A record of a newer format stops the reader: it might be a charge."""
    with book._journal.transaction():
        book._journal.append("gift", {})
    with Ledger(tmp_path / "ledger.db") as other, pytest.raises(LedgerError, match="unknown action"):
        other.datasets()


def test_incomplete_records_are_refused(book: Ledger, tmp_path: Path) -> None:
    """A record with missing or wrong fields is refused with its number."""
    with book._journal.transaction():
        book._journal.append("progress", {"entry": "1"})
    with Ledger(tmp_path / "ledger.db") as other, pytest.raises(LedgerError):
        other.datasets()
