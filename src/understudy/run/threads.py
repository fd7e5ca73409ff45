"""How many threads suit a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.planning import Plan

__all__ = ["choose_threads"]


def choose_threads(plan: Plan, threads: int | None) -> None:
    """Small networks are fastest on one thread; larger ones may use all that torch finds."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    elif plan.recipe.one_thread:
        torch.set_num_threads(1)
