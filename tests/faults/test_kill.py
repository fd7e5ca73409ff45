"""kill -9 at random moments: the ledger never says less than what was drawn, and nothing is half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patients import GIVEN, marked_patients

HERE = Path(__file__).parent


def kill_runs(folder: Path, trials: int, seed: int) -> list[dict[str, Any]]:
    """Let the driver fit and kill; one result per trial."""
    marked_patients(folder)
    (folder / "work").mkdir()
    source = str(HERE.parent.parent / "src")
    words = [
        str(HERE / "crash_driver.py"),
        str(folder),
        str(folder / "work"),
        str(trials),
        str(seed),
    ]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(results: list[dict[str, Any]]) -> None:
    for result in results:
        assert result["charged"] >= result["drawn"], "a step was drawn that is not on record"
        assert result["readable"], f"the ledger cannot be read after a kill: {result['problem']}"
        assert result["complete"], "half a release stands at the final path"
        if "resumed" in result:
            assert result["resumed"] == 0, "a run could not be resumed"
            assert result["after"]["charged"] == 60
            assert result["after"]["drawn"] <= 60, "more steps were drawn than the plan has"
            expected = {*GIVEN[:2], "drawn", "release", "release.ledger", "release.ledger.head"}
            assert set(result["left"]) == expected, "working files are left"


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    """Six kills over all phases of a fit: the account holds, resuming works."""
    results = kill_runs(tmp_path, 6, seed=1)
    check(results)
    assert len({result["drawn"] for result in results}) > 1, "the kills did not reach different phases"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    """The same two hundred times."""
    check(kill_runs(tmp_path, 200, seed=2))
