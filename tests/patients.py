"""A private table with marked values, and `understudy` commands on it in processes of their own."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

from tiny import tiny_frame
from understudy import codec
from understudy.planning import plan
from understudy.schema import schema_from_toml

ROOT = Path(__file__).parent.parent
HEIGHT = 1.7391846205
NAME = "MARKER-83710"
SCHEMA = """
kind = "table"
label = "outcome"
columns = [
  {kind = "continuous", name = "height", lower = 0.0, upper = 2.0},
  {kind = "categorical", name = "outcome", categories = ["well", "ill"]},
]
"""
GIVEN = ("patients.csv", "patients.toml", "plan.json")


def marked_patients(folder: Path) -> Path:
    """Private rows with a marker string in a column outside the schema, and a marker value inside it."""
    folder.mkdir(parents=True, exist_ok=True)
    frame = tiny_frame(300)[["height", "outcome"]].assign(name=NAME)
    frame.loc[17, "height"] = HEIGHT
    frame.to_csv(folder / "patients.csv", index=False)
    (folder / "patients.toml").write_text(SCHEMA)
    return folder


def marks() -> list[bytes]:
    """The marker row in every form in which it could be written."""
    scaled = HEIGHT - 1.0
    numbers = [struct.pack(kind, value) for kind in ("<d", "<f") for value in (HEIGHT, scaled)]
    return [NAME.encode(), str(HEIGHT).encode(), f"{HEIGHT:.9g}".encode(), *numbers]


def understudy(folder: Path, *words: object) -> subprocess.Popen[bytes]:
    """Start a command in that folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "understudy", *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )


def prepared(folder: Path, steps: int, recipe: str = "dp-cgan") -> None:
    """Write the plan of a fit."""
    (folder / "plan.json").write_text(_plan(recipe, steps), "utf-8")


def fit(
    folder: Path, steps: int, *more: object, recipe: str = "dp-cgan", out: str = "release"
) -> subprocess.Popen[bytes]:
    """Start a fit of the marked patients at ε = 3, by a plan that is made once for all."""
    prepared(folder, steps, recipe)
    return understudy(folder, "fit", GIVEN[0], "--plan", "plan.json", "--out", out, *more)


@functools.cache
def _plan(recipe: str, steps: int) -> str:
    critic = {"batch": 16} if recipe == "dp-cgan" else {}
    schema = schema_from_toml(SCHEMA)
    made = plan(schema, epsilon=3.0, delta=1e-3, rows=300, recipe=recipe, steps=steps, **critic)
    return codec.to_json(made)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait for a command; its exit code and all it printed, which is never a traceback."""
    out, err = process.communicate(timeout=240)
    text = (out + err).decode()
    assert "Traceback" not in text, text
    return process.returncode, text


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a file is there."""
    deadline = time.monotonic() + 240
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists(), process.communicate()
