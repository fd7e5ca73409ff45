"""Joining the processes of one run: those that `torchrun` and its like started, or those that are started here.

`torchrun`, Slurm, Kubeflow, Ray Train and Accelerate tell each process by the same variables (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT) which one it is and where the first one can be found. Processes greet each other before
anything else: wrong numbers and different versions are refused there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from understudy._version import __version__
from understudy.door.ranks import ALONE, Ranks
from understudy.errors import PlanError, RanksError
from understudy.run.devices import Device, chosen_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["TIMEOUT", "joined", "started"]

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for the others: longer than the slowest needs to read its records, or to take one step."""

_STORE = "UNDERSTUDY_STORE"
"""Names the file in which processes that `started` started find each other."""
_VERDICT = "understudy verdict"
_LAST_WORDS = 10.0
"""Seconds in which a process that was started here may end by itself when the first one is done."""


@contextmanager
def joined(timeout: timedelta = TIMEOUT, device: Device = Device.CPU) -> Iterator[Ranks]:
    """This process among those that were started with it; alone if there are none.

    Args:
        timeout: how long to wait for another process before it counts as lost.
        device: where networks are trained: processes with cards talk by NCCL, others by gloo.

    Raises:
        PlanError: there is no such device.
        RanksError: not all came, or they disagree about their number or version.
    """
    variables = os.environ
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        yield ALONE
        return
    rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
    if size == 1:
        yield ALONE
        return
    card = chosen_device(device).type == "cuda"
    if card:
        torch.cuda.set_device(int(variables.get("LOCAL_RANK", 0)))
    try:
        store = _store(rank, size, timeout)
        _greet(store, rank, size, timeout)
        dist.init_process_group(
            "nccl" if card else "gloo", store=store, rank=rank, world_size=size, timeout=timeout
        )
    except RuntimeError as cause:
        raise RanksError(
            f"process {rank} of {size} cannot reach the others within {timeout.total_seconds():g} seconds: were all "
            "started, with one MASTER_ADDR and MASTER_PORT? Nothing was charged."
        ) from cause
    try:
        yield Ranks(dist.group.WORLD, torch.device("cuda" if card else "cpu"))
    finally:
        dist.destroy_process_group()


def _store(rank: int, size: int, timeout: timedelta) -> Any:
    if _STORE in os.environ:
        return dist.FileStore(os.environ[_STORE], size)  # type: ignore[attr-defined]
    store, _, _ = next(iter(rendezvous("env://", rank, size, timeout=timeout)))
    return store


def _greet(store: Any, rank: int, size: int, timeout: timedelta) -> None:
    """Go on only if all processes came, each with a number of its own, the same size and the same version."""
    versions = f"understudy {__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    own = f"{size} processes, {versions}"
    if store.add(f"understudy number {rank}", 1) > 1:
        raise RanksError(f"two processes say that they are number {rank} of {size}. Nothing was charged.")
    store.set(f"understudy hello {rank}", own)
    if rank == 0:
        hellos = [f"understudy hello {other}" for other in range(size)]
        for hello in hellos:
            store.wait([hello], timeout)
        said = [store.get(hello).decode() for hello in hellos]
        other = next((number for number, one in enumerate(said) if one != own), None)
        store.set(
            _VERDICT, own if other is None else f"process 0 says {own}; process {other} says {said[other]}"
        )
    store.wait([_VERDICT], timeout)
    verdict = store.get(_VERDICT).decode()
    if verdict != own:
        raise RanksError(
            f"the processes of this run differ. Process {rank} says {own}; {verdict}. Start all with the same "
            "WORLD_SIZE, from one installation. Nothing was charged."
        )


@contextmanager
def started(processes: int | None, arguments: Sequence[str]) -> Iterator[None]:
    """Make this process the first of several on this machine, and start the others with the same command.

    Args:
        processes: how many in all; None to start none.
        arguments: the command line after `understudy`.

    Raises:
        PlanError: processes were started already by somebody else, in another number.
    """
    size = os.environ.get("WORLD_SIZE")
    if processes is None or processes == 1 or _STORE in os.environ:
        yield
        return
    if size is not None:
        raise PlanError(f"{size} processes were started already (WORLD_SIZE): leave --processes out.")
    with tempfile.TemporaryDirectory(prefix="understudy-", ignore_cleanup_errors=True) as folder:
        common = {_STORE: str(Path(folder) / "store"), "WORLD_SIZE": str(processes)}
        common |= {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", _loopback())}
        threads = max(1, torch.get_num_threads() // processes)
        common |= {"OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-m", "understudy", *arguments]
        others = [
            subprocess.Popen(  # noqa: S603 - this very command
                command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            )
            for rank in range(1, processes)
        ]
        before = dict(os.environ)
        os.environ.update({**common, "RANK": "0", "LOCAL_RANK": "0"})
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            _ended(others)


def _ended(others: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for the processes that were started, and end those that do not end by themselves."""
    for one in others:
        try:
            one.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            one.terminate()
            with suppress(subprocess.TimeoutExpired):
                one.wait(_LAST_WORDS)
            one.kill()
            one.wait()


def _loopback() -> str:
    """The name of the network interface that leaves no machine."""
    return "lo0" if sys.platform == "darwin" else "lo"
