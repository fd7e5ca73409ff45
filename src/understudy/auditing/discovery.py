"""Audit of what a run discovers: what one record changes in it, and whether a text of its own could be published.

The code of `fit` that reads cells, counts them and chooses bounds and categories runs on made-up rows at a door that
listens, once without and several times with one hostile person more, who has texts of their own and numbers that nobody
expects. Beside the readings of every rehearsal there is one for each threshold: the probability with which noise lifts
what the person alone has above it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from understudy.auditing.listening import Ear, listening
from understudy.auditing.rehearsal import Rehearsed, probes, rehearsal_readings
from understudy.auditing.verdict import Outcome, Reading
from understudy.discovery.asking import purpose_of
from understudy.discovery.discover import discovered, undescribed_rows
from understudy.privacy.mechanisms import GaussianThreshold
from understudy.schema import Categorical, Datetime, Integer, open_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.auditing.listening import Draw
    from understudy.door.noise import Noise
    from understudy.planning import Plan
    from understudy.schema import Column, Schema

__all__ = ["discovery_readings", "rehearse_discovery"]

_ROWS, _MOST = 200, 9
_OWN = "a text of its own"
_HOSTILE: tuple[tuple[Any, Any], ...] = (
    (1e300, "9999-12-31"),
    (-1e300, "0001-01-01"),
    (0, "2000-02-29"),
    (7, "1969-07-20"),
    (None, None),
)
"""A number and a moment of a hostile person; whole, so that every kind of column takes it."""


def rehearse_discovery(plan: Plan, schema: Schema, noise: Callable[[], Noise], *, seed: int = 0) -> Rehearsed:
    """Discover what the schema leaves open in made-up rows, without and with one hostile person more."""
    purposes = {purpose_of(column) for column in open_columns(schema)}
    charges = tuple(charge for charge in plan.run_charges if charge.purpose in purposes)
    rows, ears, leaked = _made_up(schema, seed), [Ear()], set[str]()
    expected = _found(plan, schema, [rows], noise(), ears[0])
    for place in range(len(_HOSTILE)):
        ears.append(Ear(ears[0].draws))
        found = _found(plan, schema, [rows, _hostile(schema, place)], noise(), ears[-1])
        leaked |= {name for name, column in found.items() if column != expected[name]}
    heard = tuple(tuple(ear.draws) for ear in ears)
    return Rehearsed(replace(plan, charges=charges), heard, tuple(sorted(leaked)), probes(noise()))


def discovery_readings(
    plan: Plan, schema: Schema, noise: Callable[[], Noise], alpha: float, *, seed: int = 0
) -> list[Reading]:
    """Everything that an audit reads of a discovery; nothing if the schema leaves nothing open.

    Args:
        plan: what is audited.
        schema: as its recipe sees it.
        noise: makes a source of noise.
        alpha: the probability of a false alarm.
        seed: of the made-up rows.
    """
    if not open_columns(schema):
        return []
    seen = rehearse_discovery(plan, schema, noise, seed=seed)
    read = [replace(one, name=f"discovery: {one.name}") for one in rehearsal_readings(seen, alpha)]
    return [*read, *(_threshold(seen, charge.purpose) for charge in seen.plan.charges if _selects(charge))]


def _selects(charge: Any) -> bool:
    return isinstance(charge.mechanism, GaussianThreshold)


def _threshold(seen: Rehearsed, purpose: str) -> Reading:
    """With which probability noise lifts what a hostile person alone has above the threshold."""
    claimed = next(one.mechanism.delta for one in seen.plan.charges if one.purpose == purpose)  # type: ignore[union-attr]
    without, *others = (next(d for d in draws if d.purpose == purpose) for draws in seen.draws)
    chance = max(_chance(without, other) for other in others)
    says = f"{purpose}: what one person alone has is published with probability {chance:.3g} (charged {claimed:.3g})."
    shown = any(text.startswith(_OWN) for other in others for text in other.selected or ())
    wrong = shown or chance > claimed * (1 + 1e-9)
    outcome = Outcome.FAIL if wrong else Outcome.PASS
    return Reading(f"threshold of {purpose}", outcome, chance, chance, chance, claimed, says)


def _chance(without: Draw, other: Draw) -> float:
    own = [count for word, count in zip(other.words, other.before, strict=True) if word not in without.words]
    hidden = [stats.norm.logcdf((other.threshold - count) / max(other.scale, 1e-300)) for count in own]
    return float(-np.expm1(sum(hidden)))


def _found(
    plan: Plan, schema: Schema, parts: list[pd.DataFrame], noise: Noise, ear: Ear
) -> dict[str, Column]:
    """What is discovered where every made-up row is a person, and the hostile rows are one more."""
    persons = np.minimum(np.arange(sum(map(len, parts))), _ROWS)
    rows = undescribed_rows(pd.concat(parts), schema, persons)
    door = listening(ear)(rows, plan.run_charges, noise, insecure=True, rows=plan.rows)
    found = discovered(door, schema).schema
    return {column.name: column for column in getattr(found, "columns", ())}


def _made_up(schema: Schema, seed: int) -> pd.DataFrame:
    """Many different texts, so that their noise can be measured, and numbers of all magnitudes."""
    source = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for column in open_columns(schema):
        if isinstance(column, Categorical):
            made[column.name] = [f"text {number}" for number in range(_ROWS)]
        elif isinstance(column, Datetime):
            made[column.name] = [f"{year}-06-15" for year in source.integers(1900, 2100, _ROWS)]
        else:
            made[column.name] = np.rint(source.normal(0, 1, _ROWS) * 10.0 ** source.integers(0, 9, _ROWS))
    return pd.DataFrame(made).astype(object)


def _hostile(schema: Schema, place: int) -> pd.DataFrame:
    """A hostile person with as many rows as one may have, but few: with one text of its own, or with as many."""
    (number, moment), count = _HOSTILE[place], min(schema.max_rows_per_person or 1, _MOST)
    made: dict[str, Any] = {}
    for column in open_columns(schema):
        if isinstance(column, Categorical):
            own = [f"{_OWN} {row * (place % 2)}" for row in range(count)]
            made[column.name] = [None] * count if number is None else own
        elif isinstance(column, Datetime):
            made[column.name] = [moment] * count
        else:
            whole = number is None or not isinstance(column, Integer)
            made[column.name] = [number if whole else int(number)] * count
    return pd.DataFrame(made).astype(object)
