"""Runs `understudy fit` many times in forked children and kills each at random moments, once to three times in a row.

Called by test_kill.py as a program of its own, so that forking happens in a process that pytest does not share. Half of
the kills come after a random time; the other half at a random one of the moments at which the run touches the door, the
ledger or the disk, which are too short to be met by chance. Appends one JSON line per trial to results.jsonl: what was
really drawn, what the ledger says, and what is left on disk; trials that stand there already are left out.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import understudy
from understudy import cli, codec
from understudy.certificate import checked_plan
from understudy.door.door import Door
from understudy.errors import PlanError, UnderstudyError
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan
from understudy.privacy.composition import repetitions
from understudy.synthesizers.embedding.recipe import UNDERSTUDY_IMAGES, Lessons, LinearLabeller, MeanEmbedding
from understudy.synthesizers.gan.parts import DenseCritic
from understudy.synthesizers.gan.recipe import TRAINING
from understudy.synthesizers.registry import RECIPES

CRITIC = replace(RECIPES["dp-cgan"], critic=DenseCritic(hidden=(16,)), batch=16)
IMAGES = replace(
    UNDERSTUDY_IMAGES,
    embedding=MeanEmbedding(pixel_frequencies=60, wavelet_frequencies=90),
    labeller=LinearLabeller(lessons=Lessons(steps=15, rate=80.0, bound=1.0), quiet_lessons=None),
)
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gan": ("patients.csv", "patients.toml", {"recipe": CRITIC}),
    "marginals": ("patients.csv", "patients.toml", {}),
    "triples": ("wide.csv", "wide.toml", {}),
    "discovery": ("patients.csv", "open.toml", {}),
    "embedding": ("images.npz", "images.toml", {"recipe": IMAGES}),
    "codes": ("codes.csv", "codes.toml", {}),
}
"""Four synthesizers; that of tables also with chosen triples, which are asked for late, and with open bounds."""


@dataclass(frozen=True)
class Kill:
    """When a child dies: after a time, or at a moment at which it touches the door, the ledger or the disk."""

    seconds: float | None = None
    touch: int | None = None


def fit_in_child(folder: Path, kind: str, *, resume: bool, dies_at: int | None = None) -> int:
    """Fork; the child fits, notes every draw in a file before what was drawn is used, and counts its touches."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    sink = os.open(os.devnull, os.O_WRONLY)
    told = os.open("told", os.O_WRONLY | os.O_TRUNC | os.O_CREAT)
    os.dup2(sink, 1)
    os.dup2(told, 2)
    diary = os.open("drawn", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    touches = count_touches(dies_at)
    for name in ("_drawn", "_selected"):
        setattr(Door, name, noted(getattr(Door, name), diary, touches.touch))
    sys.argv = ["understudy", "fit", KINDS[kind][0], "--plan", "plan.json"]
    sys.argv += ["--checkpoint-every", "20", "--out", "release", *(["--resume"] if resume else [])]
    code = 0
    try:
        cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    if dies_at is None:
        Path("touches").write_text(str(touches.count))
        Path("modules").write_text("\n".join(sys.modules))
    os._exit(code)


def noted(original: Callable[..., Any], diary: int, touch: Callable[[], None]) -> Callable[..., Any]:
    """A way out of the door that notes what was drawn."""

    def drawn(self: Door, purpose: str, *rest: Any) -> Any:
        touch()
        made = original(self, purpose, *rest)
        os.write(diary, (purpose + "\n").encode())
        touch()
        return made

    return drawn


class Touches:
    """Counts moments, one of which is the last."""

    def __init__(self, dies_at: int | None) -> None:
        self.count, self._dies_at = 0, dies_at

    def touch(self) -> None:
        """One moment more."""
        self.count += 1
        if self.count == self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)


def count_touches(dies_at: int | None) -> Touches:
    """Touch at every opened, renamed or removed file, before and after every fsync, and all through SQLite's work."""
    touches, sync, connect = Touches(dies_at), os.fsync, sqlite3.connect

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in {"os.rename", "os.remove", "os.mkdir", "os.rmdir"} or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            touches.touch()

    def synced(handle: int) -> None:
        touches.touch()
        sync(handle)
        touches.touch()

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(touches.touch, 10)
        return connection

    sys.addaudithook(hook)
    os.fsync, sqlite3.connect = synced, connected
    return touches


def look(folder: Path) -> dict[str, object]:
    """What the disk says after the child is gone."""
    drawn = Counter((folder / "drawn").read_text().splitlines() if (folder / "drawn").exists() else ())
    plan = codec.from_json(Plan, (folder / "plan.json").read_text(), error=PlanError)
    planned = {one.purpose: repetitions(one) for one in plan.run_charges}
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
        "announced": sum(charged.values()),
        "unpaid": sorted(one for one in drawn if drawn[one] > min(charged[one], planned.get(one, 0))),
        "readable": readable,
        "problem": problem,
        "complete": not (folder / "release").exists() or (folder / "release" / "card.json").exists(),
    }


def trial(folder: Path, kind: str, kills: list[Kill]) -> dict[str, object]:
    """One kill after the other, as long as there is something to resume, and then a run to the end."""
    looks = []
    for number, kill in enumerate(kills):
        if number and not resumable(folder):
            break
        child = fit_in_child(folder, kind, resume=number > 0, dies_at=kill.touch)
        if kill.seconds is not None:
            time.sleep(kill.seconds)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        looks.append(look(folder))
    result: dict[str, object] = {"kind": kind, "looks": looks, "kills": [vars(kill) for kill in kills]}
    if not (folder / "release" / "card.json").exists():
        resume = resumable(folder)
        _, status = os.waitpid(fit_in_child(folder, kind, resume=resume), 0)
        result["resumed" if resume else "afresh"] = os.waitstatus_to_exitcode(status)
        result["told"] = (folder / "told").read_text()[-600:]
        result["left"] = sorted(path.name for path in folder.iterdir())
        looks.append(look(folder))
    return result


def resumable(folder: Path) -> bool:
    """Whether an interrupted run stands there."""
    return (folder / "release.checkpoint").exists() and not (folder / "release").exists()


def main() -> None:
    """`crash_driver.py SOURCE FOLDER FIRST LAST`: the trials of these numbers, the last one not counted."""
    source, work, first, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    results = work / "results.jsonl"
    done = (
        {json.loads(line)["number"] for line in results.read_text().splitlines()} if results.exists() else ()
    )
    longest, touches = {}, {}
    for kind, (_, schema, options) in KINDS.items():
        folder = prepared(source, work / kind)
        made = understudy.plan(folder / schema, epsilon=3.0, delta=1e-3, rows=300, steps=60, **options)
        (folder / "plan.json").write_text(codec.to_json(made))
        warm_up(made, folder, kind)
        start = time.monotonic()
        finish(folder, kind)
        longest[kind] = 1.1 * (time.monotonic() - start)
        touches[kind] = int((folder / "touches").read_text())
    for number in sorted({*range(first, last)} - {*done}):
        chance, kind = random.Random(number), list(KINDS)[number % len(KINDS)]

        def kill(chance: random.Random, kind: str) -> Kill:
            if chance.random() < 0.5:
                return Kill(seconds=chance.uniform(0.0, longest[kind]))
            return Kill(touch=chance.randint(1, touches[kind]))

        kills = [kill(chance, kind) for _ in range(chance.randint(1, 3))]
        folder = prepared(source, work / str(number))
        shutil.copy(work / kind / "plan.json", folder)
        result = {"number": number, **trial(folder, kind, kills)}
        with results.open("a") as file:
            file.write(json.dumps(result) + "\n")
        shutil.rmtree(folder)


def warm_up(made: Plan, folder: Path, kind: str) -> None:
    """Import and compute, once for all children, what takes them most of their time."""
    checked_plan(made)
    finish(folder, kind)
    for name in (folder / "modules").read_text().splitlines():
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def finish(folder: Path, kind: str) -> None:
    """A run that nobody kills; only how often it touched anything is left of it."""
    _, status = os.waitpid(fit_in_child(folder, kind, resume=False), 0)
    assert status == 0, f"the {kind} run that nobody kills failed: {(folder / 'told').read_text()}"
    shutil.rmtree(folder / "release")
    for name in ("release.ledger", "release.ledger.head", "drawn"):
        (folder / name).unlink()


def prepared(source: Path, folder: Path) -> Path:
    """A fresh folder with the private data, their schemas and the plans."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(source, folder))


if __name__ == "__main__":
    main()
