"""`understudy fit` where the disk is full or read-only, or where another fit is at work: real processes, real disks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patients import GIVEN, ended, fit, marked_patients, prepared, understudy, wait_for
from understudy.ledger.ledger import Ledger, Status
from understudy.run.checkpoint import load_checkpoint

STEPS = 20_000
"""More than any test waits for."""

OFTEN = ("--checkpoint-every", 20)
BUDGET = ("--epsilon", 4, "--delta", "1e-3")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four mebibytes, with the patients on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield marked_patients(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    filler = folder / "filler"
    handle = os.open(filler, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (2**16, 2**12, 1):
            while True:
                try:
                    os.write(handle, b"x" * size)
                except OSError:
                    break
    finally:
        os.close(handle)
    return filler


def charged(ledger: Path) -> int:
    """Steps on record in the ledger that a fit made for itself."""
    with Ledger(ledger) as book:
        book.verify()
        (entry,) = book.statement("this data set").entries
        assert entry.status is Status.RESERVED
        return entry.steps_charged


def test_a_disk_that_fills_up_stops_a_fit_that_can_go_on_later(disk: Path) -> None:
    """The run ends with a reason, the last checkpoint is whole, all it holds is on record, and resuming works."""
    process = fit(disk, STEPS, *OFTEN)
    wait_for(disk / "release.checkpoint", process)
    filler = fill(disk)
    code, told = ended(process)
    assert code == 1
    assert "space" in told or "full" in told, told
    filler.unlink()
    step = load_checkpoint(disk / "release.checkpoint")[0].step
    assert charged(disk / "release.ledger") >= step
    left = {path.name for path in disk.iterdir()} - {*GIVEN, "release.ledger-wal", "release.ledger-shm"}
    assert left == {"release.checkpoint", "release.ledger", "release.ledger.head"}
    before = (disk / "release.checkpoint").stat().st_mtime_ns
    again = fit(disk, STEPS, *OFTEN, "--resume")
    while (disk / "release.checkpoint").stat().st_mtime_ns == before and again.poll() is None:
        time.sleep(0.02)
    again.send_signal(signal.SIGINT)
    assert ended(again)[0] == 130
    assert load_checkpoint(disk / "release.checkpoint")[0].step > step


def test_a_read_only_disk_is_refused_before_anything_is_drawn(disk: Path) -> None:
    """If nothing can be written, nothing is read or drawn, and the message says where."""
    prepared(disk, 20)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    code, told = ended(understudy(disk, "fit", GIVEN[0], "--plan", GIVEN[2], "--out", "release"))
    assert code == 1
    assert "release.ledger" in told
    assert {path.name for path in disk.iterdir()} == set(GIVEN)


def test_a_place_that_cannot_be_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    """A file where a folder is needed is named, and nothing is left beside it; this needs no root."""
    marked_patients(tmp_path)
    (tmp_path / "blocked").write_text("a file where a folder is needed")
    code, told = ended(fit(tmp_path, 20, *OFTEN, out="blocked/release"))
    assert code == 1
    assert "blocked" in told
    assert {path.name for path in tmp_path.iterdir()} == {*GIVEN, "blocked"}


@pytest.mark.slow
def test_a_second_fit_to_the_same_place_is_refused(tmp_path: Path) -> None:
    """While one fit runs, the same command again is refused, and the first one is not disturbed."""
    first = fit(marked_patients(tmp_path), STEPS, *OFTEN)
    wait_for(tmp_path / "release.checkpoint", first)
    code, told = ended(fit(tmp_path, STEPS, *OFTEN))
    assert code == 1
    assert "budget" in told, told
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    assert ended(first)[0] == 130
    assert charged(tmp_path / "release.ledger") == load_checkpoint(tmp_path / "release.checkpoint")[0].step


@pytest.mark.slow
def test_two_fits_cannot_both_spend_what_is_left(tmp_path: Path) -> None:
    """Of two fits of ε = 3 on a data set with ε = 4, started together, one releases and one is refused."""
    marked_patients(tmp_path)
    book = ("--ledger", "ward.db", "--dataset", "ward")
    assert ended(understudy(tmp_path, "ledger", "register", *book, *BUDGET))[0] == 0
    racers = [fit(tmp_path, 30, *OFTEN, *book, out=name) for name in ("one", "two")]
    ends = [ended(racer) for racer in racers]
    assert sorted(code for code, _ in ends) == [0, 1], ends
    assert any("largest ε that would still fit" in told for _, told in ends), ends
    released = [name for name in ("one", "two") if (tmp_path / name).exists()]
    assert len(released) == 1
    with Ledger(tmp_path / "ward.db") as ledger:
        assert ledger.statement("ward").spent.epsilon <= 4
