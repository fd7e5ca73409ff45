"""How much of a paper's effort a study spends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Scale"]

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much of a paper's effort is spent.

    Args:
        name: "quick", "full", or that of a test.
        images: the image data set.
        unlabelled: the stand-ins for unlabelled image sets.
        table: the labelled table.
        codes: the stand-in for medical codes, as which occur; None for none.
        code_counts: the same as how often each occurs.
        rows: training rows, None for all.
        dense_steps: critic steps of dense systems, None for as many as the budget allows.
        wide_steps: critic steps of ppgan, whose networks are ten times as wide, the same.
        table_steps: critic steps on the table, the same.
        conv_steps: critic steps of dp-gan after its steps on public images, None for as many as the budget allows.
        strategy_updates: generator updates of convolutional systems in comparisons, the same for all of them.
        long_steps: critic steps of the convolutional systems that carry a paper's main number, None for the recipe's.
        curve_updates: generator updates of each curve of small-images, the same for all of them.
        printed_steps: critic steps of what runs with a paper's own settings, None for as many as are printed.
        warm_steps: steps on public images before the private ones.
        drawn: synthetic rows that are scored.
        classified: synthetic rows that classifiers are trained on.
        judge_rows: rows for the inception score's classifier, None for all.
        points: how many values of a sweep are run, None for all.
        task_steps: steps of the semi-supervised task.
        capacities: of the networks that small-images compares.
        public: images that dp-gan declares public, 2 % of the paper's.
        comparisons: whether lines beside the main ones are run, too.
        printed: whether the papers' own settings are run instead of ours.
    """

    name: str
    images: str = "mnist"
    unlabelled: tuple[str, ...] = ("fashion-mnist", "usps")
    table: str = "thyroid"
    codes: str | None = "diabetes130"
    code_counts: str | None = "diabetes130-counts"
    rows: int | None = None
    dense_steps: int | None = None
    wide_steps: int | None = None
    table_steps: int | None = 5_850
    conv_steps: int | None = None
    strategy_updates: int = 500
    long_steps: int | None = None
    curve_updates: int = 500
    printed_steps: int | None = None
    warm_steps: int = 1_200
    drawn: int = 60_000
    classified: int = 10_000
    judge_rows: int | None = None
    points: int | None = None
    task_steps: int = 600
    capacities: tuple[int, ...] = (16, 32, 64)
    public: int = 1_200
    comparisons: bool = True
    printed: bool = False

    def some(self, values: tuple[T, ...]) -> tuple[T, ...]:
        """The values of a sweep that this scale runs: the first, the last, and some between."""
        if self.points is None or self.points >= len(values):
            return values
        chosen = {round(index * (len(values) - 1) / max(1, self.points - 1)) for index in range(self.points)}
        return tuple(value for place, value in enumerate(values) if place in chosen)
