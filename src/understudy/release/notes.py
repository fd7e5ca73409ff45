"""What a reader of a card should know about the number of rows, and that takes nothing from the guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.schema import unit_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.planning import Plan

__all__ = ["card_notes"]


def card_notes(plan: Plan, rows: float, unseen: Sequence[str] = ()) -> tuple[str, ...]:
    """Whether the number of rows, or of persons, was checked, whether δ is small beside it, and what was not found.

    Args:
        plan: of the run.
        rows: their number as declared, or as published with the noise that was charged; never the exact one.
        unseen: columns about which nothing that was to be discovered rose above the noise.
    """
    notes = [
        f"Nothing about column {name!r} rose above the noise of its discovery: where its bounds lie is a guess, or all "
        "its values are one category. Declare what is known about it, or allow a larger ε."
        for name in unseen
    ]
    if plan.budget is None:
        return tuple(notes)
    unit = unit_words(plan.schema)
    if plan.rows is not None:
        notes.append(
            f"The number of {unit.many}, {plan.rows:,}, was declared by the curator and not checked against the data. "
            "ε does not depend on it; whether δ is small enough does."
        )
    if plan.budget.delta >= 1 / rows:
        known = "as declared" if plan.rows is not None else "by the noisy count that was charged"
        notes.append(
            f"δ = {plan.budget.delta:g} is not below 1/{unit.many} ({rows:,.0f} {unit.many}, {known}): a mechanism "
            f"that publishes one {unit.one} in full would satisfy it. Choose a smaller δ for such data."
        )
    return tuple(notes)
