"""Rows that break declared rules, found and mended; works on decoded rows, real or synthetic.

What follows from other columns (sums, implied values) is computed. Otherwise the columns of a broken rule are taken
together from another row that keeps it, if possible one with the same value in the rule's first column: so they are
distributed as the generator makes them where it keeps the rule. A row that still breaks a rule after a few rounds,
since rules share columns, is replaced by a whole row that breaks none. The label of a row never changes, since it may
have been asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.records.given import holds
from understudy.schema import (
    Combinations,
    Continuous,
    Forbidden,
    Implied,
    Inequality,
    Integer,
    MissingTogether,
    Sum,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from understudy.records.given import Allowed
    from understudy.schema import Column, Rule, TableSchema

    Mask = NDArray[np.bool_]

__all__ = ["broken", "keeping_rules"]

_ROUNDS = 3
_EXACT = 1e-9


def broken(frame: pd.DataFrame, rule: Rule) -> Mask:
    """Which rows break a rule."""
    match rule:
        case Inequality():
            low, high = frame[rule.low], frame[rule.high]
            wrong = (low >= high) if rule.strict else (low > high)
            return _mask(wrong & low.notna() & high.notna())
        case Combinations():
            return ~_among(frame, rule.columns, rule.allowed)
        case Forbidden():
            return _among(frame, rule.columns, rule.never)
        case MissingTogether():
            gone = frame[list(rule.columns)].isna().to_numpy()
            return np.asarray(gone.any(axis=1) & ~gone.all(axis=1))
        case Sum():
            incomplete = frame[list(rule.parts)].isna().any(axis=1).to_numpy()
            total, parts = _numbers(frame[rule.total]), _added(frame, rule)
            near = np.abs(total - parts) <= _EXACT * (1 + np.abs(parts))
            return np.where(incomplete, ~np.isnan(total), ~near)
        case Implied():
            return _is(frame[rule.when], rule.equals) & ~_is(frame[rule.then], rule.value)


def keeping_rules(
    frame: pd.DataFrame,
    schema: TableSchema,
    source: np.random.Generator,
    given: Mapping[str, Allowed] | None = None,
) -> tuple[pd.DataFrame, Mask]:
    """The same rows, mended to break no rule and no condition; and those for which no row of their class could lend.

    Args:
        frame: rows that keep the conditions.
        schema: with the rules.
        source: of chance.
        given: conditions that mending must not break.
    """
    mended = frame.copy()
    for _ in range(_ROUNDS):
        mending = [_mend(mended, rule, schema, source) for rule in schema.rules]
        if not any(mending):
            break
    wrong = ~holds(mended, given or {}, schema)
    for rule in schema.rules:
        wrong |= broken(mended, rule)
    if not wrong.any():
        return mended, wrong
    lender = _lenders(mended, schema.label, ~wrong, wrong, source)
    chosen = np.arange(len(mended))
    chosen[np.flatnonzero(wrong)[lender >= 0]] = lender[lender >= 0]
    left = np.zeros(len(mended), dtype=bool)
    left[np.flatnonzero(wrong)[lender < 0]] = True
    return mended.iloc[chosen].reset_index(drop=True), left


def _mend(frame: pd.DataFrame, rule: Rule, schema: TableSchema, source: np.random.Generator) -> bool:
    """Mend one rule in place; returns whether any row broke it."""
    wrong = broken(frame, rule)
    if not wrong.any():
        return False
    if isinstance(rule, Sum):
        total = next(column for column in schema.columns if column.name == rule.total)
        sums, possible = _possible_sums(frame, rule, total)
        _put(frame, rule.total, wrong & possible, sums[wrong & possible])
    elif isinstance(rule, Implied) and rule.then != schema.label:
        value = None if rule.value == "" else _as_kept(frame[rule.then], rule.value)
        _put(frame, rule.then, wrong, value)
    else:
        anchor = schema.label if schema.label in rule.columns else rule.columns[0]
        lender = _lenders(frame, anchor, ~wrong, wrong, source)
        if anchor != schema.label:
            anyone = np.flatnonzero(~wrong)
            lender = np.where(lender < 0, source.choice(anyone, len(lender)) if len(anyone) else -1, lender)
        where = np.flatnonzero(wrong)[lender >= 0]
        for column in rule.columns:
            if column != schema.label:
                _put(frame, column, where, frame[column].iloc[lender[lender >= 0]].array)
    return True


def _possible_sums(frame: pd.DataFrame, rule: Sum, total: Column) -> tuple[NDArray[np.float64], Mask]:
    """The sums of parts, and which of them the column of the total can hold."""
    assert isinstance(total, Continuous | Integer)
    sums = _added(frame, rule)
    possible = np.isnan(sums) if total.missing else np.zeros(len(sums), dtype=bool)
    possible |= (sums >= total.lower) & (sums <= total.upper)
    decimals = total.decimals if isinstance(total, Continuous) else 0
    return (sums if decimals is None else np.round(sums, decimals)), possible


def _lenders(
    frame: pd.DataFrame, alike: str | None, good: Mask, wrong: Mask, source: np.random.Generator
) -> NDArray[np.int64]:
    """For each wrong row a good one, drawn from those with the same value in a column; -1 where there is none."""
    groups = (
        np.zeros(len(frame), dtype=np.int64)
        if alike is None
        else pd.factorize(frame[alike], use_na_sentinel=False)[0]
    )
    rows = np.flatnonzero(good)
    order = rows[np.argsort(groups[rows], kind="stable")]
    low = np.searchsorted(groups[order], groups[wrong], side="left")
    high = np.searchsorted(groups[order], groups[wrong], side="right")
    place = low + (source.random(len(low)) * (high - low)).astype(np.int64)
    found: NDArray[np.int64] = np.append(order, -1)[np.where(high > low, place, len(order))]
    return found


def _put(frame: pd.DataFrame, column: str, where: NDArray[Any], values: Any) -> None:
    frame.loc[frame.index[where], column] = values


def _among(frame: pd.DataFrame, columns: tuple[str, ...], listed: tuple[tuple[str, ...], ...]) -> Mask:
    """Which rows have one of the listed combinations."""
    found = np.zeros(len(frame), dtype=bool)
    matches = {
        (column, value): _is(frame[column], value)
        for place, column in enumerate(columns)
        for value in {one[place] for one in listed}
    }
    for one in listed:
        found |= np.logical_and.reduce([matches[pair] for pair in zip(columns, one, strict=True)])
    return found


def _is(series: pd.Series[Any], text: str) -> Mask:
    """Which values are the one that a rule writes as text; "" means missing."""
    gone = series.isna().to_numpy(dtype=bool)
    if text == "":
        return np.asarray(gone)
    same = _mask(series == _as_kept(series, text))
    return same & ~gone


def _as_kept(series: pd.Series[Any], text: str) -> Any:
    """A value of a rule as the column keeps it."""
    if pd.api.types.is_datetime64_any_dtype(series):
        moment, zone = pd.Timestamp(text), getattr(series.dtype, "tz", None)
        return moment if zone is None else moment.tz_localize("UTC").tz_convert(zone)
    if pd.api.types.is_bool_dtype(series):
        return text.lower() in ("true", "1")
    if pd.api.types.is_integer_dtype(series):
        return int(float(text))
    return float(text) if pd.api.types.is_numeric_dtype(series) else text


def _added(frame: pd.DataFrame, rule: Sum) -> NDArray[np.float64]:
    return np.asarray(sum(_numbers(frame[part]) for part in rule.parts), dtype=np.float64)


def _numbers(series: pd.Series[Any]) -> NDArray[np.float64]:
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def _mask(series: pd.Series[Any]) -> Mask:
    return np.asarray(series.fillna(value=False).to_numpy(dtype=bool))
