"""Privacy-utility curves as one page: utility over ε with intervals, ceiling and floor."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from understudy._version import __version__
from understudy.reporting import svg
from understudy.tuning.curves import curve_points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from understudy.tuning.curves import CurvePoint, Limits, Outcome, Reached

__all__ = ["curves_page"]

COLOURS = ("blue", "orange", "violet", "green")
STYLES = (0, 2, 4, 3)


def curves_page(
    title: str, outcomes: Sequence[Outcome], limits: Limits, together: float, choices: Mapping[float, float]
) -> str:
    """The curves of a sweep as a self-contained, internal HTML page.

    Args:
        title: of the page.
        outcomes: every run.
        limits: ceilings and floors.
        together: the ε of all these runs.
        choices: for each ε of a run, the ε of a new choice with --select among as many runs on average.
    """
    folder = files("understudy.reporting")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(folder.joinpath("curves.html.jinja").read_text("utf-8"))
    return template.render(
        title=title,
        style=Markup(folder.joinpath("style.css").read_text("utf-8")),  # noqa: S704 - our own file
        version=__version__,
        figures=[_figure(one, outcomes) for one in limits.ceilings],
        names=[one.name for one in limits.ceilings],
        outcomes=sorted(
            outcomes, key=lambda one: (one.setting.epsilon, one.setting.label, one.setting.repeat)
        ),
        together=together,
        choices=sorted(choices.items()),
    )


def _figure(real: Reached, outcomes: Sequence[Outcome]) -> tuple[str, Markup, str]:
    curves = curve_points(outcomes, real.name)
    series = [
        svg.Series(label, tuple((p.epsilon, p.value) for p in points), _band(points), STYLES[k % len(STYLES)])
        for k, (label, points) in enumerate(curves.items())
    ]
    levels = (("ceiling", real.value), ("floor", real.floor))
    words = "; ".join(
        f"{one.name}: " + ", ".join(f"{y:.3f} at ε = {x:g}" for x, y in one.points) for one in series
    )
    chart = svg.curve(
        f"{real.name} over ε",
        series,
        x_name="ε of one run",
        y_name=real.name,
        description=words,
        levels=levels,
        logarithmic=True,
    )
    key = "; ".join(f"{label} ({COLOURS[k % len(COLOURS)]})" for k, label in enumerate(curves))
    return real.name, chart, f"Mean over repeats with 95 % interval. {key}."


def _band(points: Sequence[CurvePoint]) -> tuple[tuple[float, float], ...]:
    if any(math.isnan(point.low) for point in points):
        return ()
    return tuple((point.low, point.high) for point in points)
