"""The engine's own private step under audit: the object that trains is the object that is attacked.

In the gradient readings the auditor composes the batches, so the step runs with sampling rate 1 on exactly the
records that were chosen. In the sampler readings it runs with the claimed rate, and the rows it takes are watched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from understudy.auditing.claims import Claim
from understudy.auditing.listening import Ear, listening
from understudy.auditing.step import LOUD
from understudy.door.door import Door
from understudy.door.source import Rows
from understudy.dpsgd import Critic
from understudy.dpsgd.clipping import MicrobatchClip, QuantileAdaptiveClip
from understudy.dpsgd.step import NoisyGradients
from understudy.privacy.mechanisms import Charge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.auditing.canaries import Step
    from understudy.auditing.readings import Floats
    from understudy.auditing.wide import WideCritic
    from understudy.door.noise import Noise
    from understudy.door.query import Batch
    from understudy.dpsgd.clipping import Clipping
    from understudy.dpsgd.objectives import Objective
    from understudy.privacy.mechanisms import SubsampledGaussian

__all__ = ["ProductionSubject", "engine_claim", "engine_sampler", "engine_step"]


_STEP = "audited step"


def engine_step(
    mechanism: SubsampledGaussian,
    clipping: Clipping,
    objective: Objective,
    noise: Noise,
    *,
    divisor: float = 64.0,
    make: Callable[..., NoisyGradients] = NoisyGradients,
) -> Step:
    """The production step as (critic, real rows, fake rows) → noisy gradient in units of its sensitivity.

    Args:
        mechanism: what is claimed; only σ is used here.
        clipping: the rule; a rule that needs public records takes the fakes for them.
        objective: the loss.
        noise: the source of noise.
        divisor: the public divisor.
        make: builds the step; tests pass a class with a planted error.
    """
    release = _on_chosen_records(mechanism, clipping, objective, noise, divisor, make)

    def step(critic: nn.Module, real: Tensor, fake: Tensor) -> Mapping[str, Tensor]:
        body = critic if isinstance(critic, nn.Sequential) else nn.Sequential(critic)
        return release(Critic(body), Rows(real), Rows(fake))

    return step


def _on_chosen_records(
    mechanism: SubsampledGaussian,
    clipping: Clipping,
    objective: Objective,
    noise: Noise,
    divisor: float,
    make: Callable[..., NoisyGradients] = NoisyGradients,
) -> Callable[[Critic, Rows, Rows], dict[str, Tensor]]:
    charge = Charge(_STEP, replace(mechanism, sampling_rate=1.0, steps=2**62, batch_cap=None, rows=None))
    step = make(_STEP, clipping, objective, divisor)

    def release(critic: Critic, real: Rows, fake: Rows) -> dict[str, Tensor]:
        ear = Ear()
        door = listening(ear)(real, (charge,), noise, insecure=True)
        gradients = step.step(door, critic, fake, fake)
        unit = ear.draws[-1].scale / (mechanism.noise_multiplier * divisor)
        if isinstance(clipping, QuantileAdaptiveClip):  # part of the noise is the count's
            unit *= mechanism.noise_multiplier / clipping.gradient_multiplier(mechanism.noise_multiplier)
        if isinstance(clipping, MicrobatchClip):
            unit *= clipping.size
        return {name: gradient.double() / unit for name, gradient in gradients.items()}

    return release


class ProductionSubject:
    """The critic of a recipe in the production step, as a subject of `audit`.

    Args:
        name: how the result calls it.
        wide: the recipe's critic with places for canaries.
        mechanism: what is claimed.
        clipping: the recipe's rule; a rule that needs public records takes the fakes for them.
        objective: the recipe's loss.
        noise: the source of noise.
        divisor: the public divisor.
        sampler: draws one batch of row numbers.
        fakes: how many fake rows each step is handed; the same ones each time.
    """

    def __init__(
        self,
        name: str,
        wide: WideCritic,
        mechanism: SubsampledGaussian,
        clipping: Clipping,
        objective: Objective,
        noise: Noise,
        *,
        divisor: float,
        sampler: Callable[[int], NDArray[np.int64]] | None = None,
        fakes: int = 2,
    ) -> None:
        self.name, self.canaries, self.sampler = name, wide.canaries, sampler
        self.blocks, self.shared = wide.own, wide.shared
        self._wide = wide
        self._release = _on_chosen_records(mechanism, clipping, objective, noise, divisor)
        nobody = wide.records(np.zeros((fakes, wide.canaries)))
        spread = torch.rand(fakes, *[1] * (nobody.dim() - 1), generator=torch.Generator().manual_seed(1))
        self._fakes = Rows(nobody * spread, wide.labels(fakes))
        wide.aim(objective, LOUD)

    def release(self, codes: Floats) -> dict[str, Floats]:
        """One noisy gradient of records that share their features and carry these codes."""
        real = Rows(self._wide.records(codes), self._wide.labels(len(codes)))
        released = self._release(self._wide.critic, real, self._fakes)
        return {name: g.detach().numpy() for name, g in released.items()}


def engine_claim(mechanism: SubsampledGaussian, clipping: Clipping, delta: float) -> Claim:
    """What the gradients of the step claim: σ, or a little more when part of it is spent on the bound itself."""
    if isinstance(clipping, QuantileAdaptiveClip):
        sigma = clipping.gradient_multiplier(mechanism.noise_multiplier)
        mechanism = replace(mechanism, noise_multiplier=sigma)
    return Claim(mechanism, delta)


class _WatchedRows(Rows):
    """Rows without content that remember which of them were taken."""

    def take(self, indices: Tensor, like: Tensor) -> tuple[Tensor, None]:
        """Remember, and hand out zeros."""
        object.__setattr__(self, "taken", indices)
        return like.new_zeros(len(indices), 1), None


class _Nothing:
    """A query that sums nothing: only the batch is of interest."""

    rows_at_once, sensitivity = 1, 1.0

    def zero(self) -> list[Tensor]:
        return [torch.zeros(1, dtype=torch.float64)]

    def add(self, sums: list[Tensor], batch: Batch) -> None:
        del sums, batch


def engine_sampler(mechanism: SubsampledGaussian, noise: Noise) -> Callable[[int], NDArray[np.int64]]:
    """The batches that the door really draws: row numbers out of so many rows."""
    charge = Charge(_STEP, replace(mechanism, steps=2**62))

    def sampler(rows: int) -> NDArray[np.int64]:
        watched = _WatchedRows(torch.zeros(rows, 0))
        Door(watched, (charge,), noise, insecure=True).step(_STEP, _Nothing(), torch.zeros(1))
        taken: Tensor = watched.taken  # type: ignore[attr-defined]
        return taken.numpy()

    return sampler
