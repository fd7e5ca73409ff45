"""The public address of `check_synthesizer`, the contract that every synthesizer keeps.

Its code is in `understudy.auditing.contract`: it makes whole runs and releases, which stand above this room.
The name is looked up when it is first used, so that nothing here imports what stands above it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.auditing.contract import check_synthesizer

__all__ = ["check_synthesizer"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("understudy.auditing.contract"), name)
