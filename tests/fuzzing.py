"""Damaged files by the thousand: each is refused with a typed error, quickly and in little memory, or harmless."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

SPICE = [
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"true",
    b"../",
    b"\x00",
    b"9" * 400,
    b"\xff",
]
SECONDS, GIBIBYTE = 10, 2**30


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The content with one to four small wounds."""
    wounded = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(wounded) + 1)
        match chance.randrange(4):
            case 0:
                wounded[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del wounded[place : place + chance.randint(1, 40)]
            case 2:
                wounded[place : place + chance.randint(0, 8)] = chance.choice(SPICE)
            case _:
                other = chance.randrange(len(wounded) + 1)
                wounded[place:place] = wounded[other : other + chance.randint(1, 60)]
    return bytes(wounded)


def assault(
    content: bytes, attempt: Callable[[bytes], object], error: type[Exception], times: int, seed: int
) -> int:
    """Feed mutated content; count the refusals. Anything but `error`, a long wait or much memory fails the test."""
    chance, refused = random.Random(seed), 0
    for _ in range(times):
        with limited():
            try:
                attempt(mutated(content, chance))
            except error:
                refused += 1
    return refused


class TooSlowError(Exception):
    """An input took longer than it may."""


@contextlib.contextmanager
def limited(seconds: float = SECONDS, memory: int = GIBIBYTE) -> Iterator[None]:
    """No more than this time, and this much address space beyond what is in use now."""

    def ring(*_: object) -> None:
        raise TooSlowError(f"an input took more than {seconds:g} s")

    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, alarm = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + memory, before[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        resource.setrlimit(resource.RLIMIT_AS, before)
