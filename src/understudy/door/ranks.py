"""The processes of one run, each with its own shard of the records, and what they say to each other.

One process is a world of size one, and says nothing. In a larger world every process runs the same code: each adds up
its own records, the sums are reduced to the first process in one message, that one draws the noise, and what is
published goes back to all. Before the noise, sums of a shard are PRIVATE, and travel between the processes only.

Every message is a reduce to the first process or a broadcast from it. Where a process is lost, the next message of all
others fails, at once or after the timeout of the group, and the run stops: it never goes on with those that are left.
"""

from __future__ import annotations

import secrets
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch import distributed as dist

from understudy.errors import RanksError, UnderstudyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from understudy.door.query import Chance

__all__ = ["ALONE", "Ranks", "SharedCoins"]

_TEXT = 1000
"""Bytes of a text that a process tells the others."""


class Ranks:
    """One process among those of a run; alone by default.

    Args:
        group: the connected processes, a process group of `torch.distributed`; None for a world of one.
        device: where messages are put together: the CPU for gloo, a card for NCCL.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, device: torch.device | None = None) -> None:
        self._group = group
        self._device = torch.device("cpu") if device is None else device
        self.rank = 0 if group is None else group.rank()
        self.size = 1 if group is None else group.size()

    @property
    def first(self) -> bool:
        """Whether this is the process that charges the account, draws the noise and writes files."""
        return self.rank == 0

    def added(self, sums: Sequence[Tensor], purpose: str = "", scale: float = 0.0) -> list[Tensor]:
        """PRIVATE: the sums over all processes, in the first one; elsewhere nothing that may be used.

        One message carries all sums, and beside them what every process sums up for: noise is scaled to the bound
        that the first process clips to, so all must have clipped to that.

        Args:
            sums: of this process, in the same shapes everywhere.
            purpose: what they are summed for.
            scale: the standard deviation of the noise that this process expects upon them.

        Raises:
            RanksError: a process is lost, or the processes are not at the same step.
        """
        if self.size == 1:
            return list(sums)
        told = torch.zeros(self.size, 2, dtype=sums[0].dtype)
        told[self.rank] = torch.tensor([zlib.crc32(purpose.encode()), scale])
        flat = self._flat([*sums, told])
        self._reduce(flat)
        *total, told = _split(flat, [*sums, told])
        if self.first and not bool((told == told[0]).all()):
            raise RanksError(
                f"the processes of this run are not at the same step (process 0 is at the {purpose}), or clip to "
                "different bounds. Start all of them from one installation, on machines of one kind."
            )
        return total

    def shared(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors of the first process, in all; the others give tensors of the same shapes."""
        if self.size == 1:
            return list(tensors)
        flat = self._flat(tensors)
        self._broadcast(flat)
        return _split(flat, tensors)

    def shared_bytes(self, content: bytes) -> bytes:
        """What the first process has, in all; what the others give counts for nothing."""
        if self.size == 1:
            return content
        (length,) = self.shared([torch.tensor([len(content)])])
        own = bytearray(content) if self.first else bytearray(int(length))
        return self.shared([torch.frombuffer(own, dtype=torch.uint8)])[0].numpy().tobytes()

    def shared_seed(self) -> int:
        """A new seed, the same in all, for randomness that costs nothing."""
        (seed,) = self.shared([torch.tensor([secrets.randbits(62)])])
        return int(seed)

    def shared_answer(self, answer: bool) -> bool:
        """What the first process answers, in all."""
        (told,) = self.shared([torch.tensor([int(answer)])])
        return bool(told)

    def told(self, text: str) -> list[str]:
        """What every process says, in all of them; long texts are cut."""
        if self.size == 1:
            return [text]
        said = torch.zeros(self.size, _TEXT, dtype=torch.uint8)
        own = torch.frombuffer(bytearray(text.encode()[:_TEXT].ljust(_TEXT, b"\0")), dtype=torch.uint8)
        said[self.rank] = own
        flat = self._flat([said])
        self._reduce(flat)
        self._broadcast(flat)
        rows = _split(flat, [said])[0].numpy()
        return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in rows]

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Work that every process must have done well before any goes on; where one fails, all stop.

        Raises:
            UnderstudyError: what the first process failed with.
            RanksError: another one failed; with its message.
        """
        problem: UnderstudyError | None = None
        try:
            yield
        except UnderstudyError as own:
            if self.size == 1 or isinstance(own, RanksError):
                raise
            problem = own
        said = self.told("" if problem is None else str(problem) or type(problem).__name__)
        failed = next((number for number, text in enumerate(said) if text), None)
        if problem is not None and self.first:
            raise problem
        if failed is not None:
            raise RanksError(f"process {failed} of {self.size} stopped: {said[failed]}") from problem

    def same(self, what: str, value: str) -> None:
        """Refuse to go on unless every process has the same value.

        Raises:
            RanksError: with the number of one that has another.
        """
        said = self.told(value)
        other = next((number for number, one in enumerate(said) if one != said[0]), None)
        if other is not None:
            raise RanksError(
                f"process {other} has another {what} than process 0. Start all processes of a run with the same "
                "options, from one installation. Nothing was charged."
            )

    def _flat(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([one.detach().reshape(-1).to(device=self._device) for one in tensors])

    def _reduce(self, flat: Tensor) -> None:
        options = dist.ReduceOptions()
        options.rootRank = 0
        assert self._group is not None
        with self._explained():
            self._group.reduce([flat], options).wait()

    def _broadcast(self, flat: Tensor) -> None:
        options = dist.BroadcastOptions()
        options.rootRank = 0
        assert self._group is not None
        with self._explained():
            self._group.broadcast([flat], options).wait()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as cause:
            raise RanksError(
                f"process {self.rank} of {self.size} has lost another one: it was stopped, or the network is broken. "
                "What was charged stays spent; go on with --resume, with as many processes as you like."
            ) from cause


ALONE = Ranks()
"""A world of one process."""


class SharedCoins:
    """Coins for what is public: tossed by the first process, and the same in all.

    Args:
        chance: where this process gets them.
        ranks: the processes.
    """

    def __init__(self, chance: Chance, ranks: Ranks) -> None:
        self._chance, self._ranks = chance, ranks

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Independent numbers, uniform on (0, 1), in float64."""
        return self._ranks.shared([self._chance.uniform(shape)])[0]

    def integers(self, high: int, count: int) -> Tensor:
        """Independent integers, uniform on 0 … high − 1."""
        return self._ranks.shared([self._chance.integers(high, count)])[0]


def _split(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    parts = torch.split(flat, [one.numel() for one in like])
    return [
        part.view(one.shape).to(device=one.device, dtype=one.dtype)
        for part, one in zip(parts, like, strict=True)
    ]
