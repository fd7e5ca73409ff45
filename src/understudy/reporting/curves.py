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

    from understudy.tuning.curves import CurvePoint, Limits, Outcome

__all__ = ["curves_page"]

SCORES = {"accuracy": "accuracy", "macro_auroc": "macro AuROC"}
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
        figures=[_figure(score, outcomes, limits) for score in SCORES],
        outcomes=sorted(
            outcomes, key=lambda one: (one.setting.epsilon, one.setting.label, one.setting.repeat)
        ),
        together=together,
        choices=sorted(choices.items()),
    )


def _figure(score: str, outcomes: Sequence[Outcome], limits: Limits) -> tuple[str, Markup, str]:
    curves = curve_points(outcomes, score)
    series = [
        svg.Series(label, tuple((p.epsilon, p.value) for p in points), _band(points), STYLES[k % len(STYLES)])
        for k, (label, points) in enumerate(curves.items())
    ]
    levels = (
        ("ceiling", float(getattr(limits, f"ceiling_{score}"))),
        ("floor", float(getattr(limits, f"floor_{score}"))),
    )
    words = "; ".join(
        f"{one.name}: " + ", ".join(f"{y:.3f} at ε = {x:g}" for x, y in one.points) for one in series
    )
    chart = svg.curve(
        f"{SCORES[score]} over ε",
        series,
        x_name="ε of one run",
        y_name=SCORES[score],
        description=words,
        levels=levels,
        logarithmic=True,
    )
    key = "; ".join(f"{label} ({COLOURS[k % len(COLOURS)]})" for k, label in enumerate(curves))
    return SCORES[score], chart, f"Mean over repeats with 95 % interval. {key}."


def _band(points: Sequence[CurvePoint]) -> tuple[tuple[float, float], ...]:
    if any(math.isnan(point.low) for point in points):
        return ()
    return tuple((point.low, point.high) for point in points)
