"""kill -9 at random moments: the ledger never says less than what was drawn, and nothing is half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from patients import marked_patients
from tiny import tiny_images

HERE = Path(__file__).parent

IMAGES = """
kind = "images"
height = 8
width = 8
channels = 1
classes = ["ring", "bar"]
"""
CODES = """
kind = "codes"
codes = ["a", "b", "c", "d"]
"""


def private_files(folder: Path) -> Path:
    """Rows, images and codes, with their schemas."""
    marked_patients(folder)
    images, chance = tiny_images(60), np.random.default_rng(0)
    np.savez(folder / "images.npz", x=images.pixels, y=images.labels)
    (folder / "images.toml").write_text(IMAGES)
    pd.DataFrame(chance.integers(0, 2, (300, 4)), columns=list("abcd")).to_csv(
        folder / "codes.csv", index=False
    )
    (folder / "codes.toml").write_text(CODES)
    return folder


def kill_runs(folder: Path, trials: int, seed: int) -> list[dict[str, Any]]:
    """Let the driver fit and kill; one result per trial."""
    source = private_files(folder / "given")
    (folder / "work").mkdir()
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "crash_driver.py"),
            str(source),
            str(folder / "work"),
            str(trials),
            str(seed),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(results: list[dict[str, Any]], given: set[str]) -> None:
    """Every look after a kill found everything in order, and every run could be brought to its end."""
    for result in results:
        for seen in result["looks"]:
            assert not seen["unpaid"], f"{result['kind']}: {seen['unpaid']} drawn that is not on record"
            assert seen["readable"], f"the ledger cannot be read after a kill: {seen['problem']}"
            assert seen["complete"], "half a release stands at the final path"
        if "resumed" in result:
            assert result["resumed"] == 0, f"a {result['kind']} run could not be resumed"
            expected = {*given, "drawn", "release", "release.ledger", "release.ledger.head"}
            assert set(result["left"]) == expected, "working files are left"


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    """Eight runs of four synthesizers, killed one to three times in a row: the account holds, resuming works."""
    results = kill_runs(tmp_path, 8, seed=1)
    check(results, {path.name for path in (tmp_path / "given").iterdir()})
    assert {result["kind"] for result in results} == {"gan", "marginals", "embedding", "codes"}
    assert len({seen["drawn"] for result in results for seen in result["looks"]}) > 1, (
        "all kills in one phase"
    )


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_three_hundred_runs_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same with three hundred runs."""
    results = kill_runs(tmp_path, 300, seed=2)
    check(results, {path.name for path in (tmp_path / "given").iterdir()})
    resumed = sum("resumed" in result for result in results)
    kills = sum(len(result["looks"]) for result in results) - resumed
    with capsys.disabled():
        sys.stdout.write(f"\n{kills} kills of {len(results)} runs, of which {resumed} were resumed\n")
