"""Tables as small integers: the common ground of every marginal measure.

A `Layout` says which columns are numeric (with public bounds) and which are categorical (with public values).
Each column becomes integer codes: numeric values fall into bins (values outside go to the end bins), categories
get their position, and two more codes hold unknown values and missing ones. Bins are equally wide between the
bounds, or, after `by_mass`, hold equally many of some real rows: a skewed column then shows its shape, and a value
that many rows share has a bin of its own.
"""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError
from understudy.schema import Continuous, Datetime, Integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from understudy.schema import TableSchema

__all__ = ["Layout"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The columns of a table, as the schema declares them.

    Args:
        numeric: bounds of each numeric column.
        categorical: possible values of each categorical column.
        nullable: columns in which a missing value is allowed.
        temporal: numeric columns that hold datetimes; their bounds are seconds since 1970.
        bins: how many equal bins a numeric column is cut into.
        cuts: for numeric columns that are cut otherwise, the greatest value of every bin but the last.
    """

    numeric: Mapping[str, tuple[float, float]]
    categorical: Mapping[str, Sequence[object]]
    nullable: frozenset[str] = field(default_factory=frozenset)
    temporal: frozenset[str] = field(default_factory=frozenset)
    bins: int = 20
    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: TableSchema, bins: int = 20) -> Layout:
        """The layout of a table schema; datetimes become seconds since 1970."""
        numeric: dict[str, tuple[float, float]] = {}
        categorical: dict[str, Sequence[object]] = {}
        for column in schema.columns:
            match column:
                case Continuous() | Integer():
                    numeric[column.name] = (float(column.lower), float(column.upper))
                case Datetime():
                    numeric[column.name] = (_seconds(column.lower), _seconds(column.upper))
                case _:
                    categorical[column.name] = column.values
        nullable = frozenset(column.name for column in schema.columns if column.missing)
        temporal = frozenset(c.name for c in schema.columns if isinstance(c, Datetime))
        return cls(numeric, categorical, nullable, temporal, bins)

    def __post_init__(self) -> None:
        if not self.numeric and not self.categorical:
            raise EvaluationError("a table layout needs at least one column, got none.")
        for name, (low, high) in self.numeric.items():
            if not low < high:
                raise EvaluationError(f"column {name!r}: bounds must be low < high, got {low} and {high}.")

    def by_mass(self, frame: pd.DataFrame, bins: int = 10) -> Layout:
        """The same layout with numeric columns cut into bins that hold about equally many of these real rows.

        A value that more than one bin's share of the rows have gets a bin of its own.
        """
        cuts = {
            name: _cuts_by_mass(self._numbers(frame, name), bounds, bins)
            for name, bounds in self.numeric.items()
        }
        return replace(self, cuts=cuts)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns, then categorical ones."""
        return (*self.numeric, *self.categorical)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has, the ones for unknown and missing included."""
        cut = [len(self.cuts[name]) + 1 if name in self.cuts else self.bins for name in self.numeric]
        return tuple(size + 2 for size in (*cut, *map(len, self.categorical.values())))

    def labels(self, column: str) -> tuple[str, ...]:
        """What each code of a column means, in words."""
        if column in self.numeric:
            low, high = self.numeric[column]
            cuts = self.cuts.get(column)
            edges = np.linspace(low, high, self.bins + 1) if cuts is None else np.array([low, *cuts, high])
            if column in self.temporal:
                unit = "D" if edges[1] - edges[0] >= 86_400 else "m"
                names = [str(np.datetime64(int(a), "s").astype(f"M8[{unit}]")) for a in edges[:-1]]
            else:
                names = [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges)]
        else:
            names = [str(value) for value in self.categorical[column]]
        return (*names, "(unknown)", "(missing)")

    def codes(self, frame: pd.DataFrame) -> Ints:
        """The table as integers, (rows, columns) in the order of `columns`."""
        absent = [name for name in self.columns if name not in frame.columns]
        if absent:
            raise EvaluationError(f"the table lacks the columns {absent}; it has {list(frame.columns)}.")
        columns = [self._binned(self._numbers(frame, name), name) for name in self.numeric]
        columns += [self._positions(frame[name], values) for name, values in self.categorical.items()]
        return np.stack(columns, axis=1)

    def numbers(self, frame: pd.DataFrame) -> npt.NDArray[np.float64]:
        """The numeric columns scaled to [0, 1] by their bounds, missing as NaN, (rows, numeric columns)."""
        if not self.numeric:
            return np.zeros((len(frame), 0))
        scaled = [
            (self._numbers(frame, name) - low) / (high - low) for name, (low, high) in self.numeric.items()
        ]
        return np.stack(scaled, axis=1)

    def valid(self, frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """For each row, whether each value is within bounds, a known category, or missing where allowed."""
        good = np.ones(len(frame), dtype=bool)
        for name, (low, high) in self.numeric.items():
            values = self._numbers(frame, name)
            missing = np.isnan(values)
            inside = (values >= low) & (values <= high)
            good &= np.where(missing, name in self.nullable, inside)
        for name, categories in self.categorical.items():
            code = self._positions(frame[name], categories)
            good &= (code < len(categories)) | ((code == len(categories) + 1) & (name in self.nullable))
        return good

    def uniform(self, rows: int, seed: int) -> pd.DataFrame:
        """The trivial generator: every column independent and uniform over what the schema allows."""
        import pandas as pd

        generator = np.random.default_rng(seed)
        made: dict[str, Any] = {
            name: generator.uniform(low, high, rows) for name, (low, high) in self.numeric.items()
        }
        for name in self.temporal:
            made[name] = pd.to_datetime(made[name], unit="s")
        for name, values in self.categorical.items():
            choices = np.array(list(values), dtype=object)
            made[name] = choices[generator.integers(0, len(choices), rows)]
        return pd.DataFrame(made)

    def _numbers(self, frame: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
        import pandas as pd

        if name not in self.temporal:
            return np.asarray(pd.to_numeric(frame[name], errors="coerce"), dtype=np.float64)
        moments = pd.to_datetime(frame[name], errors="coerce", utc=True).dt.tz_localize(None)
        return np.asarray((moments - pd.Timestamp(0)) / pd.Timedelta(seconds=1), dtype=np.float64)

    def _binned(self, values: npt.NDArray[np.float64], name: str) -> Ints:
        missing, (low, high) = np.isnan(values), self.numeric[name]
        if name in self.cuts:
            bins = np.searchsorted(self.cuts[name], values, side="left")
            return np.where(missing, len(self.cuts[name]) + 2, bins)
        place = np.clip((np.where(missing, low, values) - low) / (high - low) * self.bins, 0, self.bins - 1)
        return np.where(missing, self.bins + 1, place.astype(np.int64))

    @staticmethod
    def _positions(column: pd.Series[Any], values: Sequence[object]) -> Ints:
        known = {str(value): code for code, value in enumerate(values)}
        # Missing is told apart before the lookup, since a category may itself be called "nan".
        missing = column.isna().to_numpy(dtype=bool)
        if column.dtype.kind == "b":  # truth values stand for the first and the second category
            return np.where(missing, len(values) + 1, column.fillna(False).to_numpy(dtype=np.int64))
        codes = column.astype(str).map(known)
        if column.dtype.kind == "f":  # whole numbers in a type that also holds what is missing
            whole = column.where(column == column.round()).astype("Int64").astype(str)
            codes = codes.fillna(whole.map(known))
        found = codes.fillna(len(values)).to_numpy(dtype=np.int64)
        return np.where(missing, len(values) + 1, found)


def _seconds(moment: dt.datetime) -> float:
    return (moment - dt.datetime(1970, 1, 1)).total_seconds()


def _cuts_by_mass(
    values: npt.NDArray[np.float64], bounds: tuple[float, float], bins: int
) -> tuple[float, ...]:
    """The greatest value of every bin but the last; rounding by what float32 cannot tell apart crosses no cut."""
    present = np.sort(values[~np.isnan(values)])
    if not len(present):
        return ()
    ends = present[np.ceil(np.arange(1, bins) / bins * len(present)).astype(np.int64) - 1]
    piles = np.unique(ends[:-1][ends[:-1] == ends[1:]])
    slack = (bounds[1] - bounds[0]) * 2.0**-25
    cuts = np.unique(np.concatenate([ends + slack, piles - slack]))
    return tuple(cuts[(cuts >= present[0]) & (cuts < present[-1])].tolist())
