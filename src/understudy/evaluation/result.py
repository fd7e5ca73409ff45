"""What an evaluation returns: typed numbers, each with its uncertainty, a ceiling and a floor.

A number alone says little. Every `Measure` therefore carries the interval it is known to, the value that
real data would reach in its place (ceiling), the value that a trivial generator or predictor reaches
(floor), which direction is better, and whether private rows were read to compute it (internal).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy import codec
from understudy.errors import EvaluationError
from understudy.notebook import html_table

if TYPE_CHECKING:
    from rich.table import Table

    from understudy.evaluation.intervals import Estimate

__all__ = [
    "Better",
    "Correlations",
    "Evaluation",
    "Group",
    "Judged",
    "Marginal",
    "Measure",
    "Pictures",
    "fidelity_measure",
]


_HEADINGS = ("measure", "value", "95 % interval", "ceiling", "floor", "better")
_LARGEST = 1e15
"""A larger number in a file is a mistake or an attack; charts could not hold it."""


class Better(enum.Enum):
    """Which way a measure improves."""

    HIGHER = "higher"
    LOWER = "lower"


class Group(enum.Enum):
    """The question that a measure answers."""

    UTILITY = "utility"
    """Do models trained on synthetic records work on real ones?"""

    FIDELITY = "fidelity"
    """Do synthetic records look like real ones?"""

    DISCLOSURE = "disclosure"
    """What does the release tell about the people it was trained on?"""

    CLOSENESS = "closeness"
    """Do synthetic records lie suspiciously close to the training records?"""


@dataclass(frozen=True)
class Measure:
    """One number of an evaluation.

    Args:
        name: what was measured, unique within an evaluation.
        value: the number itself.
        better: which way it improves.
        group: the question that it answers.
        low: lower end of its 95 % interval, None if no interval is defined.
        high: upper end of its 95 % interval.
        ceiling: what real data reaches in the place of synthetic data, None if no real reference was given.
        floor: what a trivial generator or predictor reaches, None if there is no natural one.
        internal: True if private rows were read and no mechanism covers that; such a number must not be
            published.
        unit: printed after the number.
        explanation: one sentence for a reader who does not know the measure.
    """

    name: str
    value: float
    better: Better
    group: Group
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    floor: float | None = None
    internal: bool = True
    unit: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise EvaluationError(f"{self.name}: the interval [{self.low}, {self.high}] is turned around.")

    @property
    def share_of_ceiling(self) -> float | None:
        """Where the value lies between floor (0) and ceiling (1); None if either is unknown or they agree."""
        if (
            self.ceiling is None
            or self.floor is None
            or math.isclose(self.ceiling, self.floor, abs_tol=1e-12)
        ):
            return None
        return (self.value - self.floor) / (self.ceiling - self.floor)

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name}: {self.value:.4g}{self.unit}{interval}"


@dataclass(frozen=True)
class Judged:
    """The verdict on one criterion.

    Args:
        name: what the data is needed for.
        kind: of the criterion.
        value: how far the answer of synthetic rows lies from that of real rows, or what a classifier reaches.
        limit: what the value is held against.
        better: which way the value improves.
        passed: whether it is good enough; with noise, whether that is shown by the whole interval.
        low: lower end of the 95 % interval that noise leaves, None if there is no noise.
        high: its upper end.
        ceiling: what other real rows reach in the place of synthetic ones, None if it is not known.
        internal: True if private rows were read and no mechanism covers that.
    """

    name: str
    kind: str
    value: float
    limit: float
    better: Better
    passed: bool
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    internal: bool = True

    @property
    def asks(self) -> str:
        """The value beside its limit, in signs."""
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3g} to {self.high:.3g})"
        return f"{self.value:.3g}{interval} {'≤' if self.better is Better.LOWER else '≥'} {self.limit:g}?"


def fidelity_measure(
    name: str,
    estimate: Estimate,
    better: Better,
    ceiling: float | None,
    floor: float | None,
    explanation: str,
) -> Measure:
    """An internal measure of fidelity, from an estimate with its interval."""
    return Measure(
        name,
        estimate.value,
        better,
        Group.FIDELITY,
        estimate.low,
        estimate.high,
        ceiling,
        floor,
        explanation=explanation,
    )


@dataclass(frozen=True)
class Marginal:
    """One column's distribution in both data sets, for a chart.

    Args:
        column: its name.
        labels: what each share belongs to.
        real: shares of the real rows.
        synthetic: shares of the synthetic rows.
        ordered: whether the labels are bins of a number, in order.
    """

    column: str
    labels: tuple[str, ...]
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        if not self.labels or {len(self.real), len(self.synthetic)} != {len(self.labels)}:
            raise EvaluationError(
                f"column {self.column!r} has {len(self.labels)} labels, but {len(self.real)} real and "
                f"{len(self.synthetic)} synthetic shares."
            )


@dataclass(frozen=True)
class Correlations:
    """The correlation matrices of both data sets, for a chart."""

    columns: tuple[str, ...]
    real: tuple[tuple[float, ...], ...]
    synthetic: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        side = len(self.columns)
        for matrix in (self.real, self.synthetic):
            if not side or len(matrix) != side or any(len(row) != side for row in matrix):
                raise EvaluationError(f"the correlations of {side} columns are no square of that side.")


@dataclass(frozen=True)
class Pictures:
    """Synthetic images beside their nearest real neighbours, each a row-major grid of grey values 0..255.

    Args:
        height: of one image in pixels.
        width: of one image in pixels.
        channels: 1 for grey, 3 for colour.
        synthetic: flat pixels of each synthetic image.
        nearest: flat pixels of the nearest real image of each, empty if there are none.
    """

    height: int
    width: int
    channels: int
    synthetic: tuple[tuple[int, ...], ...]
    nearest: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        pixels = self.height * self.width * self.channels
        sized = 1 <= self.height <= 4096 and 1 <= self.width <= 4096 and self.channels in (1, 3)
        images = (*self.synthetic, *self.nearest)
        if not sized or any(len(image) != pixels for image in images):
            raise EvaluationError(
                f"pictures are not all {self.height} × {self.width} × {self.channels} pixels."
            )
        if any(not 0 <= value <= 255 for image in images for value in image):
            raise EvaluationError("pictures hold a pixel that does not lie between 0 and 255.")
        if self.nearest and len(self.nearest) != len(self.synthetic):
            raise EvaluationError(f"{len(self.synthetic)} pictures have {len(self.nearest)} neighbours.")


@dataclass(frozen=True, repr=False)
class Evaluation:
    """All measures of one release, with the facts needed to repeat them.

    Args:
        measures: the numbers, names unique.
        synthetic_rows: how many synthetic records were drawn; internal, because it follows the real rows by default.
        test_rows: how many real test rows were used; internal.
        seed: the seed of the draw and of the classifiers.
        marginals: distributions for charts; internal.
        correlations: correlation matrices for charts; internal.
        pictures: neighbours for a side-by-side view; internal.
        notes: what a reader should know about how it was measured.
        not_measured: what could not be measured, and why; internal.
        criteria: what the release was held against.
    """

    measures: tuple[Measure, ...]
    synthetic_rows: int | None
    test_rows: int | None
    seed: int
    marginals: tuple[Marginal, ...] = ()
    correlations: Correlations | None = None
    pictures: Pictures | None = None
    notes: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    criteria: tuple[Judged, ...] = ()

    def __post_init__(self) -> None:
        counts = Counter(measure.name for measure in self.measures)
        repeated = sorted(name for name, count in counts.items() if count > 1)
        if repeated:
            raise EvaluationError(
                f"measures must have unique names, these occur twice: {', '.join(repeated)}."
            )

    def __getitem__(self, name: str) -> Measure:
        for measure in self.measures:
            if measure.name == name:
                return measure
        known = ", ".join(measure.name for measure in self.measures)
        raise EvaluationError(f"no measure is called {name!r}; this evaluation holds: {known}.")

    def of(self, group: Group) -> tuple[Measure, ...]:
        """The measures that answer one question, in order."""
        return tuple(measure for measure in self.measures if measure.group is group)

    def public(self) -> Evaluation:
        """The same evaluation without anything that reads private rows uncovered by a mechanism."""
        return dataclasses.replace(
            self,
            measures=tuple(measure for measure in self.measures if not measure.internal),
            synthetic_rows=None,
            test_rows=None,
            marginals=(),
            correlations=None,
            pictures=None,
            not_measured=(),
            criteria=tuple(one for one in self.criteria if not one.internal),
        )

    @property
    def verdict(self) -> str | None:
        """What the release is good enough for and what not, in one sentence; None without criteria.

        A criterion that was judged twice, exactly and with noise, must have passed both times.
        """
        if not self.criteria:
            return None
        failed = dict.fromkeys(one.name for one in self.criteria if not one.passed)
        passed = [one.name for one in self.criteria if one.name not in failed]
        good = f"good enough for {_listed(list(dict.fromkeys(passed)))}" if passed else ""
        bad = f"{'not' if passed else 'not good enough'} for {_listed(list(failed))}" if failed else ""
        sentence = ", ".join(part for part in (good, bad) if part)
        return sentence[0].upper() + sentence[1:] + "."

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers."""
        plain = dataclasses.asdict(self)
        for measure in plain["measures"]:
            measure["group"] = measure["group"].value
        for one in (*plain["measures"], *plain["criteria"]):
            one["better"] = one["better"].value
        return plain

    def to_json(self) -> str:
        """JSON with finite numbers only; a number that is not finite is written as null."""
        return json.dumps(_finite(self.to_dict()), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """The inverse of `to_json` (null becomes NaN where a number is required)."""
        plain = codec.plain_from_json(text, error=EvaluationError)
        return codec.from_plain(cls, _numbers(plain, ""), error=EvaluationError)

    def __repr__(self) -> str:
        return f"<Evaluation: {len(self.measures)} measures>"

    def _repr_html_(self) -> str:
        rows = [_cells(measure) for group in Group for measure in self.of(group)]
        caption = "† reads private rows: internal, not for publication"
        return html_table(
            "Evaluation",
            rows,
            head=_HEADINGS,
            notes=[*filter(None, [self.verdict]), caption, *self.notes, *self.not_measured],
        )

    def table(self) -> Table:
        """A rich table: one line per measure, grouped by question."""
        from rich.table import Table

        table = Table(title="Evaluation", caption="† reads private rows: internal, not for publication")
        for heading in _HEADINGS:
            table.add_column(heading, justify="left" if heading in ("measure", "better") else "right")
        for group in Group:
            for measure in self.of(group):
                table.add_row(*_cells(measure))
            if self.of(group):
                table.add_section()
        return table

    def criteria_table(self) -> Table:
        """A rich table: one line per criterion."""
        from rich.table import Table

        table = Table(title="Criteria", caption="† reads private rows: internal, not for publication")
        for heading in ("needed for", "kind", "value and limit", "real rows", "verdict"):
            table.add_column(heading)
        for one in self.criteria:
            name = f"{one.name} †" if one.internal else one.name
            best = "–" if one.ceiling is None else f"{one.ceiling:.3g}"
            table.add_row(name, one.kind, one.asks, best, "pass" if one.passed else "FAIL")
        return table


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _cells(measure: Measure) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4g}"

    interval = "–" if measure.low is None else f"{number(measure.low)} … {number(measure.high)}"
    name = f"{measure.name} †" if measure.internal else measure.name
    value = f"{number(measure.value)}{measure.unit}"
    return name, value, interval, number(measure.ceiling), number(measure.floor), measure.better.value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _numbers(value: Any, key: str) -> Any:
    """Plain values with NaN where null stands for a number that must be there; absurd numbers are refused."""
    if isinstance(value, dict):
        return {name: _numbers(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item, key) for item in value]
    if value is None and key in ("value", "real", "synthetic"):
        return math.nan
    if isinstance(value, int | float) and abs(value) > _LARGEST:
        raise EvaluationError(f"{key or 'a number'} is beyond {_LARGEST:g}, which no measure is.")
    return value
