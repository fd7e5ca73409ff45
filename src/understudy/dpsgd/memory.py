"""When memory runs out: how to notice it, and what to say."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from understudy.errors import OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["explained", "ran_out"]

_SIGNS = ("can't allocate memory", "out of memory", "not enough memory", "bad_alloc", "bad allocation")


def ran_out(error: BaseException) -> bool:
    """Whether an error means that memory could not be had; libraries say it in several ways."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


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
