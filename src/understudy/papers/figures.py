"""Figures of a study as SVG and PNG: sample grids, scores against the certified ε, losses without privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.files import replacing
from understudy.papers.runner import PER_CLASS
from understudy.papers.study import CurvesFigure, GridFigure, LossFigure
from understudy.papers.tables import over_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from understudy.papers.outcomes import Outcome
    from understudy.papers.study import Study

__all__ = ["write_figures"]


def write_figures(study: Study, outcomes: Sequence[Outcome], out: Path) -> tuple[tuple[str, Path], ...]:
    """Draw every figure whose runs are there; returns titles and PNG files in the study's order."""
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    first = {outcome.job: outcome for outcome in reversed(outcomes)}
    for figure in study.figures:
        match figure:
            case CurvesFigure():
                if not all(curve.job in first for curve in (*figure.curves, *figure.levels)):
                    continue
                drawn = _curves(figure, outcomes)
            case GridFigure() | LossFigure() if figure.job not in first:
                continue
            case GridFigure():
                title = f"{figure.title}, {_reached(first[figure.job])}"
                drawn = _grid(title, out / "runs" / f"{figure.job}-0.npz")
            case LossFigure():
                drawn = _losses(figure, first[figure.job])
        for suffix in ("svg", "png"):
            with replacing(folder / f"{figure.name}.{suffix}") as work:
                drawn.savefig(work, format=suffix, dpi=110, metadata=_STILL[suffix])
        written.append((figure.title, folder / f"{figure.name}.png"))
    return tuple(written)


def _reached(outcome: Outcome) -> str:
    """What a caption must say of a run."""
    if not outcome.steps:
        return "real rows"
    epsilon = "no ε" if outcome.epsilon is None else f"ε = {outcome.epsilon:.2f}"
    return f"{epsilon}, {outcome.updates:,} updates"


_STILL: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {}}
"""No time of drawing in the file, so that the same results give the same figure."""


def _figure(width: float, height: float) -> Any:
    """A figure without pyplot, which would keep global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _grid(title: str, path: Path) -> Any:
    with np.load(path, allow_pickle=False) as kept:
        pixels = kept["pixels"]
    columns = math.ceil(len(pixels) / PER_CLASS)
    height, width, channels = pixels.shape[1:]
    canvas = np.zeros((PER_CLASS * height, columns * width, channels), dtype=np.uint8)
    for place, image in enumerate(pixels):
        column, row = divmod(place, PER_CLASS)
        canvas[row * height : (row + 1) * height, column * width : (column + 1) * width] = image
    drawn = _figure(0.5 * columns + 0.2, 0.5 * PER_CLASS + 0.5)
    axes = drawn.subplots()
    axes.imshow(canvas.squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    return drawn


def _curves(figure: CurvesFigure, outcomes: Sequence[Outcome]) -> Any:
    drawn = _figure(6.0, 4.0)
    axes = drawn.subplots()
    for curve in figure.curves:
        runs = [outcome for outcome in outcomes if outcome.job == curve.job]
        points = [
            (
                places[0].epsilon,
                over_seeds([place.values[figure.score.name] for place in places], figure.score.limits),
            )
            for places in zip(*((*run.points, run) for run in runs), strict=True)
        ]
        axes.errorbar(
            [epsilon for epsilon, _ in points],
            [value.value for _, value in points],
            yerr=[_half(value.low, value.high) for _, value in points],
            marker="o",
            capsize=3,
            label=f"{curve.label}, {runs[0].updates:,} updates",
        )
    for place, level in enumerate(figure.levels):
        runs = [outcome for outcome in outcomes if outcome.job == level.job]
        value = over_seeds([run.values[figure.score.name] for run in runs], figure.score.limits).value
        axes.axhline(
            value, linestyle=("--", ":")[place % 2], color="grey", label=f"{level.label}, {_reached(runs[0])}"
        )
    axes.set_xlabel("certified ε")
    axes.set_ylabel(figure.score.name)
    axes.set_title(figure.title, fontsize=9)
    axes.legend(fontsize=8)
    return drawn


def _losses(figure: LossFigure, outcome: Outcome) -> Any:
    points = outcome.losses
    drawn = _figure(6.0, 4.0)
    axes = drawn.subplots()
    steps = [point.step for point in points]
    axes.plot(steps, [point.critic for point in points], label="critic")
    axes.plot(steps, [point.generator for point in points], label="generator")
    axes.set_xlabel("critic step")
    axes.set_ylabel("loss")
    axes.set_title(f"{figure.title}, {_reached(outcome)}", fontsize=9)
    axes.legend(fontsize=8)
    return drawn


def _half(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else (high - low) / 2
