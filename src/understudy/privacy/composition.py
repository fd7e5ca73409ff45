"""Charges before they are accounted: what is drawn at all, and equal mechanisms taken together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.errors import BudgetError
from understudy.privacy.mechanisms import (
    Charge,
    GaussianRelease,
    GaussianThreshold,
    Selection,
    SubsampledGaussian,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "expected_truncations",
    "has_pld",
    "is_noiseless",
    "merged",
    "repetitions",
    "threshold_delta",
    "untruncated",
]


_LEAST_NOISE, _MOST_NOISE, _MOST_REPETITIONS = 5e-3, 1e12, 10**8
"""Outside of these a mechanism protects nothing or says nothing, and the accountants overflow or run for hours."""


def merged(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """The charges that draw anything at all, repetitions of one mechanism taken together.

    Composition knows no order, so this changes no figure; it makes an account of many equal runs as quick as one.

    Raises:
        BudgetError: a mechanism has so little noise, or repeats so often, that no accountant can hold its numbers.
    """
    kept: list[Charge] = []
    for charge in charges:
        _refuse_absurd(charge)
        if repetitions(charge) > 0:
            place = next((i for i, one in enumerate(kept) if _joined(one, charge)), None)
            if place is None:
                kept.append(charge)
            else:
                kept[place] = _joined(kept[place], charge) or charge
    return tuple(kept)


def _refuse_absurd(charge: Charge) -> None:
    mechanism = charge.mechanism
    if isinstance(mechanism, Selection):
        for one in (one for inner in mechanism.possible for one in inner):
            _refuse_absurd(one)
        return
    sigma, times = mechanism.noise_multiplier, repetitions(charge)
    if (sigma and not _LEAST_NOISE <= sigma <= _MOST_NOISE) or times > _MOST_REPETITIONS:
        raise BudgetError(
            f"{charge.purpose!r} has σ = {sigma:g} and draws {times:,} times; a cost is computed for σ between "
            f"{_LEAST_NOISE:g} and {_MOST_NOISE:g} and at most {_MOST_REPETITIONS:,} draws."
        )


def _joined(first: Charge, second: Charge) -> Charge | None:
    """Both as one charge, or None if they are not the same mechanism."""
    match first.mechanism, second.mechanism:
        case SubsampledGaussian(steps=a) as one, SubsampledGaussian(steps=b) as other:
            if replace(one, steps=b) == other:
                return replace(first, mechanism=replace(one, steps=a + b))
        case GaussianRelease(count=a) as release, GaussianRelease(count=b) as again:
            if replace(release, count=b) == again:
                return replace(first, mechanism=replace(release, count=a + b))
    return None


def repetitions(charge: Charge) -> int:
    """How often the mechanism draws."""
    match charge.mechanism:
        case SubsampledGaussian(steps=steps):
            return steps
        case GaussianRelease(count=count):
            return count
        case GaussianThreshold():
            return 1
        case Selection() as selection:
            return max(sum(repetitions(one) for one in inner) for inner in selection.possible)


def is_noiseless(charge: Charge) -> bool:
    """Whether it promises nothing at all."""
    return isinstance(charge.mechanism, SubsampledGaussian) and charge.mechanism.noise_multiplier == 0


def has_pld(charges: Sequence[Charge]) -> bool:
    """Whether a privacy loss distribution is defined for all of them."""
    return not any(isinstance(charge.mechanism, Selection) for charge in charges)


def threshold_delta(charges: Sequence[Charge]) -> float:
    """The probability, at most, with which thresholds publish anything that one person alone has."""
    return sum(one.mechanism.delta for one in charges if isinstance(one.mechanism, GaussianThreshold))


def expected_truncations(charge: Charge) -> float:
    """How many batches are cut to their cap, on average."""
    match charge.mechanism:
        case SubsampledGaussian() as mechanism:
            return mechanism.expected_truncations()
        case Selection(mean_runs=mean_runs) as selection:
            return mean_runs * max(
                sum(expected_truncations(one) for one in inner) for inner in selection.possible
            )
        case _:
            return 0.0


def untruncated(charge: Charge) -> Charge:
    """The same charge without caps on its batches."""
    match charge.mechanism:
        case SubsampledGaussian() as mechanism:
            return replace(charge, mechanism=mechanism.untruncated())
        case Selection() as selection:
            first, *others = (tuple(untruncated(one) for one in inner) for inner in selection.possible)
            return replace(charge, mechanism=replace(selection, charges=first, others=tuple(others)))
        case _:
            return charge
