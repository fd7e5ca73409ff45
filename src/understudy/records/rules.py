"""Rows that break declared rules, found and mended; works on decoded rows, real or synthetic.

What follows from other columns (sums, implied values) is computed. Otherwise the columns of a broken rule are taken
together from another row that keeps it, if possible one with the same value in the rule's first column: so they are
distributed as the generator makes them where it keeps the rule. A row that still breaks a rule after a few rounds,
since rules share columns, is replaced by a whole row that breaks none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from understudy.errors import DataError
from understudy.schema.rules import Combinations, Forbidden, Implied, Inequality, MissingTogether, Rule, Sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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


def keeping_rules(frame: pd.DataFrame, rules: Sequence[Rule], source: np.random.Generator) -> pd.DataFrame:
    """The same rows, mended so that none of them breaks a rule.

    Raises:
        DataError: no row keeps all rules, so that there is nothing to mend with.
    """
    mended = frame.copy()
    for _ in range(_ROUNDS):
        masks = [_mend(mended, rule, source) for rule in rules]
        if not any(mask.any() for mask in masks):
            return mended
    wrong = np.zeros(len(mended), dtype=bool)
    for rule in rules:
        wrong |= broken(mended, rule)
    good = np.flatnonzero(~wrong)
    if not len(good):
        raise DataError(
            "no synthetic row keeps all declared rules at once; correct the rules, or draw more rows"
        )
    chosen = np.arange(len(mended))
    chosen[wrong] = source.choice(good, int(wrong.sum()))
    return mended.iloc[chosen].reset_index(drop=True)


def _mend(frame: pd.DataFrame, rule: Rule, source: np.random.Generator) -> Mask:
    """Mend one rule in place; returns which rows broke it."""
    wrong = broken(frame, rule)
    if not wrong.any():
        return wrong
    if isinstance(rule, Sum):
        _put(frame, rule.total, wrong, _added(frame, rule)[wrong])
    elif isinstance(rule, Implied):
        value = None if rule.value == "" else _as_kept(frame[rule.then], rule.value)
        _put(frame, rule.then, wrong, value)
    else:
        _borrow(frame, rule.columns, wrong, source)
    return wrong


def _borrow(frame: pd.DataFrame, columns: tuple[str, ...], wrong: Mask, source: np.random.Generator) -> None:
    """Take these columns from rows that keep the rule, with the same value in the first one where there is any."""
    if wrong.all():
        return
    good = np.flatnonzero(~wrong)
    lender = source.choice(good, len(frame))
    first = pd.factorize(frame[columns[0]], use_na_sentinel=False)[0]
    order = good[np.argsort(first[good], kind="stable")]
    low = np.searchsorted(first[order], first, side="left")
    high = np.searchsorted(first[order], first, side="right")
    alike = np.minimum(low + (source.random(len(frame)) * (high - low)).astype(np.int64), len(order) - 1)
    lender = np.where(high > low, order[alike], lender)[wrong]
    for column in columns:
        _put(frame, column, wrong, frame[column].iloc[lender].array)


def _put(frame: pd.DataFrame, column: str, where: Mask, values: Any) -> None:
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
        return pd.Timestamp(text)
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
