"""A model that is a network of torch: weights of fixed shapes, those of its `state_dict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from understudy.synthesizers.model import Model, misfit_by_names
from understudy.synthesizers.protocol import Drawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from understudy.synthesizers.protocol import Request

__all__ = ["NetworkModel"]


class NetworkModel(Model, nn.Module):
    """A network that draws records: `made` says how."""

    def made(
        self, rows: int, labels: Tensor | None, source: torch.Generator, *, chosen: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Synthetic records and their classes; arguments as of a `Request`."""
        raise NotImplementedError

    def draw(self, request: Request, source: np.random.Generator) -> Drawn:
        """Records of the given classes."""
        own = torch.Generator().manual_seed(int(source.integers(2**63)))
        labels = None if request.labels is None else torch.from_numpy(request.labels)
        with torch.inference_mode():
            made, seen = self.made(request.rows, labels, own, chosen=request.chosen)
        return Drawn(made.numpy(), None if seen is None else seen.numpy())

    @property
    def names(self) -> tuple[str, ...]:
        """Those of its `state_dict`."""
        return tuple(self.state_dict())

    @property
    def most_numbers(self) -> int:
        """Exactly as many as its `state_dict` has."""
        return sum(one.numel() for one in self.state_dict().values())

    @property
    def most_bytes(self) -> int:
        """Exactly as many as its `state_dict` takes."""
        return sum(one.numel() * one.element_size() for one in self.state_dict().values())

    def misfit(self, weights: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these are not weights of this network, as the end of a sentence; None if they are."""
        expected = self.state_dict()
        types = {name: torch.zeros(0, dtype=one.dtype).numpy().dtype for name, one in expected.items()}
        problem = misfit_by_names(weights, types)
        if problem is not None:
            return problem
        for name, like in expected.items():
            if weights[name].shape != tuple(like.shape):
                return f"{name} has shape {weights[name].shape}, not {tuple(like.shape)}"
        return None

    def take(self, weights: Mapping[str, NDArray[Any]]) -> None:
        """Become the network with these weights, ready to draw."""
        self.load_state_dict({name: torch.from_numpy(one.copy()) for name, one in weights.items()})
        self.eval()
