"""What discovery will ask the door for: its purposes, its part of the budget, and what it can find, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.privacy.budget import Budget
from understudy.privacy.calibration import noise_for
from understudy.privacy.mechanisms import Charge, GaussianRelease, GaussianThreshold
from understudy.schema import Categorical, Datetime, open_columns, unit_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.schema import Column, Schema

__all__ = ["can_find", "discovery_charges", "purpose_of", "uncharged_discoveries"]

SHARE, MOST = 0.05, 0.3
"""The part of the budget (of 1/σ²) that one column takes, and that all of them take at most."""

DELTA_SHARE = 0.1
"""The part of δ that the thresholds of all columns take together."""


def purpose_of(column: Column) -> str:
    """What the discovery about a column is charged as."""
    what = "categories" if isinstance(column, Categorical) else "bounds"
    return f"{what} of {column.name}"


def discovery_charges(schema: Schema | None, budget: Budget) -> tuple[Charge, ...]:
    """One charge for each column about which something is to be discovered, in the order of the schema.

    A column gets the share of the budget that it would have beside Gaussian releases of the rest, whatever the rest
    is.
    """
    columns = open_columns(schema)
    if not columns:
        return ()
    whole = noise_for(
        lambda sigma: [Charge("everything", GaussianRelease(sigma))], _without_thresholds(budget)
    )
    sigma = whole / math.sqrt(_share(len(columns)))
    listed = sum(isinstance(column, Categorical) for column in columns)
    return tuple(
        Charge(
            purpose_of(column),
            GaussianThreshold(sigma, DELTA_SHARE * budget.delta / listed)
            if isinstance(column, Categorical)
            else GaussianRelease(sigma),
        )
        for column in columns
    )


def _share(columns: int) -> float:
    """The part of the budget that each of so many columns takes."""
    return min(SHARE, MOST / columns)


def _without_thresholds(budget: Budget) -> Budget:
    return Budget(budget.epsilon, (1 - DELTA_SHARE) * budget.delta, budget.adjacency)


def uncharged_discoveries(schema: Schema | None, charges: Sequence[Charge]) -> tuple[str, ...]:
    """What is to be discovered and is not charged, or not by a mechanism that can publish it."""
    own = {charge.purpose: charge.mechanism for charge in charges}
    return tuple(
        purpose_of(column)
        for column in open_columns(schema)
        if not isinstance(
            own.get(purpose_of(column)),
            GaussianThreshold if isinstance(column, Categorical) else GaussianRelease,
        )
    )


def can_find(charge: Charge, schema: Schema | None) -> str | None:
    """What a discovery costs and what it can find, for the plan; None if it is no discovery."""
    columns = open_columns(schema)
    column = next((one for one in columns if purpose_of(one) == charge.purpose), None)
    many, most = unit_words(schema).many, getattr(schema, "max_rows_per_person", None) or 1
    cost = f"{100 * _share(max(1, len(columns))):.2g} % of the budget"
    match charge.mechanism:
        case GaussianThreshold() as threshold if column is not None:
            return f"{cost}; a category needs about {math.ceil(threshold.people_needed(most)):,} {many}"
        case GaussianRelease(noise_multiplier=sigma) if column is not None:
            from understudy.discovery.bins import bins_of
            from understudy.discovery.bounds import level_of

            assert not isinstance(column, Categorical)
            bins = bins_of(column)  # type: ignore[arg-type]
            needed = level_of(math.sqrt(len(bins.levels)) * sigma, bins.sizes[0])
            what = "decade" if isinstance(column, Datetime) else "magnitude"
            return f"{cost}; a {what} needs about {math.ceil(needed):,} {many} to lie within the bounds"
    return None
