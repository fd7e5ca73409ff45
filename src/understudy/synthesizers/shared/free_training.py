"""Free training: a generator moved by a loss that takes published numbers only, so it may take as long as it likes.

What the images' and the tables' apprentices share: the generator, its optimiser, its moving average, the source of its
latents, and how all of these are written to and read from a checkpoint.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor, nn

from understudy.dpsgd.postprocess import MovingAverage
from understudy.synthesizers.shared.optimisers import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from understudy.recipes import Recipe

__all__ = ["FreeTraining", "parts_of"]

Network = TypeVar("Network", bound=nn.Module)


class FreeTraining(ABC, Generic[Network]):
    """The state of a training that costs no privacy.

    Args:
        recipe: optimiser, number of steps and averaging.
        build: makes the generator, from torch's global source of random numbers.
        seed: for weights and latents; None draws one. Nothing private hangs on it.
        device: where the generator is.
    """

    def __init__(
        self,
        recipe: Recipe,
        build: Callable[[], Network],
        seed: int | None,
        device: torch.device | None = None,
    ) -> None:
        assert recipe.steps is not None
        seed = secrets.randbits(63) if seed is None else seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.generator = build().to(device=device)
        self._recipe = recipe
        self._device = device
        self._source = torch.Generator().manual_seed(seed)
        rule = replace(recipe.generator_optimiser, decay_steps=recipe.steps)
        self._stepper = Stepper(self.generator, rule)
        self._average = MovingAverage(self.generator, recipe.averaging)

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return self._stepper.taken

    def advance(self) -> None:
        """One step of the generator towards what was published."""
        names, parameters = zip(*self.generator.named_parameters(), strict=True)
        moves = torch.autograd.grad(self._loss(), parameters)
        self._stepper.step(dict(zip(names, moves, strict=True)))
        self._average.update(self.generator, self.steps)

    @abstractmethod
    def _loss(self) -> Tensor:
        """How far what the generator makes is from what was published."""

    @abstractmethod
    def released_weights(self) -> dict[str, Tensor]:
        """The weights of the module that is released."""

    @abstractmethod
    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        """What was published before the training, by part; a resumed run takes it from here."""

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, what was published included, as named tensors."""
        parts: dict[str, Mapping[str, Tensor]] = {
            "generator": self.generator.state_dict(),
            "average": self._average.weights(),
            "optimiser": self._stepper.state(),
            "run": {"source": self._source.get_state()},
            **self._published(),
        }
        return {f"{part}:{name}": value for part, named in parts.items() for name, value in named.items()}

    def _take_over(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from the parts of a state."""
        self.generator.load_state_dict(dict(part["generator"]))
        self._average.restore(part["average"])
        self._stepper.restore(part["optimiser"])
        self._source.set_state(part["run"]["source"])


def parts_of(state: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors of a state, by part."""
    parts: dict[str, dict[str, Tensor]] = {}
    for whole, value in state.items():
        head, _, name = whole.partition(":")
        parts.setdefault(head, {})[name] = value
    return parts
