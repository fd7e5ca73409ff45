"""The moving average of a generator's weights: post-processing, and often the better generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

__all__ = ["MovingAverage"]


class MovingAverage:
    """An exponential moving average of a model's state, running statistics included: often the better generator.

    Args:
        model: the model to follow; the average starts at its current state.
        decay: the share of the old average that each `update` keeps once it is warm; None keeps nothing, so that the
            average is the model itself.
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.decay = decay
        self._weights = {name: value.clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, taken: int) -> None:
        """Move the average towards the model's state after `taken` steps; the first steps are forgotten faster."""
        kept = min(self.decay or 0.0, (1 + taken) / (10 + taken))
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                self._weights[name].lerp_(value, 1.0 - kept)
            else:
                self._weights[name].copy_(value)

    def weights(self) -> dict[str, Tensor]:
        """The averaged state, by name."""
        return {name: value.clone() for name, value in self._weights.items()}

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from what `weights` gave, on the device of the model."""
        self._weights = {
            name: value.to(self._weights[name].device, copy=True) for name, value in weights.items()
        }
