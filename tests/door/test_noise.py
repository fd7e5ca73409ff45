"""The random numbers: known answers of the cipher, distribution, independence, freshness."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from scipy import stats

from understudy.door.noise import _BLOCK, Noise, SecureNoise, SeededNoise, _Stream

if TYPE_CHECKING:
    from collections.abc import Callable


def test_words_are_the_aes_counter_stream() -> None:
    """The stream equals the AES-256 vector of FIPS-197 when its counter block is that plaintext."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    assert block.update(bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == (
        "8ea2b7ca516745bfeafc49904b496089"
    )
    counters = b"".join(i.to_bytes(16, "big") for i in range(4))
    expected = np.frombuffer(block.update(counters), dtype="<i8")
    assert _Stream(key).words(8).tolist() == expected.tolist()


@pytest.mark.parametrize("count", [1, 2, 3, _BLOCK - 1, _BLOCK, _BLOCK + 1, 2 * _BLOCK + 7])
def test_every_length_is_filled(count: int) -> None:
    """Odd lengths and lengths across blocks give that many distinct, finite numbers."""
    draw = SecureNoise().normal((count,))
    assert draw.shape == (count,)
    assert draw.isfinite().all()
    assert len(draw.unique()) == count


def test_normal_numbers_are_normal() -> None:
    """A million draws pass Kolmogorov-Smirnov, have the right variance and reject a scale that is 1 % off."""
    draw = SeededNoise(1).normal((1_000_000,)).numpy()
    assert stats.kstest(draw, "norm").pvalue > 1e-3
    assert stats.kstest(draw * 1.01, "norm").pvalue < 1e-6
    assert abs(stats.skew(draw)) < 0.01
    assert abs(stats.kurtosis(draw)) < 0.02


def test_halves_of_a_pair_are_uncorrelated() -> None:
    """Box and Muller's cosine and sine halves are independent, also in their squares."""
    draw = SeededNoise(2).normal((_BLOCK,)).numpy()
    first, second = draw[: _BLOCK // 2], draw[_BLOCK // 2 :]
    limit = 4 / np.sqrt(_BLOCK // 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < limit
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < limit


def test_uniform_numbers_are_uniform_and_open() -> None:
    """Uniform draws never reach 0 or 1 and pass Kolmogorov-Smirnov."""
    draw = SeededNoise(3).uniform((200_000,)).numpy()
    assert 0 < draw.min() < draw.max() < 1
    assert stats.kstest(draw, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("high", [1, 2, 7, 1000])
def test_integers_are_uniform(high: int) -> None:
    """Integers cover their range evenly."""
    draw = SeededNoise(4).integers(high, 70_000)
    assert draw.min() >= 0
    assert draw.max() < high
    if high > 1:
        assert stats.chisquare(torch.bincount(draw, minlength=high).numpy()).pvalue > 1e-3


def test_every_draw_is_fresh() -> None:
    """Two draws of one source, and of two sources, share no number and are uncorrelated."""
    source = SecureNoise()
    draws = [source.normal((20_000,)) for _ in range(3)] + [SecureNoise().normal((20_000,))]
    assert len(torch.cat(draws).unique()) == 80_000
    correlations = np.corrcoef(torch.stack(draws).numpy())
    assert np.abs(correlations - np.eye(4)).max() < 0.035


def _draw_in_child(source: Noise, queue: multiprocessing.SimpleQueue[list[float]]) -> None:
    queue.put(source.normal((16,)).tolist())


def _distinct_draws(source: Noise) -> int:
    """How many different numbers two forked children and their parent draw from one source, of 48."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [context.Process(target=_draw_in_child, args=(source, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get() for _ in workers] + [source.normal((16,)).tolist()]
    for worker in workers:
        worker.join()
    return len({value for result in results for value in result})


def forks(test: Callable[[], None]) -> Callable[[], None]:
    """A test that forks, where that can be done; later versions of Python warn of threads."""
    skipped = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
    quiet = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    marked: Callable[[], None] = skipped(quiet(test))
    return marked


class _KeyFromMemory(SecureNoise):
    """A planted bug: the next key follows from the last one, which a fork copies."""

    def __init__(self) -> None:
        self._last = os.urandom(32)

    def _key(self) -> bytes:
        self._last = hashlib.sha256(self._last).digest()
        return self._last


@forks
def test_forked_processes_do_not_share_noise() -> None:
    """A source that is copied into child processes by a fork gives each its own numbers."""
    source = SecureNoise()
    source.normal((16,))  # whatever it may keep, it now has
    assert _distinct_draws(source) == 48


@forks
def test_a_key_that_survives_a_fork_is_noticed() -> None:
    """The comparison can fail: keys that follow from memory repeat in every child."""
    assert _distinct_draws(_KeyFromMemory()) == 16


def test_seeded_noise_repeats_and_says_it_is_not_private() -> None:
    """Equal seeds repeat, draws within one source do not, and only the secure source is private."""
    first, second = SeededNoise(7), SeededNoise(7)
    one = first.normal((5,))
    assert torch.equal(one, second.normal((5,)))
    assert not torch.equal(one, first.normal((5,)))
    assert not SeededNoise(7).private
    assert SecureNoise().private
