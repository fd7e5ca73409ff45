"""What to say when a graphics card is asked for in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import PlanError

if TYPE_CHECKING:
    import torch

__all__ = ["on_the_cpu"]


def on_the_cpu(recipe: str, device: torch.device) -> torch.device:
    """The device, for a fit that takes seconds and has no use for a graphics card.

    Raises:
        PlanError: another device than the CPU was asked for.
    """
    if device.type != "cpu":
        raise PlanError(
            f"recipe {recipe!r} runs on the CPU only, in seconds: leave --device {device.type} out."
        )
    return device
