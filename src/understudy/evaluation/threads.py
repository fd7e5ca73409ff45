"""Trainings side by side: one thread each, and the numerical libraries kept to that thread."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["one_thread_each", "side_by_side", "usable_cores"]

Key = TypeVar("Key")
Result = TypeVar("Result")


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    jobs: Mapping[Key, Callable[[], Result]], *, workers: int, done: Callable[[Key], None]
) -> dict[Key, Result]:
    """Every job's result. Jobs begin in their order; `done` is called here as they end.

    Jobs must not depend on global random state. With one worker they run here, one after another, with as many threads
    within each as the libraries like.
    """
    results: dict[Key, Result] = {}
    if workers == 1 or len(jobs) < 2:
        for key, job in jobs.items():
            results[key] = job()
            done(key)
        return results
    with one_thread_each(), ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(job): key for key, job in jobs.items()}
        try:
            for future in as_completed(running):
                results[running[future]] = future.result()
                done(running[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


@contextmanager
def one_thread_each() -> Iterator[None]:
    """One thread for torch and for the libraries of linear algebra, as long as it lasts."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    with threadpool_limits(1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
