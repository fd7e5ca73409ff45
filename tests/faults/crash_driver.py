"""Runs `understudy fit` many times in forked children and kills each at a random moment.

Called by test_kill.py as a program of its own, so that forking happens in a process that pytest does not share.
Prints one JSON line per trial: what was really drawn, what the ledger says, and what is left on disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch.optim

from understudy import cli
from understudy.door.door import Door
from understudy.errors import UnderstudyError
from understudy.ledger.ledger import Ledger
from understudy.planning import plan
from understudy.schema import load_schema

OPTIONS = (
    "--schema patients.toml --recipe dp-cgan --epsilon 3 --delta 1e-3 --rows 300 --batch 16 --steps 60 "
    "--checkpoint-every 20"
)


def fit_in_child(folder: Path, resume: bool) -> int:
    """Fork; the child fits and notes every draw in a file before the step returns."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    diary = os.open("drawn", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    original = Door.step

    def noted(self: Door, *rows: object, **named: object) -> object:
        made = original(self, *rows, **named)  # type: ignore[arg-type]
        os.write(diary, b".")
        return made

    Door.step = noted  # type: ignore[method-assign,assignment]
    sys.argv = ["understudy", "fit", "patients.csv", *OPTIONS.split(), "--out", "release"]
    sys.argv += ["--resume"] if resume else []
    code = 0
    try:
        cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    os._exit(code)


def look(folder: Path) -> dict[str, object]:
    """What the disk says after the child is gone."""
    drawn = (folder / "drawn").stat().st_size if (folder / "drawn").exists() else 0
    charged = 0
    readable, problem = True, ""
    if (folder / "release.ledger").exists():
        try:
            with Ledger(folder / "release.ledger") as book:
                charged = sum(entry.steps_charged for entry in book.statement("this data set").entries)
        except UnderstudyError as refusal:
            readable, problem = "registered: none" in str(refusal), str(refusal)
    return {"drawn": drawn, "charged": charged, "readable": readable, "problem": problem}


def trial(folder: Path, wait: float) -> dict[str, object]:
    """One kill and, if a checkpoint exists, one resume."""
    child = fit_in_child(folder, resume=False)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    result = look(folder)
    result["finished"] = os.WIFEXITED(status)
    result["complete"] = not (folder / "release").exists() or (folder / "release" / "card.json").exists()
    if (folder / "release.checkpoint").exists() and not (folder / "release").exists():
        _, status = os.waitpid(fit_in_child(folder, resume=True), 0)
        result["resumed"] = os.waitstatus_to_exitcode(status)
        result["after"] = look(folder)
        result["left"] = sorted(path.name for path in folder.iterdir())
    return result


def main() -> None:
    """`crash_driver.py SOURCE FOLDER TRIALS SEED`."""
    source, work, trials, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.optim.SGD(
        [torch.nn.Parameter(torch.zeros(1))]
    )  # loads what torch loads late, once for all children
    schema = load_schema(source / "patients.toml")
    plan(schema, epsilon=3, delta=1e-3, rows=300, recipe="dp-cgan", batch=16, steps=60)
    start = time.monotonic()
    os.waitpid(fit_in_child(prepared(source, work / "whole"), resume=False), 0)
    longest = 1.1 * (time.monotonic() - start)
    chance = random.Random(seed)
    for number in range(trials):
        result = trial(prepared(source, work / str(number)), chance.uniform(0.0, longest))
        os.write(1, (json.dumps(result) + "\n").encode())


def prepared(source: Path, folder: Path) -> Path:
    """A fresh folder with the private data and its schema."""
    folder.mkdir()
    for name in ("patients.csv", "patients.toml"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder


if __name__ == "__main__":
    main()
