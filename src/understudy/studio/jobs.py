"""What takes long, in processes of its own: one at a time for each journey, with progress, stop and resume."""

from __future__ import annotations

import enum
import fcntl
import multiprocessing
import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from understudy.errors import StudioError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from pathlib import Path

__all__ = ["Job", "Jobs", "State", "Work", "single_writer"]


class Work(enum.Enum):
    """What a process does for a journey."""

    FIT = "fit"
    EVALUATE = "evaluate"
    AUDIT = "audit"
    PUBLISH = "publish"


class State(enum.Enum):
    """How far a job is."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Job:
    """The news about a job.

    Args:
        work: what it does.
        state: how far it is.
        share: finished share, 0 to 1.
        note: what it is doing, or why it ended; never a private value.
    """

    work: Work
    state: State = State.RUNNING
    share: float = 0.0
    note: str = "starting"


class _Running:
    def __init__(self, process: BaseProcess, ours: Connection, job: Job) -> None:
        self.process, self.ours, self.job = process, ours, job


class Jobs:
    """The jobs of this studio; those of a journey run one after another."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._jobs: dict[str, _Running] = {}
        self._lock = threading.Lock()

    def of(self, journey: str) -> Job | None:
        """The latest job of a journey, or None."""
        with self._lock:
            found = self._jobs.get(journey)
            return None if found is None else found.job

    def start(self, journey: str, work: Work, target: Any, *arguments: Any) -> bool:
        """Start a job; returns False, and starts nothing, if the journey has one that runs.

        Args:
            journey: its name.
            work: what it is.
            target: called in the process as target(root, journey, say, asked_to_stop, *arguments).
            arguments: plain values.
        """
        with self._lock:
            found = self._jobs.get(journey)
            if found is not None and found.job.state is State.RUNNING:
                return False
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_child, args=(target, self._root, journey, theirs, arguments), daemon=True
            )
            process.start()
            theirs.close()
            running = _Running(process, ours, Job(work))
            self._jobs[journey] = running
        threading.Thread(target=self._listen, args=(running,), daemon=True).start()
        return True

    def stop(self, journey: str) -> None:
        """Ask the running job to stop in order."""
        with self._lock:
            found = self._jobs.get(journey)
        if found is not None and found.job.state is State.RUNNING:
            with suppress(OSError):
                found.ours.send("stop")

    def close(self) -> None:
        """Ask all jobs to stop in order, and wait a little for them."""
        for journey in list(self._jobs):
            self.stop(journey)
        for running in self._jobs.values():
            running.process.join(10)

    def _listen(self, running: _Running) -> None:
        while True:
            try:
                news = running.ours.recv()
            except (EOFError, OSError):
                break
            with self._lock:
                running.job = replace(running.job, **news)
        running.process.join()
        with self._lock:
            if running.job.state is State.RUNNING:
                running.job = replace(
                    running.job,
                    state=State.FAILED,
                    note="the process ended without a word; what it charged stays charged. Resume it.",
                )


def _child(target: Any, root: Path, journey: str, pipe: Connection, arguments: tuple[Any, ...]) -> None:
    """In the process: run, and tell how it went. A studio that is gone counts as a request to stop."""
    from understudy.errors import Interrupted, UnderstudyError

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    stopped = threading.Event()

    def listen() -> None:
        with suppress(EOFError, OSError):
            pipe.recv()
        stopped.set()

    threading.Thread(target=listen, daemon=True).start()

    def say(**news: Any) -> None:
        try:
            pipe.send(news)
        except OSError:
            stopped.set()

    try:
        target(root, journey, say, stopped.is_set, *arguments)
    except Interrupted as notice:
        say(state=State.STOPPED, note=str(notice))
    except UnderstudyError as problem:
        say(state=State.FAILED, note=str(problem))
    except Exception as problem:  # noqa: BLE001 - whatever it is, the page says so instead of waiting for ever
        say(state=State.FAILED, note=f"an error of ours: {type(problem).__name__}. Please report it.")
    else:
        say(state=State.DONE, share=1.0, note="finished")


@contextmanager
def single_writer(folder: Path) -> Iterator[None]:
    """Hold a journey's folder for this process, also against another studio on the same folder.

    Raises:
        StudioError: somebody else holds it.
    """
    with (folder / "writer.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise StudioError("another studio is working on this journey.") from problem
        yield
