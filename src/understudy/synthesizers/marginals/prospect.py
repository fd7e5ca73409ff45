"""What a budget buys of a table: the noise per cell of columns, label pairs and column pairs beside the rows there.

Everything is computed from the schema, the plan's noise and the declared number of rows, without torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.schema import unit_words
from understudy.synthesizers.marginals.cells import BRANCHES, Scale, axes_of
from understudy.synthesizers.prospect import Answer, Prospect, Reach, noises, reach_of, rows_in_classes
from understudy.synthesizers.shared.parts import LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import TableSchema
    from understudy.synthesizers.marginals.cells import Axis
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

__all__ = ["table_prospect"]

_MOST_NAMED = 3
"""Columns that an advice names."""


def table_prospect(
    recipe: MarginalsRecipe, schema: TableSchema, charges: Sequence[Charge], rows: int | None
) -> Prospect:
    """The noise of every kind of counts, what it drowns, and what would help."""
    from understudy.synthesizers.marginals.recipe import COLUMNS, LABEL_PAIRS, PAIRS

    unit = unit_words(schema).many
    axes, classes = axes_of(schema), len(schema.label_classes or ("all",))
    sigma = noises(charges)
    compared = min(len(axes), recipe.columns)
    noise = {
        LABELS: sigma.get(LABELS, 0.0),
        COLUMNS: sigma.get(COLUMNS, 0.0) * math.sqrt(sum(axis.depth for axis in axes)),
        LABEL_PAIRS: sigma.get(LABEL_PAIRS, 0.0) * math.sqrt(len(axes)),
        PAIRS: sigma.get(PAIRS, 0.0) * math.sqrt(math.comb(compared, 2)),
    }
    cells = sum(map(_coarse, axes)) / len(axes)
    sizes = {
        LABELS: ("class", float(classes)),
        COLUMNS: ("value of a column", cells),
        LABEL_PAIRS: ("value of a column and class", cells * classes),
        PAIRS: (
            "cell of pairs",
            4.0 * (classes if recipe.by_class else 1),
        ),  # two halves by two, at the coarsest
    }
    answers = []
    for purpose in (one for one in sizes if one in sigma):
        each, count = sizes[purpose]
        held = None if rows is None else rows / count
        reach = reach_of(held, noise[purpose])
        answers.append(Answer(purpose, each, noise[purpose], held, reach, unit))
    return Prospect(
        rows_in_classes(rows, classes, unit),
        tuple(answers),
        _advice(answers, axes, rows, noise[COLUMNS]),
        None if rows is None else _useless(len(axes), rows, noise[COLUMNS], unit),
    )


def _coarse(axis: Axis) -> int:
    """How many cells the coarsest counts of a column have."""
    return (min(axis.size, BRANCHES) if axis.scale is Scale.NUMBER else axis.size) + axis.missing


def _advice(
    answers: Sequence[Answer], axes: Sequence[Axis], rows: int | None, noise: float
) -> tuple[str, ...]:
    """More budget, fewer columns, coarser facts: as far as something is out of reach without them."""
    lost = [one for one in answers if one.reach is Reach.LOST and one.held]
    if rows is None or not lost:
        return ()
    factor = max(one.noise / one.held for one in lost if one.held)
    advice = [f"a budget about {math.ceil(factor)} times as large, or as many times the data"]
    kept = int(len(axes) / factor)
    if 2 <= kept < len(axes):
        advice.append(
            f"about {kept} columns instead of {len(axes)}: remove from the schema what nobody needs"
        )
    fine = sorted((axis for axis in axes if rows / _coarse(axis) <= noise), key=_coarse, reverse=True)
    named = ", ".join(f"{axis.name!r} ({_coarse(axis)})" for axis in fine[:_MOST_NAMED] if _coarse(axis) > 2)
    if named:
        advice.append(f"coarser facts: fewer values than now in {named}")
    return tuple(advice)


def _useless(columns: int, rows: int, noise: float, unit: str) -> str | None:
    """Whether the counts of columns say nothing: noise as large as all rows together drowns any value.

    From there on the columns of a release are further from the data than rows drawn evenly over all values, also after
    counts are made to be shares again (`docs/tables.md`).
    """
    if noise < rows:
        return None
    return (
        f"noise of ± {noise:,.0f} {unit} on every value of {columns} columns drowns all {rows:,} of them: what comes "
        "out would be further from the data than rows drawn at random, without looking at it"
    )
