"""What a synthesizer is: a recipe that declares what it will ask, a fitter that asks a door, a model that is released.

A recipe is a frozen value of one folder, and every field of it has an effect. `plan`, `fit`, checkpoints, releases,
sampling, audits and sweeps know these protocols and no kind of recipe by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from understudy.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.door.door import Door
    from understudy.door.source import Rows
    from understudy.dpsgd.step import CriticStep
    from understudy.privacy.mechanisms import Charge
    from understudy.schema import Schema
    from understudy.synthesizers.model import Model
    from understudy.synthesizers.prospect import Prospect

__all__ = [
    "Asked",
    "Drawn",
    "Fitter",
    "Fixed",
    "Losses",
    "Partial",
    "Recipe",
    "RecipeDefaults",
    "Request",
    "Share",
    "Steps",
]


@dataclass(frozen=True)
class Share:
    """Gaussian releases that take a part of the budget.

    Args:
        purpose: what the door is asked for.
        share: the part of 1/σ² that all of them together take, beside the other shares.
        count: how many releases.
    """

    purpose: str
    share: float
    count: int = 1


@dataclass(frozen=True)
class Fixed:
    """One Gaussian release with a noise multiplier of its own, whatever the budget."""

    purpose: str
    noise_multiplier: float


@dataclass(frozen=True)
class Steps:
    """Private steps on Poisson batches.

    Args:
        purpose: what the door is asked for.
        batch: the expected number of records in a batch.
        noise_multiplier: σ, or None to find the least that the budget allows.
        steps: T, or None to take as many as the budget allows.
    """

    purpose: str
    batch: int
    noise_multiplier: float | None
    steps: int | None


Asked = Share | Fixed | Steps
"""One thing that a recipe will ask the door for."""


class Recipe(Protocol):
    """A way to make a generator, as a frozen dataclass that prints as TOML and imports no torch."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """How the command line calls it."""
        ...

    @property
    def summary(self) -> str:
        """One line for the table of recipes."""
        ...

    @property
    def source(self) -> str:
        """The publication it follows."""
        ...

    @property
    def steps(self) -> int | None:
        """How often `Fitter.advance` is called; None to take as many private steps as the budget allows."""
        ...

    def sees(self, schema: Schema) -> Schema:
        """The schema as this recipe takes it, such as one without its label."""
        ...

    def refuses(self, schema: Schema) -> str | None:
        """Why it cannot make such data, as a sentence with a cure; None if it can."""
        ...

    def releases(self, schema: Schema | None, rows: int | None) -> tuple[Asked, ...]:
        """All that the fitter will ask the door for, in that order.

        Args:
            schema: what records look like; None for a calculation without data.
            rows: the number of records where it is declared public.
        """
        ...

    def settled(self, charges: Sequence[Charge], rows: int | None) -> Self:
        """The recipe with what it decides by the noise that its budget gives; itself if nothing."""
        ...

    def cell_noise(self, schema: Schema, charges: Sequence[Charge], columns: tuple[str, ...]) -> float | None:
        """The noise in rows of the counts of these columns together that a release was fitted to; None without any.

        Args:
            schema: what records look like.
            charges: of the plan.
            columns: one or two, the label among them or not.
        """
        ...

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """What the charges buy in the user's terms, from public facts alone; None if it cannot be told before.

        Args:
            schema: what records look like.
            charges: of the plan.
            rows: the number of records where it is declared public.
        """
        ...

    @property
    def learns_from_public(self) -> bool:
        """Whether it needs declared public records."""
        ...

    @property
    def keeps_counts(self) -> bool:
        """Whether a release holds the noisy counts that were published, beside its generator."""
        ...

    @property
    def one_thread(self) -> bool:
        """Whether its networks are so small that one thread is fastest."""
        ...

    @property
    def warm_steps(self) -> int:
        """Steps on public records before the first one of its own."""
        ...

    @property
    def schedules(self) -> Mapping[str, int]:
        """What falls along the run, such as a rate, with the step at which it comes to rest."""
        ...

    def varied(self, setting: str, value: float) -> Self:
        """The recipe with another value of something that a sweep may vary besides steps, batch and noise.

        Raises:
            RecipeError: it has no such setting.
        """
        ...

    def rehearsed(self) -> Self:
        """The recipe as an audit rehearses it: without long work on public records, which reads no private one."""
        ...

    def critic_step(self, schema: Schema) -> CriticStep | None:
        """The clipped step of its critic, for an audit by canaries; None without one."""
        ...

    def fitter(self, schema: Schema, *, seed: int | None, device: torch.device) -> Fitter:
        """What fits a model to the answers of a door."""
        ...

    @property
    def draws_by_network(self) -> bool:
        """Whether the model is a network, so that drawing from it takes torch."""
        ...

    def model(self, schema: Schema) -> Model:
        """What is released, with fresh weights or none: its names and shapes are those of the file."""
        ...


class RecipeDefaults:
    """What most recipes answer; a recipe inherits it and overrides what differs."""

    name: str

    def sees(self, schema: Schema) -> Schema:
        """The schema itself."""
        return schema

    def settled(self, charges: Sequence[Charge], rows: int | None) -> Self:
        """The recipe itself."""
        del charges, rows
        return self

    def prospect(self, schema: Schema, charges: Sequence[Charge], rows: int | None) -> Prospect | None:
        """Nothing."""
        del schema, charges, rows
        return None

    @property
    def learns_from_public(self) -> bool:
        """No."""
        return False

    @property
    def keeps_counts(self) -> bool:
        """No."""
        return False

    @property
    def one_thread(self) -> bool:
        """Yes."""
        return True

    @property
    def warm_steps(self) -> int:
        """None."""
        return 0

    @property
    def schedules(self) -> Mapping[str, int]:
        """None that could end early."""
        return {}

    @property
    def draws_by_network(self) -> bool:
        """Yes."""
        return True

    def cell_noise(self, schema: Schema, charges: Sequence[Charge], columns: tuple[str, ...]) -> float | None:
        """None: nothing was counted."""
        del schema, charges, columns
        return None

    def varied(self, setting: str, value: float) -> Self:
        """Refuses."""
        raise RecipeError(
            f"recipe {self.name!r} has no {setting} that could be {value:g}: vary steps, or choose a recipe with a "
            "critic, such as dp-cgan."
        )

    def rehearsed(self) -> Self:
        """Itself."""
        return self

    def critic_step(self, schema: Schema) -> CriticStep | None:
        """None."""
        del schema
        return None


@dataclass(frozen=True)
class Losses:
    """Mean losses of one step; the critic's reads records without noise, so only runs that are NOT PRIVATE have any."""

    critic: float
    generator: float


class Fitter(Protocol):
    """The state of a fit. It is handed a door and no rows; whatever the door does not answer is free."""

    @property
    def steps(self) -> int:
        """How often `advance` was called."""
        ...

    @property
    def label_weights(self) -> tuple[float, ...] | None:
        """Class frequencies to draw labels from: declared, or published with noise; None without labels."""
        ...

    @property
    def losses(self) -> Losses | None:
        """Of the last step, where the door is watched or open; None in a private run."""
        ...

    def begin(self, door: Door, public: Rows | None, tick: Callable[[], None]) -> None:
        """Ask for what is needed before the first step.

        Args:
            door: what answers.
            public: declared public records.
            tick: called now and then in long work.
        """
        ...

    def advance(self, door: Door, public: Rows | None) -> None:
        """One step."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, as named tensors: noisy numbers and what follows from them."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, instead of `begin`; nothing is asked again."""
        ...

    def released(self) -> dict[str, Tensor]:
        """The weights of the model that is released, on the CPU."""
        ...


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of a model.

    Args:
        rows: how many records.
        labels: the class of each, or None without labels.
        chosen: whether the classes were asked for, and so must stand.
    """

    rows: int
    labels: NDArray[np.int64] | None = None
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """Synthetic records as arrays, and their classes."""

    x: NDArray[np.float32]
    labels: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Partial:
    """Records of a table of which some columns are known.

    Args:
        x: encoded records; what is unknown holds anything.
        filled: for each record and column beside the label, whether it is known.
        labels: the class of each, -1 where it is unknown; None without labels.
    """

    x: NDArray[np.float32]
    filled: NDArray[np.bool_]
    labels: NDArray[np.int64] | None
