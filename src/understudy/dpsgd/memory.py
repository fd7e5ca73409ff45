"""When memory runs out: how to notice it, how to go on in pieces, and what to say."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch

from understudy.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Pieces", "explained", "ran_out"]

_Result = TypeVar("_Result")

_SIGNS = ("can't allocate memory", "out of memory", "not enough memory", "bad_alloc", "bad allocation")


def ran_out(error: BaseException) -> bool:
    """Whether an error means that memory could not be had; libraries say it in several ways."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


class Pieces:
    """How many rows go through a model at once: all, and fewer since memory ran out.

    Records and fakes have one each: when memory runs out follows the number of records that were drawn, which must
    change neither how fakes are summed nor what is logged.

    Args:
        first: a public number of rows, the first to be tried after all at once.
    """

    def __init__(self, first: float) -> None:
        self._first = first
        self.rows: int | None = None

    def of(self, work: Callable[..., _Result]) -> _Result:
        """The work on this one draw; where memory runs out, in ever smaller pieces of the same draw."""
        while True:
            try:
                return work(chunk=self.rows)
            except (MemoryError, RuntimeError) as error:
                if self.rows == 1 or not ran_out(error):
                    raise
            self.rows = math.ceil(self._first if self.rows is None else self.rows / 2)


@contextmanager
def explained() -> Iterator[None]:
    """Turn an error that means no memory into one that says what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        raise OutOfMemory(
            "there is not enough memory for one step of the critic, even one row at a time. Plan a smaller batch or a "
            "smaller critic, or free memory."
        ) from error
