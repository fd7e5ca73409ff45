"""How the papers kept their books, so that their figures can be computed again and held against ours.

These are historical meters, kept to explain printed numbers. Nothing here certifies anything: certified figures
come from `understudy.privacy.accounting`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from understudy.privacy.accounting import coarse_epsilon, rough_epsilon
from understudy.privacy.budget import Adjacency, Budget
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

__all__ = [
    "ClosedFormula",
    "Meter",
    "MomentsMeter",
    "RenyiMeter",
    "gaussian_noise",
    "largest_loss",
    "participation_epsilon",
]

_LEAST_NOISE_ON_A_GRID = 0.05
"""Below this multiplier one step's losses are too large for a grid; participations are counted instead."""


class Meter(Protocol):
    """A rule by which a paper turned its settings into an ε."""

    def epsilon(self, mechanism: SubsampledGaussian, delta: float) -> float:
        """The ε that the rule gives."""
        ...


@dataclass(frozen=True)
class RenyiMeter:
    """Rényi accounting with the conversion of 2017: ε = min over α of T·ρ(α) + ln(1/δ)/(α − 1).

    Mironov, "Rényi differential privacy", 2017, proposition 3. Later conversions are tighter.

    Args:
        orders: the orders α that the paper's code tried.
    """

    orders: tuple[float, ...]

    def epsilon(self, mechanism: SubsampledGaussian, delta: float) -> float:
        """The least ε over the orders."""
        steps = mechanism.steps
        return min(steps * rho + extra for rho, extra in self._terms(mechanism, delta))

    def steps(self, mechanism: SubsampledGaussian, epsilon: float, delta: float) -> int:
        """The most steps that the meter lets through; the mechanism's own number of steps is ignored."""
        return max(
            math.floor((epsilon - extra) / rho)
            for rho, extra in self._terms(mechanism, delta)
            if extra < epsilon
        )

    def _terms(self, mechanism: SubsampledGaussian, delta: float) -> list[tuple[float, float]]:
        """For each order, the divergence of one step and the price of the conversion."""
        from dp_accounting import rdp

        one = SubsampledGaussian(mechanism.sampling_rate, mechanism.noise_multiplier, 1)
        accountant = rdp.RdpAccountant(list(self.orders))
        accountant.compose(one.event())
        return [
            (float(rho), -math.log(delta) / (order - 1))
            for order, rho in zip(self.orders, accountant.rdp, strict=True)
            if math.isfinite(rho)
        ]


@dataclass(frozen=True)
class MomentsMeter:
    """The moments accountant of Abadi et al. (2016), charged several times per step.

    The λ-th log moment is λ times the Rényi divergence of order λ + 1, so this is `RenyiMeter` at whole orders.
    The dp-gan code charges every separately clipped group as if it had a subsample of its own; in truth all
    groups share one, and the joint multiplier is σ/√k.

    Args:
        charges_per_step: k, how often one step is charged.
        moments: the largest λ.
    """

    charges_per_step: int
    moments: int = 24

    @property
    def _renyi(self) -> RenyiMeter:
        return RenyiMeter(tuple(float(moment + 1) for moment in range(1, self.moments + 1)))

    def epsilon(self, mechanism: SubsampledGaussian, delta: float) -> float:
        """The ε of k·T charges."""
        charged = SubsampledGaussian(
            mechanism.sampling_rate, mechanism.noise_multiplier, mechanism.steps * self.charges_per_step
        )
        return self._renyi.epsilon(charged, delta)

    def charges(self, mechanism: SubsampledGaussian, epsilon: float, delta: float) -> int:
        """How many charges the budget pays for."""
        return self._renyi.steps(mechanism, epsilon, delta)


@dataclass(frozen=True)
class ClosedFormula:
    """σ = 2·q·√(n·ln(1/δ))/ε, the ppgan paper's equation 20, solved for ε.

    The paper puts the critic steps of one loop for n, where the theorem it quotes has the steps of the whole run.

    Args:
        counted_steps: n as the paper puts it.
    """

    kind: ClassVar[str] = "closed-formula"
    counted_steps: int

    def noise(self, sampling_rate: float, epsilon: float, delta: float) -> float:
        """The σ that the formula asks for."""
        return 2 * sampling_rate * math.sqrt(self.counted_steps * math.log(1 / delta)) / epsilon

    def epsilon(self, mechanism: SubsampledGaussian, delta: float) -> float:
        """The ε that the formula gives for a σ, whatever the number of steps really is."""
        root = math.sqrt(self.counted_steps * math.log(1 / delta))
        return 2 * mechanism.sampling_rate * root / mechanism.noise_multiplier


def gaussian_noise(epsilon: float, delta: float) -> float:
    """√(2·ln(1.25/δ))/ε: the noise of one Gaussian release, as the dp-gan code sets it (valid for ε < 1 only)."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def participation_epsilon(mechanism: SubsampledGaussian, delta: float) -> float:
    """An upper bound on ε that needs no grid, tight where the noise is far too small.

    Suppose an attacker is told in which steps the record took part. With probability 1 − δ/2 that is at most k
    steps (binomial), and k Gaussian releases have ε ≤ μ²/2 + μ·z at δ/2, where μ = √k/σ and z is the quantile
    of the normal distribution. Telling less cannot cost more.
    """
    from scipy.stats import binom, norm

    most = float(binom.isf(delta / 2, mechanism.steps, mechanism.sampling_rate))
    mean = math.sqrt(most) / mechanism.noise_multiplier
    return mean**2 / 2 + mean * float(norm.isf(delta / 2))


def largest_loss(mechanism: SubsampledGaussian, delta: float) -> float:
    """The ε of a mechanism however weak: the least of the upper bounds that can be computed for it."""
    bound = participation_epsilon(mechanism, delta)
    if mechanism.noise_multiplier < _LEAST_NOISE_ON_A_GRID:
        return bound
    charges = (Charge("training", mechanism),)
    scale = min(bound, rough_epsilon(charges, delta, Adjacency.ADD_OR_REMOVE_ONE))
    return min(bound, coarse_epsilon(charges, Budget(scale, delta)))
