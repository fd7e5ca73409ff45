"""Kills one of several processes at random moments, many times, and checks what is left each time.

`ranks_driver.py INPUTS FOLDER RANK KILLS` imports the package once and forks the processes of each run, so that a kill
costs seconds. Whatever draws writes a line to a witness first; so no draw can be missing there.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import understudy.cli
from understudy.cli.running import OWN_DATASET, beside
from understudy.door.door import Door
from understudy.ledger.ledger import Ledger
from understudy.release.release import Release
from understudy.run import fit as _fit  # noqa: F401 - what every run needs is imported before the forks
from understudy.run import processes as _processes  # noqa: F401

STEPS = 80
HANG = 300.0
"""Seconds in which a process that has lost another one must have ended; far more than a busy machine needs."""

_EARLY = 0.3
"""The share of kills that come before the first step; the others come while steps are taken."""

_witness: Path
_honest = Door._drawn


def _drawn(self: Any, purpose: str, *rest: Any) -> Any:
    handle = os.open(_witness, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{purpose}\n".encode())
    os.close(handle)
    return _honest(self, purpose, *rest)


def started(inputs: Path, out: Path, size: int, *more: str) -> list[int]:
    """The processes of one run, in the order of their ranks."""
    store = out.parent / f"store-{time.monotonic_ns()}"
    words = ["fit", str(inputs / "table.csv"), "--plan", str(inputs / "kills.json"), "--out", str(out)]
    words += ["--checkpoint-every", "10", "--wait", "3", *more]
    found = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            _run(words, rank, size, store, out)
        found.append(child)
    return found


def _run(words: list[str], rank: int, size: int, store: Path, out: Path) -> None:
    global _witness  # noqa: PLW0603 - this process is a copy, and makes one run
    _witness = beside(out, "witness")
    Door._drawn = _drawn  # type: ignore[method-assign]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), GLOO_SOCKET_IFNAME="lo")
    os.environ["UNDERSTUDY_STORE"] = str(store)
    log = os.open(beside(out, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["understudy", *words]
    code = 0
    try:
        understudy.cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - this process must not return into its parent's work
        code = 70
    os._exit(code)


def ended(children: list[int], within: float = float("inf")) -> list[int]:
    """The codes with which all of them ended: negative for a signal."""
    deadline, codes = time.monotonic() + within, {}
    while len(codes) < len(children):
        for child in children:
            if child not in codes:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    codes[child] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            for child in set(children) - set(codes):
                os.kill(child, signal.SIGKILL)
            raise AssertionError(f"{len(children) - len(codes)} processes hang")
        time.sleep(0.005)
    return [codes[child] for child in children]


def on_record(out: Path) -> Counter[str] | None:
    """How often each purpose is charged; None where nothing was reserved."""
    ledger = beside(out, "ledger")
    if not ledger.exists():
        return None
    with Ledger(ledger) as book:
        entries = book.statement(OWN_DATASET).entries if OWN_DATASET in book.datasets() else ()
        if not entries:
            return None
        (entry,) = entries
        return Counter({**entry.draws, "training": entry.steps_charged})


def checked(out: Path) -> Counter[str] | None:
    """What is on record, which covers everything that was drawn."""
    path = beside(out, "witness")
    drawn = Counter(path.read_text().split("\n")[:-1] if path.exists() else [])
    charged = on_record(out)
    for purpose, times in drawn.items():
        assert charged is not None, f"{purpose} was drawn and nothing charged"
        assert times <= charged[purpose], f"{purpose}: {times} draws, {charged[purpose]} charged"
    return charged


def goes_on(inputs: Path, out: Path, size: int) -> str:
    """What became of the run after the kill; returns in which phase it came."""
    charged = checked(out)
    if out.exists():
        return "after the release"
    if charged is None:
        assert ended(started(inputs, out, size)) == [0] * size, beside(out, "log").read_text()
        phase = "before the charge"
    elif not beside(out, "checkpoint").exists():
        assert any(ended(started(inputs, out, size)))  # the budget is reserved: no second run, nothing drawn
        checked(out)
        return "before the first checkpoint"
    else:
        assert ended(started(inputs, out, size, "--resume")) == [0] * size, beside(out, "log").read_text()
        phase = "during steps"
    charged = checked(out)
    assert charged is not None
    assert charged["training"] == STEPS
    assert Release.load(out).card.private
    assert not beside(out, "checkpoint").exists()
    return phase


def first_steps(out: Path, children: list[int]) -> float:
    """When the run had its first checkpoint, or ended without."""
    deadline = time.monotonic() + HANG
    while not (beside(out, "checkpoint").exists() or out.exists()) and time.monotonic() < deadline:
        if os.waitid(os.P_PID, children[0], os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(0.005)
    return time.monotonic()


def main() -> None:
    inputs, folder, victim, kills = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    moments, phases = random.Random(victim), Counter[str]()
    begun, whole = time.monotonic(), started(inputs, folder / "whole", 2)
    first = first_steps(folder / "whole", whole)
    assert ended(whole) == [0, 0], beside(folder / "whole", "log").read_text()
    before, during, number = first - begun, time.monotonic() - first, 0
    while sum(phases.values()) < kills and number < 4 * kills:
        number += 1
        out, size = folder / f"release-{number}", 2 + number % 2
        children = started(inputs, out, size)
        if moments.random() < _EARLY:
            time.sleep(moments.uniform(0, before))
        else:
            first_steps(out, children)
            time.sleep(moments.uniform(0, during))
        os.kill(children[victim], signal.SIGKILL)
        codes = ended(children, HANG)
        if codes[victim] == -signal.SIGKILL:  # otherwise it came too late
            phases[goes_on(inputs, out, 1 + number % 3)] += 1
            print(number, codes, dict(phases), flush=True)  # noqa: T201
    assert sum(phases.values()) == kills
    assert phases["during steps"] >= kills // 4, phases
    print(json.dumps(phases))  # noqa: T201


if __name__ == "__main__":
    main()
