"""Checkpoints: the state of a run in one file, written atomically, so that it can go on after a crash.

A checkpoint holds the noisy iterates (both networks and their optimisers), what was published so far, and the number of
the ledger's entry; no record and no statistic of records beyond that. What it shows is covered by the same ε as the
release, counted to the step reached, but it is a working file: it is readable by its owner only and is deleted once the
release is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.discovery.discover import Discovered
from understudy.errors import CheckpointError
from understudy.planning import Plan
from understudy.run.working_files import facts_and_tensors, write_working_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Checkpoints",
    "RunState",
    "checkpoint_of",
    "load_checkpoint",
    "read_checkpoint",
    "save_checkpoint",
]

FORMAT = 2


@dataclass(frozen=True)
class Checkpoints:
    """Where a run writes its state, how often, and whether it goes on from there.

    Args:
        path: the file.
        every: steps between two writes.
        resume: go on from the file instead of beginning anew.
    """

    path: Path
    every: int = 500
    resume: bool = False

    def __post_init__(self) -> None:
        if self.every < 1:
            raise CheckpointError(f"checkpoints are at least one step apart, got {self.every}.")


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Everything of a run besides tensors.

    Args:
        format: version of this file's format.
        plan: what the run does; a resumed run must have the same plan.
        step: how many steps were taken, counting those that a crash lost.
        used: how often each purpose was drawn.
        discovered: the schema with what was discovered, if anything was to be.
        counted: the number of records as declared, or as published with noise; None if nobody asked.
        draws: how many draws the seeded source has made; None for secure noise, which has no state.
        entry: the number of the ledger's entry that the run is charged to.
    """

    format: int = FORMAT
    plan: Plan
    step: int
    used: Mapping[str, int]
    discovered: Discovered | None = None
    counted: float | None = None
    draws: int | None = None
    entry: str | None = None


def save_checkpoint(path: Path, state: RunState, tensors: Mapping[str, Tensor]) -> None:
    """Write the checkpoint under a temporary name, force it to disk, and put it in place.

    Raises:
        CheckpointError: the disk refuses; the older checkpoint is untouched.
    """
    write_working_file(path, state, tensors, error=CheckpointError)


def load_checkpoint(path: Path) -> tuple[RunState, dict[str, Tensor]]:
    """Read a checkpoint.

    Raises:
        CheckpointError: there is none, or it is damaged or of another format.
    """
    return checkpoint_of(path, read_checkpoint(path))


def read_checkpoint(path: Path) -> bytes:
    """The bytes of a checkpoint.

    Raises:
        CheckpointError: there is none.
    """
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}. Start the run without --resume.")
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CheckpointError(f"{path} is not a checkpoint: {problem}.") from problem


def checkpoint_of(path: Path, blob: bytes) -> tuple[RunState, dict[str, Tensor]]:
    """The checkpoint that these bytes of a file hold.

    Raises:
        CheckpointError: they are damaged or of another format.
    """
    return facts_and_tensors(RunState, path, blob, "a checkpoint", error=CheckpointError)
