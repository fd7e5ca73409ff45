"""What a training step claims, and what its claim costs.

A claim is the mechanism a step says it is, with the δ at which its ε is read. Both columns of an
audit come from here: ε of the claim, and ε of the mechanism that was observed. They use one accountant (PLD,
add-or-remove-one), so their difference is a difference of mechanisms and not of accounting.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from understudy.errors import PlanError
from understudy.privacy.mechanisms import SubsampledGaussian  # noqa: TC001 - the codec reads the hint

__all__ = ["SMALLEST_NOISE", "Claim", "epsilon_of"]

SMALLEST_NOISE = 0.1
"""ε is not computed below this noise multiplier: it is in the thousands there, and ε at this floor bounds it."""


@dataclass(frozen=True)
class Claim:
    """The mechanism that a step says it is.

    Args:
        mechanism: sampling rate, noise multiplier and number of steps.
        delta: the δ at which ε is read.
    """

    mechanism: SubsampledGaussian
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise PlanError(f"delta must lie strictly between 0 and 1, got {self.delta}.")
        if self.mechanism.noise_multiplier <= 0:
            raise PlanError("a claim without noise promises nothing: its noise multiplier must be positive.")

    @property
    def epsilon(self) -> float:
        """ε of the claimed mechanism."""
        return self.epsilon_with(self.mechanism.noise_multiplier)

    def epsilon_with(self, noise_multiplier: float, steps: int | None = None) -> float:
        """ε of the claimed sampling with another noise multiplier, or another number of steps.

        Args:
            noise_multiplier: σ; infinity gives 0, and a σ below the floor gives ε of the floor, which is
                smaller than the truth and so still a lower bound.
            steps: the number of steps, by default the claimed one.
        """
        steps = self.mechanism.steps if steps is None else steps
        return epsilon_of(self.mechanism.sampling_rate, noise_multiplier, steps, self.delta)


@functools.lru_cache(maxsize=256)
def epsilon_of(sampling_rate: float, noise_multiplier: float, steps: int, delta: float) -> float:
    """ε of a Poisson-subsampled Gaussian by PLD, finer where the noise is ordinary, coarser where it is tiny."""
    from dp_accounting.pld import privacy_loss_distribution

    if noise_multiplier > 1e4 or steps == 0:
        return 0.0
    sigma = max(noise_multiplier, SMALLEST_NOISE)
    # Rounding up T losses to a grid of width h adds about T·h²/2 to ε; tiny noise has losses too wide for a fine grid.
    interval = (
        min(1e-3, max(1e-4, math.sqrt(2e-3 / steps))) if sigma >= 0.5 else 1e-3 if sigma >= 0.2 else 1e-2
    )
    one = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=interval, sampling_prob=sampling_rate
    )
    with np.errstate(over="ignore"):
        epsilon = float(one.self_compose(steps).get_epsilon_for_delta(delta))
    if math.isfinite(epsilon):
        return epsilon
    # Losses this large overflow the accountant; a little more noise gives a smaller ε, which still bounds it.
    return epsilon_of(sampling_rate, 1.25 * sigma, steps, delta)
