"""What a private step costs: against an ordinary step, against vmap, and against Opacus.

Run `python -m benchmarks.engine [--quick] [--json FILE]`. All numbers are ratios of process CPU time on one
thread, medians of repetitions that take turns in one process, so that a busy machine disturbs all sides
alike. A private step includes the Poisson draw, clipping and secure noise; the vmap and Opacus sides are
given their gradients only, without sampling and noise, which favours them. Opacus is also measured as its users
write GANs, with its optimiser and ordinary noise.

Memory is the peak of tensor memory that is allocated during one step, as counted by torch's profiler. Before anything
is timed, one large block is allocated and freed: until the C library has seen that, it hands memory back to the system
after every step and fetches it again in the next. vmap gains most by that, and a program that does nothing but
vmap steps never gets there. So vmap is compared twice: alone with our step in a fresh process, as it comes, and in the
settled heap of the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.engine_cases import CASES, REGISTER, ROWS, Case, ordinary_step
from benchmarks.engine_opacus import ghost_step, hook_step, optimiser_step, penalty_error
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.source import RowFile, Rows
from understudy.dpsgd import NoisyGradients, clipped_sum
from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.gradients import functional
from understudy.dpsgd.losses import penalty_weight
from understudy.dpsgd.step import critic_batch
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from understudy.door.noise import Noise
    from understudy.dpsgd import Critic, CriticBatch

    Result = dict[str, str | float | bool | None]

RULE = GlobalClip(1.0)
VMAP_CHUNKS = (4, 16, 64, 256)


def cpu_seconds(actions: Sequence[Callable[[], object]], repetitions: int) -> list[float]:
    """The median CPU time of each action; the actions take turns."""
    for action in actions:
        action()
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(repetitions):
        for action, seconds in zip(actions, times, strict=True):
            start = time.process_time()
            action()
            seconds.append(time.process_time() - start)
    return [statistics.median(seconds) for seconds in times]


def peak_bytes(action: Callable[[], object]) -> int:
    """The most tensor memory that one run of the action holds beyond what was there before."""
    action()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        action()
    assert record.profiler is not None
    results = record.profiler.kineto_results
    assert results is not None
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def private_step(
    case: Case, critic: Critic, records: Rows, fakes: Rows, noise: Noise | None = None
) -> Callable[[], object]:
    """One whole private step, with secure noise unless told otherwise, for as often as anyone will time it."""
    planned = SubsampledGaussian(case.batch / len(records), 1.0, 10**9)
    door = Door(records, (Charge("step", planned),), noise or SecureNoise(), insecure=noise is not None)
    gradients = NoisyGradients("step", RULE, case.objective, case.batch)
    return lambda: gradients.step(door, critic, fakes)


def best_vmap(case: Case, critic: Critic, batch: CriticBatch, repetitions: int) -> float:
    """The CPU time of the clipped sum by vmap, at the chunk size that suits it best."""
    times = []
    for size in VMAP_CHUNKS:
        action = partial(functional.clipped_sum, critic, case.objective, batch, RULE, size)
        times += cpu_seconds([action], repetitions)
    return min(times)


def one_batch(case: Case, critic: Critic, records: Rows, fakes: Rows) -> CriticBatch:
    """Records and fakes for the sides that draw none of their own."""
    picked = torch.randperm(ROWS)[: case.batch]
    like = next(critic.parameters()).detach()
    coupled = bool(penalty_weight(case.objective))
    return critic_batch(*records.take(picked, like), fakes.all(like), SecureNoise(), coupled=coupled)


def few(repetitions: int) -> int:
    """How often a side is measured that takes many times as long."""
    return 1 if repetitions <= 10 else 3


def alone_with_vmap(place: int, repetitions: int) -> float:
    """How many times longer vmap at its best chunk size takes than the private step, in the process that calls this."""
    torch.set_num_threads(1)
    case = CASES[place]
    critic, records, fakes = case.critic(), case.records(), case.fakes()
    vmap = best_vmap(case, critic, one_batch(case, critic, records, fakes), few(repetitions))
    step = private_step(case, critic, records, fakes)
    return vmap / cpu_seconds([step], repetitions)[0]


def in_fresh_process(place: int, repetitions: int) -> float:
    """`alone_with_vmap` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(alone_with_vmap, place, repetitions).result()


def measure(place: int, repetitions: int) -> Result:
    """One line of the table."""
    case = CASES[place]
    critic, records, fakes = case.critic(), case.records(), case.fakes()
    step = private_step(case, critic, records, fakes)
    batch = one_batch(case, critic, records, fakes)
    total = clipped_sum(critic, case.objective, batch, RULE)
    private, ordinary, noise = cpu_seconds(
        [
            step,
            lambda: ordinary_step(case, critic, records, fakes),
            lambda: SecureNoise().perturb(total.gradients.values(), 1.0, 1.0),
        ],
        repetitions,
    )
    seldom = few(repetitions)
    vmap = best_vmap(case, critic, batch, seldom)
    hooks = ghost = wrong = once = twice = None
    if case.least_faster_than_opacus is None:
        wrong = penalty_error()
    else:
        hooks = cpu_seconds([hook_step(case, batch)], seldom)[0] / private
        ghost = cpu_seconds([ghost_step(case, batch)], seldom)[0] / private
        once, twice = (cpu_seconds([optimiser_step(case, batch, n)], seldom)[0] / private for n in (1, 2))
    ratio = private / ordinary
    return {
        "case": case.name,
        "private_over_nonprivate": ratio,
        "most": case.most_private_over_nonprivate,
        "faster_than_vmap": in_fresh_process(place, repetitions),
        "least_vmap": case.least_faster_than_vmap,
        "faster_than_settled_vmap": vmap / private,
        "faster_than_opacus": hooks,
        "least_opacus": case.least_faster_than_opacus,
        "faster_than_opacus_once": once,
        "faster_than_opacus_twice": twice,
        "faster_than_opacus_ghost": ghost,
        "opacus_penalty_error": wrong,
        "peak_memory_ratio": peak_bytes(step)
        / peak_bytes(lambda: ordinary_step(case, critic, records, fakes)),
        "noise_share": noise / private,
    }


def describe_many_rows(case: Case, repetitions: int) -> str:
    """What a step on 60 million memory-mapped rows costs, over one on 60 thousand, in a sentence.

    Both files are sparse: rows that were never written read as zeros and take no space on the disk, but fetching
    them takes the operating system's full way through its cache of files. A file that memory can hold is touched
    as a whole before, as it would be after the first steps of a training, and every draw is a new one. Of one that
    memory cannot hold every draw is made twice, and the second time finds its rows in the cache.
    """
    critic, fakes = case.critic(), case.fakes()
    labels = None if case.unlabelled else np.zeros(1, dtype=np.int64)
    first: list[list[float]] = [[], []]
    again: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        tables, held = [], True
        for rows in (ROWS, 1_000 * ROWS):
            x = np.lib.format.open_memmap(
                Path(folder) / f"{rows}.npy", mode="w+", dtype=np.float32, shape=(rows, *case.shape)
            )
            held = RowFile.behind(x) is None
            if held:
                for start in range(0, rows, ROWS):
                    x[start : start + ROWS].max()
            tables.append(Rows(x, None if labels is None else np.broadcast_to(labels, rows)))
        for seed in range(repetitions + 1):
            for side, table in enumerate(tables):
                for seconds in (first, again):
                    step = private_step(case, critic, table, fakes, SeededNoise(seed))
                    begin = time.process_time()
                    step()
                    if seed:  # the first round warms up
                        seconds[side].append(time.process_time() - begin)
    new, cached = (statistics.median(s[1]) / statistics.median(s[0]) for s in (first, again))
    told = f"{case.name}: a step at 60 million rows costs "
    if held:
        return told + f"{new:.2f} times one at 60 thousand (must: 1.1); memory can hold both files."
    return (
        told
        + f"{cached:.2f} times one at 60 thousand (must: 1.1) if both read from the system's cache of files, and "
        f"{new:.2f} times if no row was read before; memory cannot hold the large file."
    )


def text(value: object) -> str:
    """A cell of the table."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


COLUMNS = (
    ("case", "case"),
    ("private_over_nonprivate", "private / ordinary"),
    ("most", "at most"),
    ("faster_than_vmap", "× vmap"),
    ("least_vmap", "at least"),
    ("faster_than_settled_vmap", "× vmap, settled heap"),
    ("faster_than_opacus", "× Opacus hooks"),
    ("least_opacus", "at least"),
    ("faster_than_opacus_once", "× its optimiser, one backward"),
    ("faster_than_opacus_twice", "two backwards"),
    ("faster_than_opacus_ghost", "× Opacus ghost"),
    ("opacus_penalty_error", "Opacus' error with penalty"),
    ("peak_memory_ratio", "memory"),
    ("noise_share", "noise"),
)


JSON_KEYS = (
    "case",
    "private_over_nonprivate",
    "faster_than_vmap",
    "faster_than_opacus",
    "peak_memory_ratio",
    "noise_share",
)


def print_line(cells: Sequence[str]) -> None:
    """One line of a Markdown table, as soon as it is known."""
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the lines to this file")
    parser.add_argument("--quick", action="store_true", help="few repetitions, three cases only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.zeros(7_500_000)  # 30 MB, freed at once
    warnings.filterwarnings("ignore", message="Full backward hook")
    small, large = (10, 3) if options.quick else (60, 15)
    cases = CASES[:3] if options.quick else CASES
    print_line([title for _, title in COLUMNS])
    print_line(["---"] * len(COLUMNS))
    lines = []
    for place, case in enumerate(cases):
        lines.append(measure(place, small if case.name.startswith("mlp") else large))
        print_line([text(lines[-1].get(key)) for key, _ in COLUMNS])
    for case in (REGISTER, *CASES[:2]):
        print("\n" + describe_many_rows(case, small), flush=True)
    if options.json:
        told = [{key: line[key] for key in JSON_KEYS} for line in lines]
        options.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
