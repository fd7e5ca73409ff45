"""Runs `understudy fit` many times in forked children and kills each at random moments, once to three times in a row.

Called by test_kill.py as a program of its own, so that forking happens in a process that pytest does not share.
Prints one JSON line per trial: what was really drawn, what the ledger says, and what is left on disk.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.optim

from understudy import cli
from understudy.door.door import Door
from understudy.errors import UnderstudyError
from understudy.ledger.ledger import Ledger
from understudy.synthesizers.gan.recipe import TRAINING

COMMON = "--epsilon 3 --delta 1e-3 --rows 300 --checkpoint-every 20 --out release"
KINDS = {
    "gan": "patients.csv --schema patients.toml --recipe dp-cgan --batch 16 --steps 60",
    "marginals": "patients.csv --schema patients.toml --steps 60",
    "embedding": "images.npz --schema images.toml --steps 60",
    "codes": "codes.csv --schema codes.toml --steps 60",
}


def fit_in_child(folder: Path, kind: str, resume: bool) -> int:
    """Fork; the child fits and notes every draw in a file before what was drawn is used."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    diary = os.open("drawn", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    original = Door._drawn

    def noted(self: Door, purpose: str, *rest: Any) -> Any:
        made = original(self, purpose, *rest)
        os.write(diary, (purpose + "\n").encode())
        return made

    Door._drawn = noted  # type: ignore[method-assign]
    sys.argv = ["understudy", "fit", *KINDS[kind].split(), *COMMON.split()]
    sys.argv += ["--resume"] if resume else []
    code = 0
    try:
        cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    os._exit(code)


def look(folder: Path) -> dict[str, object]:
    """What the disk says after the child is gone."""
    drawn = Counter((folder / "drawn").read_text().splitlines() if (folder / "drawn").exists() else ())
    charged: Counter[str] = Counter()
    readable, problem = True, ""
    if (folder / "release.ledger").exists():
        try:
            with Ledger(folder / "release.ledger") as book:
                for entry in book.statement("this data set").entries:
                    charged.update(entry.draws)
                    charged.update({TRAINING: entry.steps_charged})
        except UnderstudyError as refusal:
            readable, problem = "registered: none" in str(refusal), str(refusal)
    return {
        "drawn": sum(drawn.values()),
        "unpaid": sorted(purpose for purpose in drawn if drawn[purpose] > charged[purpose]),
        "readable": readable,
        "problem": problem,
        "complete": not (folder / "release").exists() or (folder / "release" / "card.json").exists(),
    }


def resumable(folder: Path) -> bool:
    """Whether an interrupted run stands there."""
    return (folder / "release.checkpoint").exists() and not (folder / "release").exists()


def trial(folder: Path, kind: str, waits: list[float]) -> dict[str, object]:
    """A kill after each of these times, as long as there is something to resume, and then a run to the end."""
    looks = []
    for number, wait in enumerate(waits):
        if number and not resumable(folder):
            break
        child = fit_in_child(folder, kind, resume=number > 0)
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        looks.append(look(folder))
    result: dict[str, object] = {"kind": kind, "looks": looks}
    if resumable(folder):
        _, status = os.waitpid(fit_in_child(folder, kind, resume=True), 0)
        result["resumed"] = os.waitstatus_to_exitcode(status)
        result["left"] = sorted(path.name for path in folder.iterdir())
        looks.append(look(folder))
    return result


def main() -> None:
    """`crash_driver.py SOURCE FOLDER TRIALS SEED`."""
    source, work, trials, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.optim.SGD(
        [torch.nn.Parameter(torch.zeros(1))]
    )  # loads what torch loads late, once for all children
    longest = {}
    for kind in KINDS:
        start = time.monotonic()
        _, status = os.waitpid(fit_in_child(prepared(source, work / kind), kind, resume=False), 0)
        assert status == 0, f"the {kind} run that nobody kills failed"
        longest[kind] = 1.1 * (time.monotonic() - start)
    chance = random.Random(seed)
    for number in range(trials):
        kind = list(KINDS)[number % len(KINDS)]
        waits = [chance.uniform(0.0, longest[kind]) for _ in range(chance.randint(1, 3))]
        result = trial(prepared(source, work / str(number)), kind, waits)
        os.write(1, (json.dumps(result) + "\n").encode())


def prepared(source: Path, folder: Path) -> Path:
    """A fresh folder with the private data and their schemas."""
    return Path(shutil.copytree(source, folder))


if __name__ == "__main__":
    main()
