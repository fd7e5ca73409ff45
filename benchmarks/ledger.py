"""What it costs to put every training step on record before it is drawn.

Run `python -m benchmarks.ledger [--steps N] [--json FILE]`. Both sides are measured in one run: the time inside the
calls that charge, and the time of the training steps around them, so a busy machine disturbs both alike. The ledger is
a file on the disk of the temporary folder, with write-ahead logging and full synchronisation, as in use.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.planning import Plan, plan
from understudy.privacy.budget import Budget
from understudy.records.images import Images
from understudy.run.fit import Progress, fit
from understudy.schema import ImageSchema

LARGEST_SHARE = 0.02
"""The share of training that charging may take."""

ROWS = 6000
CASES = {
    "images 28×28, batch 600": (ImageSchema(28, 28, 1, classes=tuple("0123456789")), 600),
    "images 8×8, batch 32": (ImageSchema(8, 8, 1, classes=tuple("0123456789")), 32),
}


@dataclass
class Clock:
    """Seconds by the processor and by the wall."""

    cpu: float = 0.0
    wall: float = 0.0
    _since: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def start(self) -> None:
        """Begin to count."""
        self._since = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        """Add what has passed."""
        self.cpu += time.process_time() - self._since[0]
        self.wall += time.perf_counter() - self._since[1]


class TimedAccount(LedgerAccount):
    """An account that measures its own charges."""

    def __init__(self, ledger: Ledger, dataset: str) -> None:
        super().__init__(ledger, dataset)
        self.charging, self.writes = Clock(), 0

    def charge(self) -> None:
        """Charge as ever, and note how long it took, and whether anything was written."""
        before = self._open.entry
        self.charging.start()
        super().charge()
        self.charging.stop()
        self.writes += self._open.entry is not before


@dataclass(frozen=True)
class Line:
    """One measurement; a share is that of charging in charging and training together."""

    case: str
    steps: int
    writes: int
    training_cpu: float
    charging_cpu: float
    training_wall: float
    charging_wall: float

    @property
    def share_cpu(self) -> float:
        """Of processor time."""
        return self.charging_cpu / (self.charging_cpu + self.training_cpu)

    @property
    def share_wall(self) -> float:
        """Of time by the wall, which also waits for the disk and for other programs."""
        return self.charging_wall / (self.charging_wall + self.training_wall)


def planned(schema: ImageSchema, batch: int, steps: int) -> Plan:
    """A run of dp-cgan."""
    return plan(
        schema, epsilon=50.0, rows=ROWS, recipe="dp-cgan", batch=batch, noise_multiplier=1.2, steps=steps
    )


def measure(case: str, steps: int, folder: Path) -> Line:
    """Train on random images with a ledger; only the steps are timed, not what comes before and after."""
    schema, batch = CASES[case]
    source = np.random.default_rng(0)
    pixels = source.integers(0, 256, (ROWS, schema.height, schema.width, 1), dtype=np.uint8)
    images = Images(pixels, source.integers(0, 10, ROWS))
    whole = Clock()

    def told(progress: Progress) -> None:
        if progress.done == 1:
            whole.start()
        elif progress.done == steps:
            whole.stop()

    with Ledger(folder / f"{batch}.db", create=True) as book:
        book.register("images", Budget(100.0, 1e-5))
        account = TimedAccount(book, "images")
        fit(images, planned(schema, batch, steps), account=account, on_progress=told)
    charged = account.charging
    trained = (whole.cpu - charged.cpu, whole.wall - charged.wall)
    return Line(case, steps, account.writes, trained[0], charged.cpu, trained[1], charged.wall)


def table(lines: list[Line]) -> str:
    """The measurements as Markdown."""
    head = "| case | steps | writes | training, CPU s | charging, CPU s | share of CPU | share of wall |"
    rows = [
        f"| {line.case} | {line.steps} | {line.writes} | {line.training_cpu:.2f} | {line.charging_cpu:.4f} "
        f"| {100 * line.share_cpu:.2f} % | {100 * line.share_wall:.2f} % |"
        for line in lines
    ]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Measure every case; 1 if charging takes too much of the processor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        lines = [measure(case, given.steps, Path(folder)) for case in CASES]
    if given.json is not None:
        plain = [
            asdict(line) | {"share_cpu": line.share_cpu, "share_wall": line.share_wall} for line in lines
        ]
        given.json.write_text(json.dumps(plain, indent=2, ensure_ascii=False), encoding="utf-8")
    print(table(lines))
    return int(any(line.share_cpu >= LARGEST_SHARE for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
