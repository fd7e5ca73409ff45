"""Independent jobs in processes of their own, with news of how far each one is."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["in_processes"]

Job = TypeVar("Job")


def in_processes(
    work: Callable[[Job, Callable[[float], None]], None],
    jobs: Sequence[Job],
    *,
    workers: int,
    on_progress: Callable[[Job, float], None] | None = None,
) -> None:
    """Do every job in a fresh process; the first error cancels what has not begun and is raised.

    Args:
        work: takes a job and a function to report its finished share with; must be importable by name.
        jobs: values that can be sent to another process and told apart.
        workers: processes at a time.
        on_progress: called here with a job and its finished share.
    """
    if not jobs:
        return
    context = multiprocessing.get_context("spawn")
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool,
    ):
        news: Any = manager.Queue()
        running = {pool.submit(_work, work, place, job, news) for place, job in enumerate(jobs)}
        try:
            while running:
                finished, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                while not news.empty():
                    place, share = news.get()
                    if on_progress is not None:
                        on_progress(jobs[place], share)
                for future in finished:
                    future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _work(work: Callable[[Job, Callable[[float], None]], None], place: int, job: Job, news: Any) -> None:
    import torch

    torch.set_num_threads(1)
    work(job, lambda share: news.put((place, share)))
    news.put((place, 1.0))
