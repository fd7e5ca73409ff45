"""Real processes that are killed, race, run out of disk, or live with a broken clock."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from ledger_children import child, result
from understudy.errors import LedgerError
from understudy.ledger.ledger import Ledger, Status
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

STEPS = 1_000_000


def reserved(path: Path) -> str:
    """A ledger with one open entry; returns the entry's id."""
    with Ledger(path, create=True) as book:
        book.register("ward", Budget(5.0, 1e-5))
        return book.reserve("ward", [Charge("training", SubsampledGaussian(1e-4, 4.0, STEPS))]).id


DRAW = """
    path, entry, truth, group = sys.argv[1:]
    drawn = os.open(truth, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with Ledger(path) as book:
        meter = Meter(book, book.claim(entry), largest_group=int(group))
        while True:
            meter.before_step()
            os.write(drawn, b".")  # the step itself: from here on the data was touched
"""


def kill_while_drawing(tmp_path: Path, times: int, seed: int) -> None:
    """Kill drawing processes at random moments; after each, the ledger must cover what was drawn."""
    path, truth = tmp_path / "ledger.db", tmp_path / "drawn"
    entry = reserved(path)
    rng = random.Random(seed)
    for turn in range(times):
        before = truth.stat().st_size if truth.exists() else 0
        process = child(DRAW, path, entry, truth, rng.choice([1, 2, 50]))
        limit = time.monotonic() + 60
        while (not truth.exists() or truth.stat().st_size == before) and time.monotonic() < limit:
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        time.sleep(rng.expovariate(1 / 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Ledger(path) as book:
            book.verify()
            found = book.entry(entry)
            drawn = truth.stat().st_size
            assert drawn > before, f"turn {turn} drew nothing, so it tested nothing"
            assert found.status is Status.RESERVED
            assert found.steps_charged >= drawn
            assert found.steps_charged - drawn <= 50 * (turn + 1)


def test_charging_after_the_step_would_be_noticed(tmp_path: Path) -> None:
    """The planted bug: a process that draws first and dies before it charges has drawn what nobody counts."""
    path, truth = tmp_path / "ledger.db", tmp_path / "drawn"
    entry = reserved(path)
    late = DRAW.replace("meter.before_step()", "pass").replace(
        "touched", "touched\n            os.kill(os.getpid(), 9)\n            meter.before_step()"
    )
    assert result(child(late, path, entry, truth, 1))[0] == -signal.SIGKILL
    with Ledger(path) as book:
        assert book.entry(entry).steps_charged < truth.stat().st_size


def test_killed_processes_never_hide_a_step(tmp_path: Path) -> None:
    """After kill -9 at random moments, the ledger is whole and has charged at least what was drawn."""
    kill_while_drawing(tmp_path, 6, seed=1)


@pytest.mark.slow
def test_two_hundred_killed_processes_never_hide_a_step(tmp_path: Path) -> None:
    """The same at 200 random moments."""
    kill_while_drawing(tmp_path, 200, seed=2)


def test_two_processes_cannot_spend_the_same_remainder(tmp_path: Path) -> None:
    """Of two processes that want more than half of the budget at the same moment, exactly one gets it."""
    path, go = tmp_path / "ledger.db", tmp_path / "go"
    with Ledger(path, create=True) as book:
        book.register("ward", Budget(3.0, 1e-5))
    script = """
        path, go = sys.argv[1:]
        charges = [Charge("training", SubsampledGaussian(0.01, 1.0, 1500))]
        with Ledger(path) as book:
            book.would_leave("ward", charges)
            print("ready", flush=True)
            while not os.path.exists(go):
                time.sleep(0.001)
            try:
                book.reserve("ward", charges)
            except UnderstudyError as refusal:
                print(refusal)
                sys.exit(3)
    """
    racers = [child(script, path, go) for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    go.touch()
    ends = [result(racer) for racer in racers]
    assert sorted(code for code, _, _ in ends) == [0, 3], ends
    assert any("largest ε that would still fit" in out for _, out, _ in ends)
    with Ledger(path) as book:
        statement = book.statement("ward")
        assert len(statement.entries) == 1
        assert statement.spent.epsilon <= 3.0


def test_many_writers_leave_one_chain(tmp_path: Path) -> None:
    """Records that several processes append at once form one unbroken chain."""
    path = tmp_path / "ledger.db"
    with Ledger(path, create=True) as book:
        book.register("ward", Budget(5.0, 1e-5))
    script = """
        path, mark = sys.argv[1:]
        with Ledger(path) as book:
            for number in range(20):
                book.register(f"{mark} {number}", Budget(1.0, 1e-5))
    """
    for process in [child(script, path, mark) for mark in "abc"]:
        assert result(process)[0] == 0
    with Ledger(path) as book:
        assert book.verify().seq == 61
        assert len(book.datasets()) == 61


def test_a_clock_that_runs_backwards_does_no_harm(tmp_path: Path) -> None:
    """Nothing depends on the time of day: a clock that jumps back a day per look changes no figure."""
    path = tmp_path / "ledger.db"
    entry = reserved(path)
    script = """
        import datetime as real, types
        from understudy.ledger import journal
        class Backwards(real.datetime):
            day = 0
            @classmethod
            def now(cls, tz=None):
                cls.day += 1
                return real.datetime(2001, 1, 1, tzinfo=tz) - real.timedelta(days=cls.day)
        journal.dt = types.SimpleNamespace(datetime=Backwards, UTC=real.UTC)
        time.time = lambda: 0.0
        path, entry = sys.argv[1:]
        with Ledger(path) as book:
            meter = Meter(book, book.claim(entry), largest_group=3)
            for _ in range(30):
                meter.before_step()
            book.finish(meter.entry, "ab" * 32)
            book.verify()
    """
    code, _, err = result(child(script, path, entry))
    assert code == 0, err
    with Ledger(path) as book:
        book.verify()
        found = book.entry(entry)
        assert (found.status, found.release) == (Status.SPENT, "ab" * 32)
        assert 30 <= found.steps_charged <= 33
        assert book.statement("ward").entries == (found,)


@contextlib.contextmanager
def small_disk(folder: Path, size: str):
    """Mount a file system of the given size."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_the_run_before_the_step(tmp_path: Path) -> None:
    """A step whose charge cannot be written is not taken; with room again, the ledger is whole."""
    disk = tmp_path / "disk"
    with small_disk(disk, "400k"):
        path, truth = disk / "ledger.db", tmp_path / "drawn"
        entry = reserved(path)
        code, _, err = result(child(DRAW, path, entry, truth, 1))
        assert code == 1
        assert "LedgerError" in err
        assert "cannot be used" in err or "cannot be written" in err
        drawn = truth.stat().st_size
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        with Ledger(path) as book:
            book.verify()
            assert book.entry(entry).steps_charged >= drawn > 0
            book.progress(book.claim(entry), drawn + 10)


def test_a_read_only_disk_is_refused(tmp_path: Path) -> None:
    """A ledger that cannot be written is refused before anything is drawn, with the reason."""
    disk = tmp_path / "disk"
    with small_disk(disk, "4m"):
        entry = reserved(disk / "ledger.db")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, _, err = result(child(DRAW, disk / "ledger.db", entry, tmp_path / "drawn", 1))
        assert code == 1
        assert "LedgerError" in err
        assert (tmp_path / "drawn").stat().st_size == 0


def test_a_file_size_limit_stops_the_run_before_the_step(tmp_path: Path) -> None:
    """The same with a limit on file sizes, which needs no root: no step without its charge."""
    path, truth = tmp_path / "ledger.db", tmp_path / "drawn"
    entry = reserved(path)
    limit = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    """
    code, _, err = result(child(textwrap.dedent(limit) + textwrap.dedent(DRAW), path, entry, truth, 1))
    assert code == 1
    assert "LedgerError" in err
    with Ledger(path) as book:
        book.verify()
        assert book.entry(entry).steps_charged >= truth.stat().st_size > 0


def test_closing_an_entry_stops_the_process_that_draws(tmp_path: Path) -> None:
    """If somebody closes the entry of a live process, it stops at its next charge, and all it drew counts."""
    path, truth = tmp_path / "ledger.db", tmp_path / "drawn"
    entry = reserved(path)
    process = child(DRAW, path, entry, truth, 1)
    while not truth.exists() or truth.stat().st_size < 5:
        assert process.poll() is None
        time.sleep(0.001)
    with Ledger(path) as book:
        closed = book.finish(book.entry(entry))
    code, _, err = result(process)
    assert code == 1
    assert "is closed" in err
    assert closed.steps_charged >= truth.stat().st_size


def test_a_locked_ledger_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot get the lock in time says who to look for."""
    from understudy.ledger import journal

    path = tmp_path / "ledger.db"
    entry = reserved(path)
    monkeypatch.setattr(journal, "_PATIENCE", 0.05)
    with Ledger(path) as holder, Ledger(path) as waiter:
        mine = waiter.claim(entry)
        with holder._journal.transaction(), pytest.raises(LedgerError, match="Another process"):
            waiter.progress(mine, 5)
        assert waiter.progress(mine, 5).steps_charged == 5
