"""Several processes of a run as threads of one: real gloo groups, and nothing is started."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from torch import distributed as dist

from understudy.door.ranks import ALONE, Ranks

Result = TypeVar("Result")


def together(size: int, work: Callable[[Ranks], Result], timeout: float = 60.0) -> list[Result]:
    """What each of so many ranks gives; the first error of any, with that of rank 0 before others.

    Args:
        size: how many ranks.
        work: done by each in a thread of its own; a rank that ends leaves the group.
        timeout: seconds that one waits for another.
    """
    if size == 1:
        return [work(ALONE)]
    store, results, errors = dist.HashStore(), {}, {}

    def run(rank: int) -> None:
        try:
            results[rank] = work(Ranks(dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=timeout))))
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            error.__cause__ = error.__context__ = None  # whose frames would keep the connection open
            errors[rank] = error.with_traceback(None)
        if rank in errors:
            gc.collect()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[rank] for rank in range(size)]
