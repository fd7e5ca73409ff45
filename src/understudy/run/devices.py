"""Where networks are trained: on the CPU, or on a graphics card if there is one.

The device is no part of a plan: it changes how long a training takes, not what is trained or charged. Batches and
noise are drawn on the CPU and moved.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from understudy.errors import PlanError

if TYPE_CHECKING:
    import torch

__all__ = ["Device", "chosen_device"]


class Device(enum.Enum):
    """What a user may ask for."""

    AUTO = "auto"
    """The graphics card if torch finds one, else the CPU."""

    CPU = "cpu"

    CUDA = "cuda"


def chosen_device(asked: Device) -> torch.device:
    """The device that was asked for.

    Raises:
        PlanError: a graphics card was asked for, and torch finds none.
    """
    import torch

    found = torch.cuda.is_available()
    if asked is Device.CUDA and not found:
        raise PlanError(
            "--device cuda: torch finds no graphics card. Install a build of torch with CUDA, or use --device cpu."
        )
    return torch.device("cuda" if found and asked is not Device.CPU else "cpu")
