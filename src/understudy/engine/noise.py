"""Random numbers for everything that protects privacy: the noise and the choice of the batch.

`SecureNoise` takes a fresh 256-bit key from the operating system for every draw and expands it with
AES-256 in counter mode. It has no state: there is nothing to seed, to fork, to write in a checkpoint or to
use twice. `SeededNoise` runs the same arithmetic from keys that follow from a seed; whatever it
touches is repeatable and therefore not private, and it says so (`private` is False).

A 64-bit word of the stream gives a uniform number with 52 random bits, at the middle of its cell, so
that 0 and 1 never occur. Two uniform numbers give two normal ones by Box and Muller's formula, in
float64. The largest magnitude that can occur is √(2·53·ln 2) ≈ 8.57.
"""

from __future__ import annotations

import hashlib
import math
import os
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["Noise", "SecureNoise", "SeededNoise"]

_BLOCK = 32_768  # words handled at once: small enough for the cache, large enough to hide the calls
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52  # the exponent bits of a float64 in [1, 2)
_ZEROS = memoryview(bytes(8 * _BLOCK))


class Noise(Protocol):
    """A source of random numbers, all in float64 or int64 on the CPU."""

    @property
    def private(self) -> bool:
        """Whether a release that used this source may be called private."""
        ...

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Independent standard normal numbers."""
        ...

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Independent numbers, uniform on (0, 1)."""
        ...

    def integers(self, high: int, count: int) -> Tensor:
        """Independent integers, uniform on 0 … high − 1."""
        ...


class _KeyStream:
    """The shared arithmetic: a key becomes words, words become numbers."""

    private: ClassVar[bool]

    def _key(self) -> bytes:
        raise NotImplementedError

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Independent standard normal numbers of the given shape."""
        total = math.prod(shape)
        out = torch.empty(total, dtype=torch.float64)
        stream = _Words(self._key(), total + 1)
        for start in range(0, total, stream.block):
            _box_muller(stream.uniform(), out[start : start + stream.block])
        return out.reshape(tuple(shape))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Independent numbers of the given shape, uniform on (0, 1)."""
        total = math.prod(shape)
        out = torch.empty(total, dtype=torch.float64)
        stream = _Words(self._key(), total)
        for start in range(0, total, stream.block):
            part = out[start : start + stream.block]
            part.copy_(stream.uniform()[: len(part)])
        return out.reshape(tuple(shape))

    def integers(self, high: int, count: int) -> Tensor:
        """Independent integers, uniform on 0 … high − 1: words past the last full cycle are redrawn."""
        stream = _Words(self._key(), count + 8)
        limit = (1 << 62) - (1 << 62) % high
        kept = torch.empty(0, dtype=torch.int64)
        while len(kept) < count:
            words = stream.words() & ((1 << 62) - 1)
            kept = torch.cat([kept, words[words < limit] % high])
        return kept[:count]


class SecureNoise(_KeyStream):
    """Noise from the operating system's entropy; every draw has its own key. The default."""

    private: ClassVar[bool] = True

    def _key(self) -> bytes:
        return os.urandom(32)


class SeededNoise(_KeyStream):
    """Repeatable numbers for tests and for non-private baselines; never private.

    Args:
        seed: any integer. Two sources with one seed give the same draws in the same order.
        draws: how many draws were made before (after a resume).
    """

    private: ClassVar[bool] = False

    def __init__(self, seed: int, draws: int = 0) -> None:
        self._seed = seed
        self.draws = draws

    def _key(self) -> bytes:
        self.draws += 1
        return hashlib.sha256(f"understudy:{self._seed}:{self.draws}".encode()).digest()


class _Words:
    """The key stream of AES-256-CTR under one key, in blocks that reuse one buffer.

    Args:
        key: 32 bytes.
        wanted: how many words will be asked for; fewer than a full block make the block smaller.
    """

    def __init__(self, key: bytes, wanted: int = _BLOCK) -> None:
        self.block = min(_BLOCK, max(2, wanted + wanted % 2))
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._buffer = bytearray(8 * self.block + 15)

    def words(self) -> Tensor:
        """The next block as int64; valid until the next call."""
        self._encryptor.update_into(_ZEROS[: 8 * self.block], self._buffer)
        return torch.frombuffer(self._buffer, dtype=torch.int64, count=self.block)

    def uniform(self) -> Tensor:
        """The next block as float64 in (0, 1); valid until the next call."""
        bits = self.words().bitwise_and_(_MANTISSA).bitwise_or_(_ONE)
        return bits.view(torch.float64).sub_(1.0 - 2.0**-53)


def _box_muller(uniform: Tensor, out: Tensor) -> None:
    """Fill `out` (at most one block) with normal numbers; overwrites `uniform`."""
    half = (len(out) + 1) // 2
    radius = uniform[:half].log_().mul_(-2.0).sqrt_()
    middle = len(uniform) // 2
    angle = uniform[middle : middle + half].mul_(2.0 * math.pi)
    out[:half] = torch.cos(angle).mul_(radius)
    rest = len(out) - half
    out[half:] = angle.sin_().mul_(radius)[:rest]
