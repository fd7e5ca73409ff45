"""Runs private steps with too little memory for a batch at once; called by test_memory.py as a program of its own.

Prints one JSON object. The limit is that of the operating system on the whole address space, so what fails is the real
allocator.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

import understudy
from tiny import TINY_TABLE, tiny_frame
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.dpsgd import Critic, NoisyGradients
from understudy.dpsgd.clipping import GlobalClip
from understudy.dpsgd.objectives import WassersteinPenalty
from understudy.errors import OutOfMemory
from understudy.ledger.account import LedgerAccount
from understudy.ledger.ledger import Ledger
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian
from understudy.synthesizers.gan.parts import DenseCritic
from understudy.synthesizers.registry import RECIPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

MEBIBYTE = 2**20


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """No more than so many MiB of address space beyond what is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more * MEBIBYTE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Steps(NamedTuple):
    """How steps were taken: records and fakes at a time, and how many were counted."""

    pieces: int | None
    fakes: int | None
    taken: int


class Diary(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(record.getMessage())


def some_steps(critic: Critic, rows: Rows, fakes: Rows, count: int = 1) -> tuple[Steps, dict[str, Tensor]]:
    """Steps through one door, the same at every call; returns what the first one gave."""
    door = Door(rows, (Charge("steps", SubsampledGaussian(0.5, 1.0, 10)),), SeededNoise(7), insecure=True)
    gradients = NoisyGradients("steps", GlobalClip(0.1), WassersteinPenalty(), 3000.0)
    found = [gradients.step(door, critic, fakes) for _ in range(count)]
    pieces = gradients._records_at_once.rows, gradients._fakes_at_once.rows
    return Steps(*pieces, door.used["steps"]), found[0]


def compare() -> dict[str, object]:
    """The step in pieces against the step at once, from one draw and one noise."""
    torch.manual_seed(0)
    critic = Critic(nn.Sequential(nn.Linear(20, 700), nn.LeakyReLU(0.2), nn.Linear(700, 1))).double()
    rows, fakes = Rows(torch.randn(6000, 20).double()), Rows(torch.randn(3000, 20).double())
    diary = Diary()
    logging.getLogger("understudy").addHandler(diary)
    with at_most(40):
        steps, found = some_steps(critic, rows, fakes, count=2)
    _, expected = some_steps(critic, rows, fakes)
    worst = max(float((found[n] - g).abs().max() / g.abs().max()) for n, g in expected.items())
    logging.getLogger("understudy").removeHandler(diary)
    return {**steps._asdict(), "error": worst, "log": diary.lines, "refusal": refused()}


def refused() -> str:
    """What is said of a critic whose gradient alone is too much."""
    critic = Critic(nn.Sequential(nn.Linear(20, 2_000_000), nn.ReLU(), nn.Linear(2_000_000, 1)))
    try:
        with at_most(10):
            some_steps(critic, Rows(torch.randn(6, 20)), Rows(torch.randn(4, 20)))
    except OutOfMemory as error:
        return str(error)
    return ""


def account(folder: Path) -> dict[str, object]:
    """A whole fit with a critic that does not fit at once, on a ledger."""
    recipe = replace(RECIPES["dp-cgan"], critic=DenseCritic(hidden=(4000,)), critic_steps=100, averaging=None)
    made = understudy.plan(TINY_TABLE, epsilon=3, delta=1e-4, rows=6000, batch=3000, steps=3, recipe=recipe)
    with Ledger(folder / "ledger", create=True) as book:
        book.register("patients", Budget(10.0, 1e-3, Adjacency.ADD_OR_REMOVE_ONE))
        diary = Diary()
        logging.getLogger("understudy").addHandler(diary)
        with at_most(100):
            understudy.fit(tiny_frame(6000), made, account=LedgerAccount(book, "patients"))
        (entry,) = book.statement("patients").entries
        return {"status": entry.status.value, "charged": entry.steps_charged, "fit_log": diary.lines}


if __name__ == "__main__":
    torch.set_num_threads(1)
    parts = {**compare(), **account(Path(sys.argv[1]))}
    sys.stdout.write(json.dumps(parts))
