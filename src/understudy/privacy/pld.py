"""ε by privacy loss distribution: an upper bound on any grid, because rounding is pessimistic."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.errors import BudgetError
from understudy.privacy.budget import Adjacency
from understudy.privacy.composition import is_noiseless, repetitions
from understudy.privacy.mechanisms import GaussianThreshold, SubsampledGaussian

if TYPE_CHECKING:
    from understudy.privacy.mechanisms import Charge, Mechanism

__all__ = ["composed", "epsilon_by_pld"]


def epsilon_by_pld(charges: tuple[Charge, ...], delta: float, adjacency: Adjacency, error: float) -> float:
    """The ε of all charges at δ, of which rounding is about `error` at most."""
    if any(is_noiseless(charge) for charge in charges):
        return math.inf
    if not charges:
        return 0.0
    return max(0.0, float(composed(charges, adjacency, error).get_epsilon_for_delta(delta)))


def composed(charges: tuple[Charge, ...], adjacency: Adjacency, error: float) -> Any:
    """The privacy loss distribution of all charges, its rounding adding about `error` to ε at most."""
    try:
        interval = _interval(charges, error)
        parts = [_distribution(charge.mechanism, adjacency, interval) for charge in charges]
        return functools.reduce(lambda total, part: total.compose(part), parts)
    except (ValueError, ArithmeticError, MemoryError) as cause:
        raise BudgetError(
            f"the cost cannot be computed ({cause}): a noise multiplier is far too small, or steps are far too many."
        ) from cause


@functools.lru_cache(maxsize=32)
def _distribution(mechanism: Mechanism, adjacency: Adjacency, interval: float) -> Any:
    """The privacy loss distribution of one mechanism, kept for the next search step."""
    if isinstance(mechanism, SubsampledGaussian) and mechanism.steps > 1:
        return _distribution(replace(mechanism, steps=1), adjacency, interval).self_compose(mechanism.steps)
    from dp_accounting import NeighboringRelation, pld

    relation = {
        Adjacency.ADD_OR_REMOVE_ONE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    accountant = pld.PLDAccountant(relation, value_discretization_interval=interval)
    found = accountant.compose(mechanism.event())._pld
    return (
        found.compose(_shown(mechanism.delta, interval))
        if isinstance(mechanism, GaussianThreshold)
        else found
    )


def _shown(delta: float, interval: float) -> Any:
    """The loss of what may be published with probability δ and tells neighbours apart, and else tells nothing."""
    from dp_accounting.pld import common, privacy_loss_distribution

    return privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.0, delta), value_discretization_interval=interval
    )


def _interval(charges: tuple[Charge, ...], error: float) -> float:
    """The width of the grid of privacy losses.

    The pessimistic rounding of T steps on a grid of width h adds up to about T·h²/2 (measured: 0.1 to 0.6
    times T·h²), so the grid shrinks as 1/√T. It also stays below the standard deviation s of one step's
    loss, unless that is so small that rounding it up to √(s·h) does not matter; and fine enough that many
    steps' losses span more than a thousand points each: below that, the library switches to a form whose
    cost explodes with T. Widths are powers of √2, for the cache.
    """
    total = sum(repetitions(charge) for charge in charges)
    interval = min(1e-3, math.sqrt(2 * max(error, 1e-6) / max(total, 1)))
    for charge in charges:
        mechanism = charge.mechanism
        if isinstance(mechanism, SubsampledGaussian):
            interval = min(interval, _step_interval(mechanism, error))
    return max(2 ** (round(2 * math.log2(interval)) / 2), 1e-7)


def _step_interval(mechanism: SubsampledGaussian, error: float) -> float:
    q, sigma = mechanism.sampling_rate, max(mechanism.noise_multiplier, 0.1)
    deviation = q * math.sqrt(math.expm1(1 / sigma**2))
    negligible = error**2 / (16 * mechanism.steps * deviation)
    reach = math.log1p(q * math.expm1((0.5 + 9 * sigma) / sigma**2))
    if mechanism.steps > 20_000:
        return min(deviation, reach / 1200)
    return max(deviation, negligible)
