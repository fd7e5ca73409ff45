"""Fitters that ask the door once, at the beginning: every step after that is free and may take as long as it likes.

They share the generator, its optimiser, its moving average, the source of its latents, and how all of these and what
was published are written to and read from a checkpoint.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from understudy.synthesizers.shared.averaging import MovingAverage
from understudy.synthesizers.shared.beginning import label_weights, row_count
from understudy.synthesizers.shared.optimisers import Stepper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from understudy.door.door import Door
    from understudy.door.source import Rows
    from understudy.schema import Schema
    from understudy.synthesizers.shared.parts import Optimiser

__all__ = ["FreeFitter", "parts_of"]

Network = TypeVar("Network", bound=nn.Module)


class FreeFitter(ABC, Generic[Network]):
    """The state of a fit whose steps cost no privacy.

    Args:
        schema: what a record looks like.
        optimiser: how the generator moves; its rate falls over all steps.
        steps: how many there will be.
        averaging: decay of the moving average, or None.
        seed: for weights and latents; None draws one. Nothing private hangs on it.
        device: where the generator is.
    """

    losses: ClassVar[None] = None

    def __init__(
        self,
        schema: Schema,
        optimiser: Optimiser,
        steps: int,
        averaging: float | None,
        seed: int | None,
        device: torch.device,
    ) -> None:
        self._schema = schema
        self._rule = replace(optimiser, decay_steps=steps)
        self._averaging = averaging
        self._seed = secrets.randbits(63) if seed is None else seed
        self._device = device
        self._source = torch.Generator().manual_seed(self._seed)
        self.label_weights: tuple[float, ...] | None = None
        self.generator: Network

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return self._stepper.taken

    def begin(self, door: Door, public: Rows | None, tick: Callable[[], None]) -> None:
        """Ask for everything that the generator learns from, and build it."""
        del public, tick  # nothing here learns from public rows
        count = row_count(door)
        self.label_weights = label_weights(door, self._schema)
        self._ask(door, count)
        self._build()

    def _build(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            self.generator = self._new_generator().to(device=self._device)
        self._stepper = Stepper(self.generator, self._rule)
        self._average = MovingAverage(self.generator, self._averaging)

    def advance(self, door: Door, public: Rows | None) -> None:
        """One step of the generator towards what was published; the door is not asked."""
        del door, public
        names, parameters = zip(*self.generator.named_parameters(), strict=True)
        moves = torch.autograd.grad(self._loss(), parameters)
        self._stepper.step(dict(zip(names, moves, strict=True)))
        self._average.update(self.generator, self.steps)

    @abstractmethod
    def _ask(self, door: Door, count: float) -> None:
        """Publish what the generator learns from; `count` is the public or noisy number of records."""

    @abstractmethod
    def _new_generator(self) -> Network:
        """The generator before its first step, from torch's global source of random numbers."""

    @abstractmethod
    def _loss(self) -> Tensor:
        """How far what the generator makes is from what was published."""

    @abstractmethod
    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        """What was published, by part; a resumed run takes it from here."""

    @abstractmethod
    def _take_published(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over what `_published` gave."""

    def released(self) -> dict[str, Tensor]:
        """The averaged weights of the generator, on the CPU."""
        return {name: value.cpu() for name, value in self._average.weights().items()}

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, what was published included, as named tensors."""
        weights = torch.tensor(self.label_weights or (), dtype=torch.float64)
        parts: dict[str, Mapping[str, Tensor]] = {
            "generator": self.generator.state_dict(),
            "average": self._average.weights(),
            "optimiser": self._stepper.state(),
            "run": {"source": self._source.get_state(), "label-weights": weights},
            **self._published(),
        }
        return {f"{part}:{name}": value for part, named in parts.items() for name, value in named.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        part = parts_of(state)
        self.label_weights = tuple(part["run"]["label-weights"].tolist()) or None
        self._take_published(part)
        self._build()
        self.generator.load_state_dict(dict(part["generator"]))
        self._average.restore(part["average"])
        self._stepper.restore(part["optimiser"])
        self._source.set_state(part["run"]["source"])


def parts_of(state: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors of a state, by part; parts without tensors are missing."""
    parts: dict[str, dict[str, Tensor]] = {}
    for whole, value in state.items():
        head, _, name = whole.partition(":")
        parts.setdefault(head, {})[name] = value
    return parts
