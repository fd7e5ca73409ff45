"""CPU seconds and memory of tables: a fit of Adult, a million rows to Parquet, and fits of 5, 60 and 900 columns.

Run `python -m benchmarks.tables_speed`. Each part runs in a process of its own with one thread, so that the greatest
memory is that of the part.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COLUMNS = 1_000_000, 20
WIDE = (5, 60, 900)


def adult() -> None:
    """Fit Adult at ε = 1."""
    from understudy.data import known
    from understudy.planning import plan
    from understudy.run.fit import fit

    dataset = known("adult")
    made = plan(dataset.schema, epsilon=1.0, rows=len(dataset.train))
    _timed(lambda: fit(dataset.train, made))


def million() -> None:
    """Draw a million rows of twenty columns to Parquet."""
    from understudy.planning import plan
    from understudy.release.sampling import sample_chunks
    from understudy.release.write import write_records
    from understudy.run.fit import fit
    from understudy.schema import Categorical, Integer, TableSchema

    numbers = [Integer(f"n{i}", 0, 100_000) for i in range(COLUMNS // 2)]
    words = [Categorical(f"c{i}", tuple("abcdefgh")) for i in range(COLUMNS // 2)]
    schema = TableSchema((*numbers, *words))
    source = np.random.default_rng(0)
    held: dict[str, object] = {one.name: source.integers(0, 100_000, 10_000) for one in numbers}
    held |= {one.name: source.choice(list("abcdefgh"), 10_000) for one in words}
    release = fit(pd.DataFrame(held), plan(schema, epsilon=1.0, rows=10_000))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rows.parquet"
        _timed(lambda: write_records(sample_chunks(release, ROWS, seed=1), target, schema=schema))


def wide(columns: int) -> None:
    """Fit 2,000 rows of coins, of which neighbours agree in eight of ten."""
    from understudy.planning import plan
    from understudy.run.fit import fit
    from understudy.schema import Binary, TableSchema

    source = np.random.default_rng(0)
    held = source.random((2000, columns)) < 0.5
    evens, odds = held[:, : columns - columns % 2 : 2], held[:, 1::2]
    held[:, 1::2] = np.where(source.random(odds.shape) < 0.6, evens, odds)
    frame = pd.DataFrame(np.where(held, "yes", "no"), columns=[f"f{i}" for i in range(columns)])
    schema = TableSchema(tuple(Binary(name, ("no", "yes")) for name in frame))
    made = plan(schema, epsilon=5.0, rows=2000)
    _timed(lambda: fit(frame, made, anyway=True))


def _timed(work: Callable[[], object]) -> None:
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20]))


def main() -> None:
    """Run every part, print the table."""
    parts = {
        "fit of Adult (32,561 × 15), ε = 1": "adult()",
        f"{ROWS:,} × {COLUMNS} rows to Parquet": "million()",
        **{f"fit of 2,000 rows of {columns} columns, ε = 5": f"wide({columns})" for columns in WIDE},
    }
    print("| | CPU seconds | greatest memory, GiB |\n|---|---|---|")
    for name, call in parts.items():
        code = f"import torch; torch.set_num_threads(1); from benchmarks import tables_speed; tables_speed.{call}"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        seconds, memory = json.loads(done.stdout.strip().splitlines()[-1])
        print(f"| {name} | {seconds:.1f} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
    main()
