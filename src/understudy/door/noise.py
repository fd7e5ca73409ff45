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

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
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

    def perturb(self, tensors: Iterable[Tensor], scale: float, factor: float) -> None:
        """Replace every entry by (entry + scale · normal) · factor, computed in float64, in place."""
        ...


class _KeyStream:
    """The shared arithmetic: a key becomes words, words become numbers."""

    private: ClassVar[bool]

    def _key(self) -> bytes:
        raise NotImplementedError

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Independent standard normal numbers of the given shape."""
        out = torch.empty(math.prod(shape), dtype=torch.float64)
        stream = _Stream(self._key())
        for part in _pieces(out):
            part.copy_(stream.normal(part.shape[0]))
        return out.reshape(tuple(shape))

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Independent numbers of the given shape, uniform on (0, 1)."""
        words = _Stream(self._key()).words(math.prod(shape))
        one_to_two = (words & _MANTISSA | _ONE).view(np.float64)
        return torch.from_numpy(one_to_two - (1.0 - 2.0**-53)).reshape(tuple(shape))

    def integers(self, high: int, count: int) -> Tensor:
        """Independent integers, uniform on 0 … high − 1: words past the last full cycle are redrawn."""
        stream = _Stream(self._key())
        limit = (1 << 62) - (1 << 62) % high
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < count:
            words = stream.words(count - len(kept) + 8) & ((1 << 62) - 1)
            kept = np.concatenate([kept, words[words < limit] % high])
        return torch.from_numpy(kept[:count])

    def perturb(self, tensors: Iterable[Tensor], scale: float, factor: float) -> None:
        """Replace every entry by (entry + scale · normal) · factor, in place; all tensors share one key.

        The arithmetic is in float64 and goes block by block, so no second copy of the tensors is made.
        """
        pieces = [piece for tensor in tensors for piece in _pieces(tensor.view(-1))]
        stream = _Stream(self._key())
        while pieces:
            together, entries = [], 0  # small tensors share a block
            while pieces and entries + pieces[0].shape[0] <= _BLOCK:
                together.append(pieces.pop(0))
                entries += together[-1].shape[0]
            draws = stream.normal(entries, scale * factor)
            start = 0
            for piece in together:
                stop = start + piece.shape[0]
                piece.copy_(draws[start:stop].to(piece.device).add_(piece, alpha=factor))
                start = stop


def _pieces(flat: Tensor) -> list[Tensor]:
    return [flat[start : start + _BLOCK] for start in range(0, flat.shape[0], _BLOCK)]


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
        rank: the number of the process: each has a stream of its own, as it has entropy of its own without a seed.
    """

    private: ClassVar[bool] = False

    def __init__(self, seed: int, draws: int = 0, rank: int = 0) -> None:
        self._seed = f"{seed}" if rank == 0 else f"{seed}:process {rank}"
        self.draws = draws

    def _key(self) -> bytes:
        self.draws += 1
        return hashlib.sha256(f"understudy:{self._seed}:{self.draws}".encode()).digest()


class _Stream:
    """The key stream of AES-256-CTR under one key, as numbers.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._block: tuple[Tensor, memoryview] | None = None

    def words(self, count: int) -> npt.NDArray[np.int64]:
        """The next words."""
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype=np.int64)

    def normal(self, count: int, scale: float = 1.0) -> Tensor:
        """The next normal numbers (at most a block) times `scale`, by Box and Muller; valid until the next call."""
        half = (count + 1) // 2
        both = self._one_to_two(2 * half)
        radius, angle = both[:half], both[half:]
        squares = radius.numpy()  # the same memory: NumPy's logarithm and root are the faster ones
        np.log(np.subtract(squares, 1.0 - 2.0**-53, out=squares), out=squares)
        np.sqrt(np.multiply(squares, -2.0 * scale * scale, out=squares), out=squares)
        angle.mul_(2.0 * math.pi)  # from 2π to 4π, a full turn as good as any other
        sine = torch.sin(angle)
        angle.cos_().mul_(radius)
        radius.mul_(sine)
        return both[:count]

    def _one_to_two(self, count: int) -> Tensor:
        """Numbers in [1, 2), always in the same memory: 52 random bits under the exponent of one."""
        if self._block is None:
            block = torch.empty(_BLOCK + 2, dtype=torch.int64)  # the cipher asks for room to spare
            self._block = block, block.numpy().data.cast("B")
        block, view = self._block
        self._encryptor.update_into(_ZEROS[: 8 * count], view)
        return block[:count].bitwise_and_(_MANTISSA).bitwise_or_(_ONE).view(torch.float64)
