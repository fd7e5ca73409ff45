"""Small charts as SVG text: no script, no network, colours from the page's style so that dark mode works.

Every chart is 360 units wide, so that it is readable at its natural size on a phone; wider pages put
several side by side. Each has a title and a description for screen readers.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Range", "Series", "bars", "curve", "heatmap", "histogram", "meter", "ranges"]

WIDTH = 360
_ids = itertools.count(1)


@dataclass(frozen=True)
class Range:
    """One row of a range chart: a value with its interval, between a floor and a ceiling."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    floor: float | None = None


@dataclass(frozen=True)
class Series:
    """One line of a curve, with an interval at each point where there is one.

    Args:
        name: what it shows.
        points: pairs of x and y.
        intervals: ends of the interval at each point; empty for none.
        style: which of the page's five line styles (0 blue, 1 grey and dashed, 2 orange, 3 green, 4 violet).
    """

    name: str
    points: tuple[tuple[float, float], ...]
    intervals: tuple[tuple[float, float], ...] = ()
    style: int = 0


def ranges(title: str, rows: Sequence[Range], *, description: str) -> Markup:
    """A row per value: dot with interval, tick for the floor, tick for the ceiling, on one common axis."""
    start, stop = _limits(
        x for row in rows for x in (row.value, row.low, row.high, row.ceiling, row.floor) if x is not None
    )
    left, right, top, step = 12, WIDTH - 14, 10, 44

    def x(value: float) -> float:
        return left + (right - left) * (value - start) / (stop - start)

    bottom = top + step * len(rows)
    parts = [_axis(x, _ticks(start, stop), top, bottom)]
    for place, row in enumerate(rows):
        y = top + step * place + 30
        parts.append(_text(left, y - 14, row.label, "label"))
        parts.append(_text(right, y - 14, _number(row.value), "value", anchor="end"))
        parts.append(_line(left, y, right, y, "track"))
        for edge, name in ((row.floor, "floor"), (row.ceiling, "ceiling")):
            if edge is not None:
                parts.append(_line(x(edge), y - 8, x(edge), y + 8, name))
        if row.low is not None and row.high is not None:
            parts.append(_line(x(row.low), y, x(row.high), y, "interval"))
        parts.append(_tag("circle", cx=x(row.value), cy=y, r=5, class_="dot"))
    return _svg(title, description, bottom + 22, parts)


def bars(title: str, labels: Sequence[str], real: Sequence[float], synthetic: Sequence[float]) -> Markup:
    """Two horizontal bars per category, real above synthetic, as shares of the rows."""
    most = max([*real, *synthetic, 1e-9])
    name_width, left, right, step, top = 116, 124, WIDTH - 46, 30, 6

    def width(share: float) -> float:
        return (right - left) * share / most

    parts: list[str] = []
    for place, (label, first, second) in enumerate(zip(labels, real, synthetic, strict=True)):
        y = top + step * place
        parts.append(_text(name_width, y + 16, _short(label, 16), "label", anchor="end"))
        parts.append(_tag("rect", x=left, y=y + 2, width=width(first), height=10, rx=2, class_="real"))
        parts.append(_tag("rect", x=left, y=y + 13, width=width(second), height=10, rx=2, class_="synthetic"))
        parts.append(_text(left + width(first) + 4, y + 11, f"{first:.1%}", "tiny"))
        parts.append(_text(left + width(second) + 4, y + 22, f"{second:.1%}", "tiny"))
    words = f"Shares of {len(labels)} categories. " + "; ".join(
        f"{label}: real {a:.1%}, synthetic {b:.1%}"
        for label, a, b in zip(labels, real, synthetic, strict=True)
    )
    return _svg(title, words, top + step * len(labels) + 4, parts)


def histogram(title: str, labels: Sequence[str], real: Sequence[float], synthetic: Sequence[float]) -> Markup:
    """Bins in order: real as filled columns, synthetic as a line over them."""
    most = max([*real, *synthetic, 1e-9])
    left, right, top, bottom = 38, WIDTH - 10, 10, 132
    each = (right - left) / max(1, len(labels))

    def y(share: float) -> float:
        return bottom - (bottom - top) * share / most

    parts = [_line(left, y(tick), right, y(tick), "grid") for tick in (0, most / 2, most)]
    parts += [
        _text(left - 5, y(tick) + 4, f"{tick:.0%}", "tiny", anchor="end") for tick in (0, most / 2, most)
    ]
    for place, share in enumerate(real):
        x = left + each * place
        parts.append(
            _tag(
                "rect",
                x=x + 0.5,
                y=y(share),
                width=max(0.5, each - 1),
                height=bottom - y(share),
                class_="real",
            )
        )
    outline = [
        (left + each * (place + side), y(share)) for place, share in enumerate(synthetic) for side in (0, 1)
    ]
    parts.append(_polyline(outline, "synthetic-line"))
    parts.append(_text(left, bottom + 16, _short(labels[0], 24), "tiny"))
    parts.append(_text(right, bottom + 16, _short(labels[-1], 24), "tiny", anchor="end"))
    words = f"Distribution over {len(labels)} bins, real as columns and synthetic as a line."
    return _svg(title, words, bottom + 24, parts)


def heatmap(
    title: str, columns: Sequence[str], matrix: Sequence[Sequence[float]], *, description: str
) -> Markup:
    """A square of cells from -1 to 1, coloured by sign and strength; names at the side for up to 14 columns."""
    named = len(columns) <= 14
    left, top = (104 if named else 8), 6
    cell = (WIDTH - 8 - left) / max(1, len(columns))
    parts: list[str] = []
    for i, row in enumerate(matrix):
        if named:
            parts.append(
                _text(left - 6, top + cell * (i + 0.5) + 4, _short(columns[i], 16), "tiny", anchor="end")
            )
        for j, value in enumerate(row):
            tip = _tag("title", escape(f"{columns[i]} and {columns[j]}: {value:.2f}"))
            parts.append(
                _tag(
                    "rect",
                    tip,
                    x=left + cell * j,
                    y=top + cell * i,
                    width=cell - 0.6,
                    height=cell - 0.6,
                    class_="positive" if value >= 0 else "negative",
                    fill_opacity=f"{min(1.0, abs(value)):.3f}",
                )
            )
    return _svg(title, description, top + cell * len(columns) + 6, parts)


def curve(
    title: str,
    series: Sequence[Series],
    *,
    x_name: str,
    y_name: str,
    description: str,
    levels: Sequence[tuple[str, float]] = (),
    logarithmic: bool = False,
) -> Markup:
    """Lines over a numeric axis, with bands for intervals and dashed levels (ceiling, floor, chance)."""
    left, right, top, bottom = 40, WIDTH - 12, 28, 190
    xs = [_scaled(x, logarithmic) for one in series for x, _ in one.points]
    x_start, x_stop = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1
    y_start, y_stop = _limits(
        [y for one in series for _, y in one.points]
        + [y for one in series for pair in one.intervals for y in pair]
        + [level for _, level in levels]
    )

    def place(x: float, y: float) -> tuple[float, float]:
        across = (_scaled(x, logarithmic) - x_start) / (x_stop - x_start)
        return left + (right - left) * across, bottom - (bottom - top) * (y - y_start) / (y_stop - y_start)

    parts: list[str] = []
    for tick in _ticks(y_start, y_stop):
        height = place(series[0].points[0][0], tick)[1]
        parts += [
            _line(left, height, right, height, "grid"),
            _text(left - 6, height + 4, f"{tick:g}", "tiny", anchor="end"),
        ]
    for tick in _marks([x for one in series for x, _ in one.points], logarithmic):
        parts.append(_text(place(tick, y_start)[0], bottom + 15, f"{tick:g}", "tiny", anchor="middle"))
    for name, level in levels:
        height = place(series[0].points[0][0], level)[1]
        parts += [
            _line(left, height, right, height, f"level {name}"),
            _text(right, height - 4, name, "tiny", anchor="end"),
        ]
    for one in series:
        parts += _one_curve(one, place)
    parts.append(_text((left + right) / 2, bottom + 32, x_name, "axis-name", anchor="middle"))
    parts.append(_text(4, 14, y_name, "axis-name"))
    return _svg(title, description, bottom + 40, parts)


def meter(row: Range) -> Markup:
    """A line of 120 units for a table cell: where the value lies between floor (left) and ceiling (right)."""
    if row.floor is None or row.ceiling is None or math.isclose(row.floor, row.ceiling, abs_tol=1e-12):
        return Markup("")
    share = min(1.06, max(-0.06, (row.value - row.floor) / (row.ceiling - row.floor)))
    x = 10 + 100 * share
    parts = [
        _line(10, 9, 110, 9, "track"),
        _line(10, 9, max(10.0, min(110.0, x)), 9, "filled"),
        _line(10, 3, 10, 15, "floor"),
        _line(110, 3, 110, 15, "ceiling"),
        _tag("circle", cx=x, cy=9, r=4.5, class_="dot"),
    ]
    words = f"{row.label}: {share:.0%} of the way from floor to ceiling"
    return _svg(words, "", 18, parts, width=120, kind="meter")


def _one_curve(one: Series, place: object) -> list[str]:
    assert callable(place)
    parts = []
    if one.intervals:
        upper = [place(x, high) for (x, _), (_, high) in zip(one.points, one.intervals, strict=True)]
        lower = [place(x, low) for (x, _), (low, _) in zip(one.points, one.intervals, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
        parts.append(_tag("polygon", points=path, class_=f"band s{one.style}"))
    spots = [place(x, y) for x, y in one.points]
    parts.append(_polyline(spots, f"line s{one.style}"))
    if len(spots) <= 12:
        parts += [_tag("circle", cx=x, cy=y, r=3.5, class_=f"mark s{one.style}") for x, y in spots]
    return parts


def _svg(
    title: str,
    description: str,
    height: float,
    parts: Iterable[str],
    *,
    width: int = WIDTH,
    kind: str = "chart",
) -> Markup:
    number = next(_ids)
    heading = _tag("title", escape(title), id=f"t{number}")
    words = _tag("desc", escape(description), id=f"d{number}") if description else ""
    labelled = f"t{number} d{number}" if description else f"t{number}"
    body = heading + words + "".join(parts)
    return Markup(  # noqa: S704 - every text went through escape() or quoteattr()
        _tag(
            "svg",
            body,
            viewBox=f"0 0 {width} {height:.0f}",
            class_=kind,
            role="img",
            aria_labelledby=labelled,
        )
    )


def _tag(name: str, content: str = "", /, **attributes: object) -> str:
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(f'{value:.2f}' if isinstance(value, float) else str(value))}"
        for key, value in attributes.items()
    )
    return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"


def _text(x: float, y: float, content: str, kind: str, *, anchor: str = "start") -> str:
    return _tag("text", escape(content) or " ", x=float(x), y=float(y), class_=kind, text_anchor=anchor)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return _tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=kind)


def _polyline(points: Sequence[tuple[float, float]], kind: str) -> str:
    return _tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=kind)


def _axis(x: object, ticks: Sequence[float], top: float, bottom: float) -> str:
    assert callable(x)
    parts = [_line(x(tick), top, x(tick), bottom, "grid") for tick in ticks]
    parts += [_text(x(tick), bottom + 15, f"{tick:g}", "tiny", anchor="middle") for tick in ticks]
    return "".join(parts)


def _limits(values: Iterable[float]) -> tuple[float, float]:
    """Round ends that hold all values; from 0 to 1 when they fit there and spread over half of it."""
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if low >= 0 and high <= 1 and high - low > 0.35:
        return 0.0, 1.0
    span = (high - low) or abs(high)
    step = _step(span if span > 1e-290 else 1.0)  # below that, quarters of the span are not numbers any more
    return math.floor(low / step) * step, math.ceil(high / step + 1e-9) * step


def _step(span: float) -> float:
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(power * unit for unit in (1, 2, 5, 10) if span / (power * unit) <= 5)


def _ticks(start: float, stop: float) -> list[float]:
    step = _step(stop - start)
    count = round((stop - start) / step)
    return [round(start + step * k, 12) for k in range(count + 1)]


def _marks(xs: Sequence[float], logarithmic: bool) -> list[float]:
    """Where the horizontal axis is labelled: powers of ten, or the points themselves if they are few."""
    if logarithmic and max(xs) / min(xs) >= 100:
        powers = range(math.ceil(math.log10(min(xs)) - 1e-9), math.floor(math.log10(max(xs)) + 1e-9) + 1)
        return [10.0**power for power in powers]
    points = sorted(set(xs))
    return points[:: -(-len(points) // 7)]


def _scaled(x: float, logarithmic: bool) -> float:
    return math.log10(x) if logarithmic else x


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
