"""How useful synthetic images are: train on synthetic, test on real, for every recipe and several budgets.

Run `python -m benchmarks.utility [--json FILE] [--seeds N] [--recipes A,B] [--only TEXT] [--ablation]`. Each cell is a
whole private training (fresh noise from the operating system), 60,000 images drawn from the release, and:

- the accuracy on real test images of a small CNN that saw synthetic images only,
- the inception score and the Fréchet distance, judged by a classifier trained on the real training images,
- the certified ε, and the CPU seconds of the training.

--data takes known sets, and folders of other images (`utility_data`). The recipe `understudy unlabelled` is told no
label.

The file given with --json holds finished cells, which are skipped when the command is run again; beside it stand judges
and releases. The recipes of the papers take `--critic-steps` private steps, to which their noise is calibrated so that
the budget is spent, and at most `--most-minutes`. The two lines of real data are the ceiling and the floor.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.utility_data import image_set
from benchmarks.utility_systems import (
    GANS,
    PAPERS,
    REAL,
    UNLABELLED,
    Cell,
    drawn_ablation,
    drawn_as,
    recipe_of,
    trained_ablation,
    trained_cell,
)
from understudy.errors import Interrupted
from understudy.evaluation import images
from understudy.evaluation.domain import DomainClassifier, domain_classifier
from understudy.evaluation.intervals import wilson
from understudy.evaluation.learners import Learner, prior_predictor, train
from understudy.evaluation.scores import accuracy
from understudy.evaluation.sources import labelled
from understudy.planning import plan
from understudy.records.encode import encode
from understudy.records.images import Images
from understudy.release.release import Release
from understudy.run.progress import fit_with_bar, progress_bar
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding.recipe import EmbeddingRecipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress as Bar

    from understudy.data.records import Dataset
    from understudy.evaluation.utility import Labelled
    from understudy.planning import Plan
    from understudy.records.encode import Encoded

    Line = dict[str, Any]

ROWS = 60_000
SPLITS = 10


class Judge:
    """The real rows of one data set, with the classifier that judges images of it."""

    def __init__(self, name: str, cache: Path) -> None:
        self.data: Dataset = image_set(name)
        schema = self.data.schema
        self.train: Labelled = labelled(encode(self.data.train, schema), schema)
        self.test: Labelled = labelled(encode(self.data.test, schema), schema)
        self._classifier: DomainClassifier = domain_classifier(self.train, cache=cache)
        self._features = self._classifier.features(self.test.features)

    def schema_for(self, system: str) -> ImageSchema:
        """What a system is told about the images."""
        schema = self.data.schema
        assert isinstance(schema, ImageSchema)
        return replace(schema, classes=None, label_weights=None) if system == UNLABELLED else schema

    def accuracy_of(self, drawn: Labelled, seed: int) -> Line:
        """How well a CNN that saw `drawn` only classifies real test images, with its interval over test rows."""
        predicted = train(Learner.CNN, drawn.features, drawn.labels, drawn.classes, seed)(self.test.features)
        found = accuracy(self.test.labels, predicted)
        interval = wilson(round(found * len(self.test)), len(self.test))
        return {"cnn": found, "cnn_low": interval.low, "cnn_high": interval.high}

    def fidelity_of(self, pixels: np.ndarray) -> Line:
        """Inception score (mean of ten parts) and Fréchet distance in the classifier's features."""
        parts = images.inception_scores(self._classifier.probabilities(pixels), SPLITS)
        distance = images.frechet_distance(self._features, self._classifier.features(pixels))
        return {"inception": float(parts.mean()), "frechet": distance}

    def agreement(self, drawn: Labelled) -> float:
        """The share of images whose label is the one that the real classifier gives them."""
        return accuracy(drawn.labels, self._classifier.probabilities(drawn.features))


class Bench:
    """Measures cells; keeps finished ones in a file.

    Args:
        path: where lines are kept.
        rows: synthetic images per cell.
        critic_steps: private steps of recipes with a critic, instead of the recipe's.
        most_minutes: cap on the wall time of one training.
        steps: generator steps of recipes without a critic, instead of the recipe's.
    """

    def __init__(
        self, path: Path, rows: int, critic_steps: int, most_minutes: float, steps: int | None
    ) -> None:
        self._path = path
        self._rows = rows
        self._critic_steps = critic_steps
        self._most_minutes = most_minutes
        self._steps = steps
        self._judges: dict[str, Judge] = {}
        self.lines: list[Line] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def has(self, cell: Cell) -> bool:
        """Whether the cell was measured already."""
        return any(line["cell"] == asdict(cell) for line in self.lines)

    def measure(self, cell: Cell, bar: Bar) -> None:
        """Measure one cell and write the file anew."""
        if cell.data not in self._judges:
            self._judges = {cell.data: Judge(cell.data, self._path.parent / "judges")}
        judge = self._judges[cell.data]
        found = _real_line(judge, cell.run) if cell.system == REAL else self._recipe_line(cell, judge, bar)
        self.lines.append({"cell": asdict(cell), **found})
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(self._path)

    def _recipe_line(self, cell: Cell, judge: Judge, bar: Bar) -> Line:
        trained = trained_cell(cell)
        recipe = recipe_of(trained.system)
        schema, count = judge.schema_for(cell.system), len(judge.data.train)
        steps = self._steps if isinstance(recipe, EmbeddingRecipe) else self._critic_steps
        made = plan(schema, epsilon=cell.epsilon, rows=count, recipe=recipe, steps=steps)
        assert made.spent is not None
        line: Line = {
            "epsilon": made.spent.epsilon,
            "delta": made.spent.delta,
            "steps": made.steps,
            "most_minutes": self._most_minutes,
            "rows": self._rows,
        }
        try:
            release, seconds = self._release(trained, made, judge, bar)
        except Interrupted as notice:
            return {**line, "note": f"ran out of time: {notice}"}
        line |= {"steps": release.card.plan.steps, "fit_cpu_seconds": seconds}
        shown = drawn_as(release, cell.system)
        return {
            **line,
            **_drawn_line(judge, encode(shown.sample(self._rows, seed=cell.run), shown.schema), cell),
        }

    def _release(self, cell: Cell, made: Plan, judge: Judge, bar: Bar) -> tuple[Release, float]:
        """Train within the time allowed, or take up what was trained already; with the CPU seconds it took."""
        folder = self._path.parent / "releases" / re.sub(r"[^\w.-]+", "-", str(cell))
        seconds = folder.with_name(f"{folder.name}.seconds")
        if not folder.exists():
            late, cpu = time.monotonic() + 60 * self._most_minutes, time.process_time()
            images = judge.data.train.images
            records = Images(images.pixels) if cell.system == UNLABELLED else images
            release = fit_with_bar(bar, records, made, stop=lambda: time.monotonic() > late)
            folder.parent.mkdir(parents=True, exist_ok=True)
            seconds.write_text(f"{time.process_time() - cpu:.1f}\n")
            release.save(folder)
        return Release.load(folder), float(seconds.read_text())


def _drawn_line(judge: Judge, drawn: Encoded, cell: Cell) -> Line:
    """The measures of synthetic images; those of an unconditional recipe have no labels to learn from."""
    line = judge.fidelity_of(drawn.x)
    if drawn.labels is None:
        return {**line, "note": "makes no labels"}
    rows = labelled(drawn, judge.data.schema)
    return {**line, **judge.accuracy_of(rows, cell.run), "agreement": judge.agreement(rows)}


def _real_line(judge: Judge, run: int) -> Line:
    """Ceiling: learn from real training images, which also have the best distance; inception score of test images.

    Floor: the class shares, and images of noise.
    """
    noise = np.random.default_rng(run).uniform(-1, 1, (10_000, *judge.test.features.shape[1:]))
    prior = prior_predictor(judge.test.labels, judge.test.classes)(judge.test.features)
    floor = {"cnn": accuracy(judge.test.labels, prior), **judge.fidelity_of(noise.astype(np.float32))}
    ceiling = {
        **judge.accuracy_of(judge.train, run),
        "inception": judge.fidelity_of(judge.test.features)["inception"],
        "frechet": judge.fidelity_of(judge.train.features)["frechet"],
    }
    return {**ceiling, "rows": len(judge.train), "floor": floor}


# --- the table ----------------------------------------------------------------------------------------------

COLUMNS = (
    ("cnn", "CNN accuracy, %", 100.0),
    ("inception", "inception score", 1.0),
    ("frechet", "Fréchet distance", 1.0),
    ("epsilon", "certified ε", 1.0),
    ("fit_cpu_seconds", "CPU seconds", 1.0),
)


def table(lines: Sequence[Line]) -> str:
    """Means over runs as Markdown, with the standard deviation where there is more than one run."""
    heads = ["data", "ε", "system", "runs", *(title for _, title, _ in COLUMNS), "training"]
    made = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        cell = line["cell"]
        groups.setdefault((cell["data"], cell["epsilon"], cell["system"]), []).append(line)
    for (data, epsilon, system), group in groups.items():
        budget = "" if epsilon is None else f"{epsilon:g}"
        made.append(_text([data, budget, system, str(len(group))], group, _limits(group[0])))
        floors = [line["floor"] for line in group if "floor" in line]
        if floors:
            made.append(_text([data, "", "floor", str(len(floors))], floors, ""))
    return "\n".join(made)


def _text(start: list[str], group: Sequence[Line], end: str) -> str:
    cells = [_mean([factor * line[key] for line in group if key in line]) for key, _, factor in COLUMNS]
    return "| " + " | ".join([*start, *cells, end]) + " |"


def _mean(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4g}{spread}"


def _limits(line: Line) -> str:
    """The steps that this line was trained for, and what is missing in it."""
    told = [f"{line['steps']:,} steps"] if "steps" in line else []
    return "; ".join([*told, *([line["note"]] if "note" in line else [])])


# --- the command --------------------------------------------------------------------------------------------


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for, the most wanted first: every cell once before any a second time."""
    data, systems, budgets = options.data.split(","), options.recipes.split(","), [10.0, 1.0]
    if options.ablation:
        data, systems, budgets = data[:1], ["understudy", *drawn_ablation(), *trained_ablation()], [1.0]
    if options.epsilon is not None:
        budgets = [options.epsilon]
    wanted = [
        Cell(name, epsilon, system, run)
        for run in range(options.seeds)
        for name, system, epsilon in itertools.product(data, systems, budgets)
    ]
    if not options.ablation:
        wanted = [Cell(name, None, REAL, 0) for name in data] + wanted
    return [cell for cell in wanted if options.only in str(cell)]


def main() -> None:
    """Measure what is missing, print the table."""
    options = _parser().parse_args()
    torch.set_num_threads(1)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.json, options.rows, options.critic_steps, options.most_minutes, options.steps)
    missing = [cell for cell in cells_of(options) if not bench.has(cell)]
    with progress_bar() as bar:
        task = bar.add_task("cells", total=len(missing), note="")
        for cell in missing:
            bar.update(task, note=str(cell))
            bench.measure(cell, bar)
            bar.advance(task)
    print(table(bench.lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path("bench-utility") / "cells.json"
    parser.add_argument("--json", type=Path, default=default, help="finished cells; read and written")
    parser.add_argument("--seeds", type=int, default=3, help="runs of every cell")
    parser.add_argument(
        "--data",
        default="mnist,fashion-mnist",
        help="known sets of labelled images, or folders with train and test",
    )
    parser.add_argument("--epsilon", type=float, help="one budget, instead of 10 and 1 (1 for the ablation)")
    parser.add_argument(
        "--recipes", default=",".join(("understudy", *GANS, *PAPERS)), help="names with commas"
    )
    parser.add_argument("--only", default="", help="cells whose name has this in it, such as 'mnist, ε 1'")
    parser.add_argument("--ablation", action="store_true", help="take out each idea once: first set, ε 1")
    parser.add_argument("--rows", type=int, default=ROWS, help="synthetic images per cell")
    parser.add_argument("--steps", type=int, help="generator steps of our recipes, instead of their own")
    parser.add_argument("--critic-steps", type=int, default=3000, help="private steps of the papers' recipes")
    parser.add_argument("--most-minutes", type=float, default=60.0, help="cap on the time of one training")
    return parser


if __name__ == "__main__":
    main()
