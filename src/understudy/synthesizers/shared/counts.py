"""Published counts, and the fitters that learn from them: what tables and codes share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from understudy.synthesizers.shared.free_fitter import FreeFitter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from understudy.door.door import Door

__all__ = ["CountFitter", "Counts", "precision_weights", "single"]


def single(array: NDArray[np.float64]) -> Tensor:
    """An array as a tensor in single precision."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(torch.float32)


def precision_weights(noise: Tensor, published: Sequence[bool]) -> Tensor:
    """The weight of each published vector in a loss: the inverse variance of its noise, with sum 1.

    Args:
        noise: standard deviations; 0 counts as 1, in a baseline without noise.
        published: whether there is such a vector at all.
    """
    inverse = torch.where(noise > 0, noise, 1.0).double().pow(-2) * torch.tensor(published)
    return (inverse / inverse.sum()).to(torch.float32)


@dataclass(frozen=True, eq=False)
class Counts:
    """Published numbers, every field a tensor: noisy, or computed from noisy ones; safe to keep and to publish."""

    def named(self) -> dict[str, Tensor]:
        """All of it as named tensors."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Self:
        """The same from named tensors."""
        return cls(**named)


Network = TypeVar("Network", bound=nn.Module)
Statistics = TypeVar("Statistics", bound=Counts)


class CountFitter(FreeFitter[Network], Generic[Network, Statistics]):
    """The state of a fit whose targets are counts; arguments as for `FreeFitter`."""

    kind: ClassVar[type[Any]]
    """The class of the statistics."""

    statistics: Statistics

    def _ask(self, door: Door, count: float) -> None:
        self.statistics = self._counted(door, count)

    @abstractmethod
    def _counted(self, door: Door, count: float) -> Statistics:
        """The published counts."""

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        return {"published": self.statistics.named()}

    def _take_published(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.statistics = self.kind.of(part["published"])
