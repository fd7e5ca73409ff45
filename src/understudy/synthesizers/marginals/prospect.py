"""What a budget buys of a table: the noise of every kind of counts beside the rows there.

Everything is computed from the schema, the plan's noise and the declared number of rows, without torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from understudy.schema import unit_words
from understudy.synthesizers.marginals.columns import table_columns
from understudy.synthesizers.marginals.grid import BRANCHES
from understudy.synthesizers.prospect import Answer, Prospect, Reach, noises, reach_of, rows_in_classes
from understudy.synthesizers.shared.parts import LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.privacy.mechanisms import Charge
    from understudy.schema import TableSchema
    from understudy.synthesizers.marginals.columns import TableColumn
    from understudy.synthesizers.marginals.recipe import MarginalsRecipe

__all__ = ["table_prospect"]

_MOST_NAMED = 3
"""Columns that an advice names."""


def table_prospect(
    recipe: MarginalsRecipe, schema: TableSchema, charges: Sequence[Charge], rows: int | None
) -> Prospect:
    """The noise of every kind of counts, what it drowns, and what would help."""
    from understudy.synthesizers.marginals.recipe import (
        COLUMNS,
        LABEL_PAIRS,
        PAIR_SCORES,
        PAIRS,
        PILES,
        SCORES,
    )

    unit = unit_words(schema).many
    columns, classes = table_columns(schema), len(schema.label_classes or ("all",))
    sigma = noises(charges)
    compared = min(len(columns), recipe.columns)
    vectors = {
        LABELS: 1,
        COLUMNS: sum(len(column.marginal_sizes) for column in columns),
        PILES: sum(column.deep for column in columns),
        LABEL_PAIRS: len(columns),
        PAIR_SCORES: math.comb(len(columns), 2),
        PAIRS: math.comb(compared, 2),
        SCORES: math.comb(compared, 3) * (2 if classes > 1 else 1),
    }
    noise = {purpose: sigma.get(purpose, 0.0) * math.sqrt(vectors[purpose]) for purpose in vectors}
    cells = sum(map(_coarse, columns)) / len(columns)
    sizes = {
        LABELS: ("class", float(classes)),
        COLUMNS: ("value of a column", cells),
        PILES: ("pile of a hundredth", 100.0),
        LABEL_PAIRS: ("value of a column and class", cells * classes),
        PAIR_SCORES: ("how two columns go together", 1.0),
        PAIRS: ("cell of pairs", 4.0 * classes),  # two halves by two, at the coarsest
        SCORES: ("rule of three columns", 1.0),
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
        _advice(answers, columns, rows, noise[COLUMNS]),
        None if rows is None else _useless(len(columns), rows, noise[COLUMNS], unit),
    )


def _coarse(column: TableColumn) -> int:
    """How many cells the coarsest counts of a column have."""
    return (column.size if column.number is None else min(column.size, BRANCHES)) + column.missing


def _advice(
    answers: Sequence[Answer], columns: Sequence[TableColumn], rows: int | None, noise: float
) -> tuple[str, ...]:
    """More budget, fewer columns, coarser facts: as far as something is out of reach without them."""
    lost = [one for one in answers if one.reach is Reach.LOST and one.held]
    if rows is None or not lost:
        return ()
    factor = max(one.noise / one.held for one in lost if one.held)
    advice = [f"a budget about {math.ceil(factor)} times as large, or as many times the data"]
    kept = int(len(columns) / factor)
    if 2 <= kept < len(columns):
        advice.append(
            f"about {kept} columns instead of {len(columns)}: remove from the schema what nobody needs"
        )
    fine = sorted((one for one in columns if rows / _coarse(one) <= noise), key=_coarse, reverse=True)
    named = ", ".join(f"{one.name!r} ({_coarse(one)})" for one in fine[:_MOST_NAMED] if _coarse(one) > 2)
    if named:
        advice.append(f"coarser facts: fewer values than now in {named}")
    return tuple(advice)


def _useless(columns: int, rows: int, noise: float, unit: str) -> str | None:
    """Whether the counts of columns say nothing: noise as large as all rows together drowns any value.

    From there on the columns of a release are about as far from the data as rows drawn evenly over all values, also
    after counts are made to be shares again; a test measures it.
    """
    if noise < rows:
        return None
    return (
        f"noise of ± {noise:,.0f} {unit} on every value of {columns} columns drowns all {rows:,} of them: what comes "
        "out would be hardly nearer to the data than rows drawn at random, without looking at it"
    )
