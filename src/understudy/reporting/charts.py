"""From the facts of a report to its charts and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from understudy.evaluation.result import Group
from understudy.records.images import Images
from understudy.reporting import svg
from understudy.reporting.pictures import Picture, contact_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from understudy.evaluation.result import Evaluation, Marginal, Measure, Pictures
    from understudy.privacy.attacks import AttackPoint
    from understudy.reporting.content import Content

__all__ = [
    "Figure",
    "attack_chart",
    "attack_figure",
    "correlation_figures",
    "example_picture",
    "marginal_figures",
    "neighbours",
]
__all__ += ["utility_figures"]

MOST_CATEGORIES = 15
MOST_MARGINALS = 24


@dataclass(frozen=True)
class Figure:
    """A chart with its heading and a remark below it."""

    heading: str
    chart: Markup
    remark: str = ""


def attack_figure(content: Content) -> Figure | None:
    """The most an attacker can reach, over false alarms."""
    if not content.attack:
        return None
    remark = "Upper line: bound for any attacker. Lower line: guessing."
    return Figure("Attacker's power", attack_chart(content.attack), remark)


def attack_chart(bounds: Sequence[AttackPoint]) -> Markup:
    """The chart of these bounds, which hold 1 % false alarms among them."""
    points = tuple((point.false_positive_rate, point.true_positive_rate) for point in bounds)
    chance = tuple((rate, rate) for rate, _ in points)
    at_one = next(power for rate, power in points if rate == 0.01)
    return svg.curve(
        "The most any membership attack can reach",
        (svg.Series("bound", points), svg.Series("guessing", chance, style=1)),
        x_name="false alarms (share of outsiders accused)",
        y_name="members recognised",
        description=f"Upper bound on true positives; {at_one:.1%} at 1 % false alarms. Guessing is the lower line.",
        logarithmic=True,
    )


def utility_figures(evaluation: Evaluation) -> tuple[Figure, ...]:
    """One chart per score, one row per classifier."""
    scores: dict[str, list[Measure]] = {}
    for measure in evaluation.of(Group.UTILITY):
        scores.setdefault(measure.name.rpartition(": ")[2], []).append(measure)
    return tuple(_score_figure(score, measures) for score, measures in scores.items())


def marginal_figures(evaluation: Evaluation) -> tuple[Figure, ...]:
    """Real beside synthetic distributions, one chart per column."""
    return tuple(
        Figure(marginal.column, _marginal(marginal)) for marginal in evaluation.marginals[:MOST_MARGINALS]
    )


def correlation_figures(evaluation: Evaluation) -> tuple[Figure, ...]:
    """Correlations of real rows, of synthetic rows, and their difference."""
    found = evaluation.correlations
    if found is None:
        return ()
    real, drawn = np.array(found.real), np.array(found.synthetic)
    worst = float(np.abs(real - drawn).max())
    return tuple(
        Figure(
            heading,
            svg.heatmap(
                f"Correlations: {heading}",
                found.columns,
                matrix.tolist(),
                description=f"{words} Cells from -1 to 1.",
            ),
            words,
        )
        for heading, matrix, words in (
            ("real", real, f"{len(found.columns)} numeric columns of real test rows."),
            ("synthetic", drawn, "The same columns of synthetic rows."),
            ("synthetic − real", drawn - real, f"Largest difference {worst:.2f}."),
        )
    )


def example_picture(content: Content) -> Picture | None:
    """A contact sheet of synthetic images, one row per class."""
    if not isinstance(content.examples, Images):
        return None
    rows = "" if content.schema.label_classes is None else ", one class per row"
    words = f"{len(content.examples)} synthetic images in rows of ten{rows}"
    return contact_sheet(content.examples.pixels, 10, words)


def neighbours(found: Pictures | None) -> Picture | None:
    """Synthetic images in the upper row, the nearest real image of each below it; internal."""
    if found is None or not found.nearest:
        return None
    shape = (-1, found.height, found.width, found.channels)
    both = np.array([*found.synthetic, *found.nearest], dtype=np.uint8).reshape(shape)
    words = f"{len(found.synthetic)} synthetic images (top) above the nearest real image of each (bottom)"
    return contact_sheet(both, len(found.synthetic), words)


def _score_figure(score: str, measures: list[Measure]) -> Figure:
    rows = [svg.Range(_learner(m.name), m.value, m.low, m.high, m.ceiling, m.floor) for m in measures]
    words = f"{score}: " + "; ".join(f"{row.label} {row.value:.3f}" for row in rows)
    return Figure(score, svg.ranges(score, rows, description=words), measures[0].explanation)


def _learner(name: str) -> str:
    learner, separator, _ = name.rpartition(": ")
    return learner if separator else name


def _marginal(marginal: Marginal) -> Markup:
    title = f"{marginal.column}: real and synthetic"
    if marginal.ordered:
        return svg.histogram(title, marginal.labels, marginal.real, marginal.synthetic)
    order = sorted(range(len(marginal.labels)), key=lambda k: -marginal.real[k])
    kept, rest = order[:MOST_CATEGORIES], order[MOST_CATEGORIES:]
    labels = [marginal.labels[k] for k in kept]
    real, drawn = ([side[k] for k in kept] for side in (marginal.real, marginal.synthetic))
    if rest and sum(marginal.real) <= 1 + 1e-9:
        labels.append(f"{len(rest)} others")
        real.append(sum(marginal.real[k] for k in rest))
        drawn.append(sum(marginal.synthetic[k] for k in rest))
    return svg.bars(title, labels, real, drawn)
