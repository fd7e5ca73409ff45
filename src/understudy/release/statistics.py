"""Statistics of a release without drawing a row: shares, cross-tabs, rates and means, with their noise. Costs no ε.

Answers are those of the generator, computed exactly from it. An interval covers two things: the noise that was added
to the counts of these columns, and the chance of who was among the rows. It does not cover what the generator lost of
the counts when it was fitted to them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from understudy.errors import NoSuchRecords, ReleaseError
from understudy.records.given import Allowed
from understudy.release.release import release_of
from understudy.release.sampling import class_weights, with_given
from understudy.release.weights import model_with
from understudy.schema import Binary, Categorical, Continuous, Integer, Ordinal, TableSchema

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from understudy.release.release import Release
    from understudy.schema import Column, Discrete
    from understudy.synthesizers.model import Model

__all__ = ["COUNTS", "COVERS", "all_queries", "published_counts", "statistics"]

COVERS = (
    "Intervals of 95 % cover the noise of the counts of these columns and the chance of who was among the rows; they "
    "do not cover what the generator lost when it was fitted to the counts."
)
COUNTS = (
    "These are the counts as they were published, noise included; the number of rows that were counted lies between "
    "low and high in 95 % of all cells. They do not add up, since each has noise of its own."
)
_WIDE = 1.959964
"""Standard deviations on either side of an interval of 95 %."""
_QUERY = re.compile(r"(?P<mean>mean\s+)?(?P<what>.+?)(\s+by\s+(?P<by>.+))?")
_MOST_CELLS = 10_000


def statistics(release: Release | str | Path, query: str, *, rows: int | None = None) -> pd.DataFrame:
    """The answer to one query: "outcome", "outcome by ward", "mean age" or "mean age by sex".

    Args:
        release: the generator of a table, or the path of its folder.
        query: columns with listed values, or the mean of a number; a column to break it down by.
        rows: how many rows there were, where the plan does not say; without it there are no intervals.

    Returns:
        For each value (of `by`, then of the column) its `estimate` (the share among rows with this value of `by`, or
        the mean), the `noise` (one standard deviation, of the added noise alone) and the ends `low` and `high`.

    Raises:
        ReleaseError: the query is not understood, or the generator cannot answer.
    """
    import pandas as pd

    release = release_of(release)
    what, by, mean = _parsed(query, release)
    plan, schema = release.card.plan, release.schema
    count = plan.rows if rows is None else rows
    names = (what.name,) if by is None else (what.name, by.name)
    noise = plan.recipe.cell_noise(schema, plan.charges, names)
    whole_noise = None if by is None else plan.recipe.cell_noise(schema, plan.charges, names[1:])
    model = model_with(release.weights, plan.recipe, schema)
    found: list[dict[str, object]] = []
    for value, known in _cases(by):
        group = {} if by is None else {by.name: value}
        part, weights = _part(model, known, release)
        held = float(weights.sum())
        within = None if count is None or noise is None else (count * held, noise, whole_noise or 0.0)
        if mean:
            found.append({**group, **_mean(part, weights, what.name, within)})
            continue
        assert isinstance(what, Binary | Ordinal | Categorical)
        for cell, asked in _cases(what):
            share = float(_part(model, {**known, **asked}, release)[1].sum()) / held if held else 0.0
            found.append({**group, what.name: cell, **_share(share, within)})
    return pd.DataFrame(found)


def published_counts(release: Release | str | Path) -> pd.DataFrame:
    """Every noisy count that was published when the release was made: what its budget bought.

    Args:
        release: the generator of a table, or the path of its folder.

    Returns:
        For each count the `table` (what its charge is called), the `columns` and `values` that it counts, the `count`,
        its `noise` (one standard deviation) and the ends `low` and `high` of an interval of 95 % for the rows there.

    Raises:
        ReleaseError: the release keeps no counts.
    """
    import pandas as pd

    release = release_of(release)
    model = model_with(release.weights, release.card.plan.recipe, release.schema)
    found = []
    for table in model.counts(release.schema):
        wide = _WIDE * table.noise
        described = {"table": table.purpose, "columns": " × ".join(table.columns)}
        values = [" × ".join(cell) for cell in table.cells]
        counts = {"count": table.counts, "noise": table.noise}
        ends = {"low": np.maximum(table.counts - wide, 0.0), "high": np.maximum(table.counts + wide, 0.0)}
        found.append(pd.DataFrame({**described, "values": values, **counts, **ends}))
    if not found:
        raise ReleaseError(
            "this release keeps no counts: those of the recipe understudy-tables do, unless they are NOT PRIVATE."
        )
    return pd.concat(found, ignore_index=True)


def all_queries(release: Release) -> list[str]:
    """A query for each column of a table: its shares, or its mean; moments have neither."""
    columns = getattr(release.schema, "columns", ())
    means = [f"mean {one.name}" for one in columns if isinstance(one, Continuous | Integer)]
    return [*(one.name for one in columns if isinstance(one, Binary | Ordinal | Categorical)), *means]


def _parsed(query: str, release: Release) -> tuple[Column, Discrete | None, bool]:
    schema, match = release.schema, _QUERY.fullmatch(query.strip())
    if not isinstance(schema, TableSchema):
        raise ReleaseError(f"statistics are those of a table, and this release makes {schema.kind}.")
    columns = {column.name: column for column in schema.columns}
    named = {} if match is None else match.groupdict()
    what, by = columns.get(named.get("what") or ""), columns.get(named.get("by") or "")
    if match is None or what is None or (by is None and named["by"]):
        raise ReleaseError(
            f'a query is "column", "column by column" or "mean number by column"; got {query[:80]!r}. Columns: '
            f"{', '.join(columns)}."
        )
    mean = bool(named["mean"])
    if mean != isinstance(what, Continuous | Integer):
        raise ReleaseError(
            f"{what.name!r} has {'listed values' if mean else 'no listed values'}: ask for "
            f"{'its shares, without mean' if mean else 'its mean'}."
        )
    if by is not None and (not isinstance(by, Binary | Ordinal | Categorical) or by is what):
        raise ReleaseError(
            f"what follows by must be another column with listed values, and {by.name!r} is not."
        )
    cells = (1 if mean else len(_cases(what))) * len(_cases(by))  # type: ignore[arg-type]
    if cells > _MOST_CELLS:
        raise ReleaseError(f"{query!r} has {cells:,} cells, more than {_MOST_CELLS:,}.")
    return what, by, mean


def _cases(column: Discrete | None) -> list[tuple[str | None, dict[str, Allowed]]]:
    """Every value of a column with the condition that asks for it, missing ones last; one case without a column."""
    if column is None:
        return [(None, {})]
    cases: list[tuple[str | None, dict[str, Allowed]]] = []
    for place, value in enumerate(column.values):
        only = Allowed(((float(place), float(place)),), missing=False, text=f"{column.name}={value}")
        cases.append((value, {column.name: only}))
    if column.missing:
        cases.append((None, {column.name: Allowed((), missing=True, text=f"{column.name}=missing")}))
    return cases


def _part(model: Model, known: dict[str, Allowed], release: Release) -> tuple[Model, NDArray[np.float64]]:
    """The model of the rows of a case, and the probability of each class with one."""
    weights = class_weights(release)
    weights = weights / weights.sum()
    try:
        return with_given(model, known, release.schema, weights)
    except NoSuchRecords:
        return model, 0 * weights


def _share(share: float, within: tuple[float, float, float] | None) -> dict[str, object]:
    """A share of a group with its interval; `within` is the number of its rows, and the noise of both counts."""
    if within is None or within[0] <= 0:
        return {"estimate": share, "noise": None, "low": None, "high": None}
    rows, noise, whole = within
    added = math.hypot(noise, share * whole) / rows
    wide = _WIDE * math.hypot(added, math.sqrt(max(share * (1 - share), 0.0) / rows))
    return {"estimate": share, "noise": added, "low": max(share - wide, 0.0), "high": min(share + wide, 1.0)}


def _mean(
    model: Model, weights: NDArray[np.float64], name: str, within: tuple[float, float, float] | None
) -> dict[str, object]:
    """A mean over the rows of a group that have a value; every value that is told apart adds its own noise."""
    values, chances = model.distribution(name, weights)
    held = float(chances.sum())
    mean = float(values @ chances) / held if held else math.nan
    if within is None or within[0] <= 0 or not held:
        return {f"mean {name}": mean, "noise": None, "low": None, "high": None}
    rows, noise, _ = within
    rows *= held / float(weights.sum())
    added = noise * float(np.linalg.norm(values - mean)) / rows
    spread = math.sqrt(float((values - mean) ** 2 @ chances) / held / rows)
    wide = _WIDE * math.hypot(added, spread)
    return {f"mean {name}": mean, "noise": added, "low": mean - wide, "high": mean + wide}
