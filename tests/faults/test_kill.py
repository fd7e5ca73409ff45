"""kill -9 at random moments: the ledger never says less than what was drawn, and nothing is half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from patients import SCHEMA, marked_patients
from tiny import TINY_TABLE, tiny_frame, tiny_images
from understudy.schema import schema_to_toml

HERE = Path(__file__).parent

IMAGES = """
kind = "images"
height = 8
width = 8
channels = 1
classes = ["ring", "bar"]
"""
OPEN = SCHEMA.replace("upper = 2.0", 'upper = "discover"')
CODES = """
kind = "codes"
codes = ["a", "b", "c", "d"]
"""


def private_files(folder: Path) -> Path:
    """Rows, images and codes, with their schemas."""
    marked_patients(folder)
    (folder / "open.toml").write_text(OPEN)
    tiny_frame(300).to_csv(folder / "wide.csv", index=False)
    (folder / "wide.toml").write_text(schema_to_toml(TINY_TABLE))
    images, chance = tiny_images(60), np.random.default_rng(0)
    np.savez(folder / "images.npz", x=images.pixels, y=images.labels)
    (folder / "images.toml").write_text(IMAGES)
    pd.DataFrame(chance.integers(0, 2, (300, 4)), columns=list("abcd")).to_csv(
        folder / "codes.csv", index=False
    )
    (folder / "codes.toml").write_text(CODES)
    return folder


PARTS, RUNS = 6, 50


def kill_runs(folder: Path, runs: range) -> list[dict[str, Any]]:
    """Let the driver fit and kill; one result per run, after checking that everything was in order."""
    source = private_files(folder / "given")
    (folder / "work").mkdir(exist_ok=True)
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "crash_driver.py"),
            str(source),
            str(folder / "work"),
            str(runs.start),
            str(runs.stop),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (folder / "work" / "results.jsonl").read_text().splitlines()]
    given = {path.name for path in source.iterdir()}
    for result in results:
        check(result, given)
    return results


def check(result: dict[str, Any], given: set[str]) -> None:
    """Every look after a kill found everything in order, and the run could be brought to its end.

    A run that died between announcing its first draw and its first checkpoint has nothing to go on from; what it may
    have drawn is on record, so a new one is refused. One that died before that costs nothing.
    """
    for seen in result["looks"]:
        assert not seen["unpaid"], f"drawn, and not on record or not in the plan: {result}"
        assert seen["readable"], f"the ledger cannot be read after a kill: {result}"
        assert seen["complete"], f"half a release stands at the final path: {result}"
    if "afresh" in result and result["looks"][-2]["announced"]:
        assert result["afresh"] == 1, result
        assert "Traceback" not in result["told"], result
        return
    assert result.get("resumed", result.get("afresh", 0)) == 0, f"the run could not be ended: {result}"
    if "left" in result:
        noted = {"plan.json", "drawn", "told", "touches", "modules"}
        expected = {*given, *noted, "release", "release.ledger", "release.ledger.head"}
        assert set(result["left"]) == expected, f"working files are left: {result}"


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    """Six runs of four synthesizers, killed one to three times in a row: the account holds, resuming works."""
    results = kill_runs(tmp_path, range(1000, 1006))
    assert len({seen["drawn"] for result in results for seen in result["looks"]}) > 1, (
        "all kills in one phase"
    )


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_three_hundred_runs_lose_nothing(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three hundred runs, in parts; results are kept in the folder UNDERSTUDY_KILLS, if set, and taken up there."""
    folder = Path(os.environ.get("UNDERSTUDY_KILLS", tmp_path)) / str(part)
    results = kill_runs(folder, range(part * RUNS, (part + 1) * RUNS))
    ends = Counter(
        "resumed"
        if "resumed" in one
        else "ended before"
        if "afresh" not in one
        else "begun anew"
        if one["afresh"] == 0
        else "lost its draws before the first checkpoint"
        for one in results
    )
    kills = sum(len(one["looks"]) - ("told" in one) for one in results)
    with capsys.disabled():
        sys.stdout.write(f"\npart {part}: {kills} kills of {len(results)} runs: {dict(ends)}\n")
