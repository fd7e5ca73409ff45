"""What is published: a network that draws records and knows no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    import torch

    from understudy.synthesizers.protocol import Drawn, Request

__all__ = ["Model"]


class Model(nn.Module):
    """The part of a synthesizer that is released; its weights are the file.

    `certainty` says how sure a labeller must be of a record's class, where the model has a labeller; else it is None.
    """

    certainty: float | None = None

    def draw(self, request: Request, source: torch.Generator) -> Drawn:
        """Synthetic records; each kind of model has its own way."""
        raise NotImplementedError
