"""Free training on published counts: what the apprentices of tables and of codes share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from understudy.synthesizers.shared.free_training import FreeTraining, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["CountedTraining", "Published", "precision_weights", "single"]


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
class Published:
    """Published numbers, every field a tensor: noisy, or computed from noisy ones; safe to keep and to publish."""

    def named(self) -> dict[str, Tensor]:
        """All of it as named tensors."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> Self:
        """The same from named tensors."""
        return cls(**named)


Network = TypeVar("Network", bound=nn.Module)
Statistics = TypeVar("Statistics", bound=Published)


class CountedTraining(FreeTraining[Network], Generic[Network, Statistics]):
    """The state of a free training whose targets are counts.

    Args:
        recipe: optimiser, number of steps and averaging.
        schema: what a record looks like.
        statistics: the published counts.
        seed: for the first weights; None draws one. Nothing private hangs on it.
    """

    kind: ClassVar[type[Any]]
    """The class of the statistics."""

    def __init__(self, recipe: Recipe, schema: Schema, statistics: Statistics, seed: int | None) -> None:
        super().__init__(recipe, lambda: self._prepared(recipe, schema, statistics), seed)
        self._statistics = statistics

    @staticmethod
    @abstractmethod
    def _prepared(recipe: Recipe, schema: Schema, statistics: Statistics) -> Network:
        """A generator that starts near what single counts tell."""

    def released_weights(self) -> dict[str, Tensor]:
        """The weights of the generator, averaged if the recipe says so."""
        return self._average.weights()

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        return {"published": self._statistics.named()}

    @classmethod
    def restored(cls, recipe: Recipe, schema: Schema, state: Mapping[str, Tensor], seed: int | None) -> Self:
        """Go on from a state that `state` gave; nothing is published again."""
        part = parts_of(state)
        run = cls(recipe, schema, cls.kind.of(part["published"]), seed)
        run._take_over(part)
        return run
