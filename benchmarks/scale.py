"""Memory and time over the number of rows, and two processes beside one, measured side by side in one run.

Run `python -m benchmarks.scale [--rows N] [--small N] [--columns N] [--steps N] [--only growth|processes]
[--tables FOLDER]`. Growth fits made-up tables of two sizes from Parquet files, each in a process of its own. Processes
take the same steps on the same records alone and in twos, in turn. Seconds of the processor are those of the slowest
process: on a machine with other work they tell what the wall clock would say on a free one, but for the time that
messages travel.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import torch

from benchmarks.engine_cases import CASES
from understudy.door.door import Door
from understudy.door.noise import SecureNoise
from understudy.door.ranks import ALONE
from understudy.door.source import Rows
from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.step import NoisyGradients
from understudy.planning import plan
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian
from understudy.run.processes import joined
from understudy.run.reading import private_rows
from understudy.run.run import Run
from understudy.run.shards import Shards
from understudy.run.stand_ins import stand_in_rows
from understudy.schema import Categorical, Continuous, Integer, TableSchema
from understudy.synthesizers.embedding.queries import LabellerGradient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from understudy.door.ranks import Ranks

_AT_ONCE = 2**17
_STEP = "training"
BATCH = 4096
CONV = next(case for case in CASES if case.name.startswith("conv 32"))


def made_up_schema(columns: int) -> TableSchema:
    """A third numbers, a sixth whole numbers, the rest categories of eight values; the last is the label."""
    numbers, whole = columns // 3, columns // 6
    values = tuple(f"v{number}" for number in range(8))
    return TableSchema(
        (
            *(Continuous(f"n{i}", 0.0, 100.0) for i in range(numbers)),
            *(Integer(f"w{i}", 0, 49) for i in range(whole)),
            *(Categorical(f"c{i}", values) for i in range(columns - numbers - whole - 1)),
            Categorical("label", ("no", "yes")),
        ),
        label="label",
    )


def write_table(path: Path, rows: int, schema: TableSchema) -> None:
    """Rows whose columns follow one hidden number, in groups of rows of one size."""
    source, writer = np.random.default_rng(0), None
    for start in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - start)
        hidden = source.normal(size=count)
        cells: dict[str, Any] = {}
        for column in schema.columns:
            noisy = hidden + source.normal(size=count)
            if isinstance(column, Continuous):
                cells[column.name] = np.clip(50 + 15 * noisy, 0, 100)
            elif isinstance(column, Integer):
                cells[column.name] = np.clip(25 + 8 * noisy, 0, 49).astype(np.int64)
            else:
                assert isinstance(column, Categorical)
                last = len(column.categories) - 1
                codes = np.clip((noisy + 2) * (last + 1) / 4, 0, last).astype(np.int32)
                cells[column.name] = pa.DictionaryArray.from_arrays(codes, list(column.categories))
        table = pa.table(cells)
        writer = writer or pa_parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measured_fit(path: Path, columns: int) -> dict[str, float]:
    """The parts of one fit of this file, in this process: seconds, and the most memory it ever had."""
    schema = made_up_schema(columns)
    made = plan(schema, epsilon=3.0, delta=1e-9, rows=None, steps=50)
    run = Run(made)
    begun, wall = time.process_time(), time.perf_counter()
    rows = private_rows(path, schema, ALONE, Shards.DEALT, cache=path.parent)[0]
    read = time.process_time()
    run.open(rows, None)
    counted = time.process_time()
    run.train(None)
    return {
        "read": read - begun,
        "counted": counted - read,
        "cpu": time.process_time() - begun,
        "wall": time.perf_counter() - wall,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# --------------------------------------------------------------------------------- what processes do


def critic_step(ranks: Ranks) -> Callable[[], object]:
    """One private step of a convolutional critic with a gradient penalty, on a batch of 4,096 images in all."""
    case = replace(CONV, batch=BATCH)
    own = case.records(2 * BATCH // ranks.size)
    charge = Charge(_STEP, SubsampledGaussian(0.5, 1.0, 10_000))
    door = Door(own, (charge,), SecureNoise(), rows=2 * BATCH, ranks=ranks)
    gradients = NoisyGradients(_STEP, GlobalClip(1.0), case.objective, BATCH)
    critic, fakes = case.critic(), case.fakes()
    return lambda: gradients.step(door, critic, fakes)


def table_counts(ranks: Ranks) -> Callable[[], object]:
    """All that a table is asked for: columns, columns by class, and pairs, of 200,000 rows in all."""
    schema = made_up_schema(30)
    made = plan(schema, epsilon=3.0, delta=1e-9, rows=None, steps=1)
    rows = stand_in_rows(schema, 200_000 // ranks.size, ranks.rank)
    return lambda: Run(made, seed=0, noise=SecureNoise(), ranks=ranks).open(rows, None)


def labeller_step(ranks: Ranks) -> Callable[[], object]:
    """One gradient of the labeller over 60,000 records in all."""
    count = 60_000 // ranks.size
    features = torch.randn(count, 600, generator=torch.Generator().manual_seed(ranks.rank))
    rows = Rows(features / features.norm(dim=1, keepdim=True), torch.randint(0, 10, (count,)))
    door = Door(rows, (Charge(_STEP, GaussianRelease(1.0, 10_000)),), SecureNoise(), ranks=ranks)
    head = torch.zeros(600, 10)
    return lambda: door.publish(_STEP, LabellerGradient(head, 1.0))


def messages(ranks: Ranks) -> Callable[[], object]:
    """The reduce and the broadcast of a critic step, without the step."""
    sums = [torch.zeros_like(one, dtype=torch.float64) for one in CONV.critic().parameters()]
    return lambda: ranks.shared(ranks.added(sums))


WORK = {
    "conv WGAN-GP step, batch 4,096": critic_step,
    "table counts, 200,000 × 30": table_counts,
    "labeller step, 60,000 × 600": labeller_step,
    "reduce and broadcast of the step": messages,
}


def worker(name: str, steps: int) -> None:
    """Take steps in this process, one of several; the first prints the seconds of a step."""
    torch.set_num_threads(1)
    with joined() as ranks:
        step = WORK[name](ranks)
        step()  # the first is slower
        ranks.told("ready")
        begun = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        cpu, wall = time.process_time() - begun[0], time.perf_counter() - begun[1]
        slowest = max(map(float, ranks.told(f"{cpu:.9f}")))
        if ranks.first:
            print(json.dumps({"cpu": slowest / steps, "wall": wall / steps}))


def in_processes(name: str, size: int, steps: int) -> dict[str, float]:
    """The seconds of a step in so many processes."""
    with tempfile.TemporaryDirectory() as folder:
        shared = {"WORLD_SIZE": str(size), "UNDERSTUDY_STORE": f"{folder}/store", "OMP_NUM_THREADS": "1"}
        all_of_them = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.scale", "--worker", name, "--steps", str(steps)],
                env={**os.environ, **shared, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        said = [one.communicate()[0] for one in all_of_them]
    found: dict[str, float] = json.loads(said[0].splitlines()[-1])
    return found


# ----------------------------------------------------------------------------------------- the tables


def growth(small: int, rows: int, columns: int, kept: Path | None) -> dict[str, Any]:
    """A fit of a small table and of a large one, each in a process of its own; tables may be kept in a folder."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (small, rows):
            path = (kept or Path(folder)) / f"{count}.parquet"
            if not path.exists():
                write_table(path.with_suffix(".part"), count, made_up_schema(columns))
                path.with_suffix(".part").rename(path)
            words = ["-m", "benchmarks.scale", "--fit", str(path), "--columns", str(columns)]
            done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True)
            found[f"{count:,}"] = json.loads(done.stdout.splitlines()[-1])
            print(f"{count:,}: {found[f'{count:,}']}", file=sys.stderr)
    one, other = found.values()
    print(f"| rows × {columns} | peak memory, MiB | CPU µs a row | to read | to count | wall seconds |")
    print("|---|---|---|---|---|---|")
    for count, line in zip((small, rows), (one, other), strict=True):
        each, read, counted = (1e6 * line[part] / count for part in ("cpu", "read", "counted"))
        cells = f"{line['peak_mib']:.0f} | {each:.1f} | {read:.1f} | {counted:.1f} | {line['wall']:.1f}"
        print(f"| {count:,} | {cells} |")
    each = other["cpu"] / rows / (one["cpu"] / small)
    print(f"peak memory {other['peak_mib'] / one['peak_mib']:.2f}×, CPU time per row {each:.2f}×\n")
    return found


def processes(steps: int) -> dict[str, Any]:
    """Each kind of work in one process and in two, in turn."""
    found: dict[str, Any] = {}
    print(
        "| seconds a step | one process, CPU (wall) | two, CPU (wall) | one over two, CPU (wall) |\n|---|---|---|---|"
    )
    for name in WORK:
        alone, both = in_processes(name, 1, steps), in_processes(name, 2, steps)
        found[name] = {"one": alone, "two": both}
        ratio = f"{alone['cpu'] / both['cpu']:.2f} ({alone['wall'] / both['wall']:.2f})"
        cells = [f"{one['cpu']:.4f} ({one['wall']:.4f})" for one in (alone, both)]
        print(f"| {name} | {' | '.join(cells)} | {ratio if name != list(WORK)[-1] else '–'} |")
    step, sent = (found[list(WORK)[place]]["two"]["cpu"] for place in (0, -1))
    print(f"messages are {sent / step:.1%} of the step's time of the processor\n")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and write the numbers if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--small", type=int, default=300_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", choices=("growth", "processes"))
    parser.add_argument(
        "--tables", type=Path, help="a folder that keeps the made-up tables for the next time"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=list(WORK), help=argparse.SUPPRESS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker is not None:
        worker(given.worker, given.steps)
        return 0
    if given.fit is not None:
        print(json.dumps(measured_fit(given.fit, given.columns)))
        return 0
    found: dict[str, Any] = {}
    if given.only != "processes":
        found["growth"] = growth(given.small, given.rows, given.columns, given.tables)
    if given.only != "growth":
        found["processes"] = processes(given.steps)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
