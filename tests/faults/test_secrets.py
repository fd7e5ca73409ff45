"""Nothing private leaks into files, logs or working files; stopping by signal is orderly."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny import tiny_frame

ROOT = Path(__file__).parent.parent.parent
HEIGHT = 1.7391846205
SCHEMA = """
kind = "table"
label = "outcome"
columns = [
  {kind = "continuous", name = "height", lower = 0.0, upper = 2.0},
  {kind = "categorical", name = "outcome", categories = ["well", "ill"]},
]
"""


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Private rows with a marker string in a column outside the schema, and a marker value inside it."""
    frame = tiny_frame(300)[["height", "outcome"]].assign(name="MARKER-83710")
    frame.loc[17, "height"] = HEIGHT
    frame.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "patients.toml").write_text(SCHEMA)
    return tmp_path


def start(folder: Path, steps: int, *more: str) -> subprocess.Popen[bytes]:
    words = [
        "fit",
        "patients.csv",
        "--schema",
        "patients.toml",
        "--epsilon",
        "3",
        "--delta",
        "1e-3",
        "--rows",
        "300",
        "--batch",
        "16",
        "--out",
        "release",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", *words, "--steps", str(steps), *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )


def marks() -> list[bytes]:
    """The marker row in every form in which it could be written."""
    scaled = HEIGHT - 1.0
    return [
        b"MARKER-83710",
        str(HEIGHT).encode(),
        struct.pack("<d", HEIGHT),
        struct.pack("<d", scaled),
        struct.pack("<f", HEIGHT),
        struct.pack("<f", scaled),
    ]


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_order_and_nothing_leaks(patients: Path, number: signal.Signals, code: int) -> None:
    """The run checkpoints, exits with 128 + signal, leaves private working files only, and they hold no row."""
    process = start(patients, 100_000)
    wait_for(patients / "release.checkpoint", process)
    time.sleep(0.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err.decode()
    assert b"--resume" in err
    assert b"Traceback" not in err
    left = {path.name for path in patients.iterdir()} - {"patients.csv", "patients.toml"}
    assert left == {"release.checkpoint", "release.ledger", "release.ledger.head"}
    for name in left:
        assert (patients / name).stat().st_mode & 0o077 == 0, f"{name} is readable by others"
        for mark in marks():
            assert mark not in (patients / name).read_bytes(), f"{name} holds a private value"
    for mark in marks():
        assert mark not in out + err


def test_a_release_and_its_samples_hold_no_row(patients: Path) -> None:
    """The whole way to a published folder: no file, log line or leftover holds a marker."""
    process = start(patients, 20)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    files = [path for path in patients.rglob("*") if path.is_file() and path.name != "patients.csv"]
    assert {path.name for path in files} >= {"card.json", "generator.safetensors", "README.md"}
    assert "release.checkpoint" not in {path.name for path in files}
    for path in files:
        for mark in marks():
            assert mark not in path.read_bytes(), f"{path.name} holds a private value"
    for mark in marks():
        assert mark not in out + err


def test_a_read_only_place_is_refused_before_training(patients: Path) -> None:
    """If nothing can be written, nothing is drawn, and the message says where."""
    if os.geteuid() == 0:
        (patients / "blocked").write_text("a file where a folder is needed")
    process = start(patients, 20, "--ledger", str(patients / "blocked" / "ledger"), "--dataset", "x")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"Traceback" not in err
    assert b"ledger" in err
