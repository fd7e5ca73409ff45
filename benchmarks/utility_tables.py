"""How useful synthetic tables are: train on synthetic, test on real; and how far their marginals are from real ones.

Run `python -m benchmarks.utility_tables [--json FILE] [--runs N] [--only TEXT] [--ablation]`. Each cell is a whole
private training with fresh noise from the operating system, as many rows drawn from the release as there are training
rows, and:

- macro one-vs-rest AuROC and accuracy on real test rows, of classifiers that saw synthetic rows only,
- the mean total variation of one- and two-way marginals against the test rows (numbers in twenty equal bins),
- the certified ε, and the CPU seconds of the training.

The file given with --json holds finished cells; they are skipped when the command is run again. `dp-cgan-tf2` takes
batches of 32 (as `dp-cgan-thyroid` does) and 1,000 private steps, to which its noise is calibrated. The lines of real
data are the ceiling.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.utility_systems import REAL, Cell
from understudy.cli.console import progress_bar
from understudy.cli.progress import fit_with_bar
from understudy.data import known
from understudy.encode import encode
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.scores import accuracy, macro_auroc
from understudy.evaluation.tables import one_way_error, two_way_error
from understudy.planning import plan
from understudy.recipes import RECIPES, Recipe
from understudy.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from rich.progress import Progress as Bar

    from understudy.data.records import Dataset

    Line = dict[str, Any]

BASELINE = "dp-cgan-tf2"
GRID = (("thyroid", 3.7), ("breast-cancer", 3.7), ("adult", 1.0), ("adult", 3.7))
LEARNERS = (Learner.LOGISTIC_REGRESSION, Learner.GRADIENT_BOOSTING)


def systems() -> dict[str, Recipe]:
    """Our recipe, and what is left of it when marginals are taken out."""
    own = RECIPES["understudy"].tables
    assert own is not None
    assert own.marginals is not None
    part = own.marginals
    return {
        "understudy": own,
        "columns only": replace(own, marginals=replace(part, label_share=0.0, pair_share=0.0)),
        "columns, label pairs": replace(own, marginals=replace(part, pair_share=0.0)),
        "pairs not by class": replace(own, marginals=replace(part, by_class=False)),
        BASELINE: replace(RECIPES["dp-cgan-thyroid"], steps=1000, noise_multiplier=None),
    }


def cells_of(runs: int, *, ablation: bool) -> list[Cell]:
    """What is measured, what is cheap and what matters first."""
    cells = [Cell(data, epsilon, "understudy", run) for run in range(runs) for data, epsilon in GRID]
    cells += [Cell(data, 3.7, BASELINE, run) for run in range(runs) for data in ("thyroid", "breast-cancer")]
    cells += [Cell(data, None, REAL, 0) for data in ("thyroid", "breast-cancer", "adult")]
    if ablation:
        left_out = [name for name in systems() if name not in ("understudy", BASELINE)]
        cells += [
            Cell(*GRID[which], name, run) for run in range(runs) for which in (0, 2) for name in left_out
        ]
    return cells


def measure(cell: Cell, bar: Bar) -> Line:
    """One line of the table."""
    dataset = known(cell.data)
    assert isinstance(dataset.schema, TableSchema)
    line: Line = {"data": cell.data, "budget": cell.epsilon, "system": cell.system, "run": cell.run}
    frame = dataset.train.frame
    if cell.epsilon is not None:
        recipe = systems()[cell.system]
        made = plan(dataset.schema, epsilon=cell.epsilon, rows=len(dataset.train), recipe=recipe)
        start = time.process_time()
        release = fit_with_bar(bar, dataset.train, made)
        line["seconds"] = time.process_time() - start
        line["epsilon"] = made.spent.epsilon if made.spent is not None else None
        drawn = release.sample(len(dataset.train), seed=cell.run)
        frame = drawn  # type: ignore[assignment]
    return line | _scores(frame, dataset, dataset.schema, cell.run)


def _scores(frame: pd.DataFrame, dataset: Dataset, schema: TableSchema, seed: int) -> Line:
    rows, test = encode(frame, schema), encode(dataset.test, schema)
    assert rows.labels is not None
    assert test.labels is not None
    line: Line = {}
    for learner in LEARNERS:
        predict = train(learner, rows.x, rows.labels, len(schema.label_classes or ()), seed)
        probabilities = predict(test.x)
        line[f"{learner.value}, AuROC"] = macro_auroc(test.labels, probabilities)
        line[f"{learner.value}, accuracy"] = accuracy(test.labels, probabilities)
    layout = Layout.of(schema)
    real, made = layout.codes(dataset.test.frame), layout.codes(frame)
    line["one-way error"] = one_way_error(real, made, layout.sizes)
    line["two-way error"] = two_way_error(real, made, layout.sizes)
    return line


def table(lines: list[Line]) -> str:
    """Mean and spread over runs, as Markdown."""
    numbers = [f"{one.value}, {what}" for one in LEARNERS for what in ("AuROC", "accuracy")]
    numbers += ["one-way error", "two-way error", "seconds"]
    text = ["| data | ε | system | runs | " + " | ".join(numbers) + " |", "|---" * (4 + len(numbers)) + "|"]
    groups: dict[tuple[str, float | None, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["data"], line["budget"], line["system"]), []).append(line)
    for (data, budget, system), found in sorted(
        groups.items(), key=lambda item: (item[0][0], str(item[0][1]))
    ):
        values = [_mean([line[name] for line in found if name in line]) for name in numbers]
        text.append(f"| {data} | {budget or ''} | {system} | {len(found)} | " + " | ".join(values) + " |")
    return "\n".join(text)


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def main() -> None:
    """Measure what is missing, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path("bench-utility") / "tables.json"
    parser.add_argument("--json", type=Path, default=default, help="finished cells; read and written")
    parser.add_argument("--runs", type=int, default=3, help="runs of every cell")
    parser.add_argument("--only", default="", help="cells whose name has this in it, such as 'adult, ε 1'")
    parser.add_argument("--ablation", action="store_true", help="also take out marginals: thyroid and adult")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = json.loads(options.json.read_text()) if options.json.exists() else []
    done = {(line["data"], line["budget"], line["system"], line["run"]) for line in lines}
    cells = [cell for cell in cells_of(options.runs, ablation=options.ablation) if options.only in str(cell)]
    missing = [cell for cell in cells if (cell.data, cell.epsilon, cell.system, cell.run) not in done]
    with progress_bar() as bar:
        task = bar.add_task("cells", total=len(missing), note="")
        for cell in missing:
            bar.update(task, note=str(cell))
            lines.append(measure(cell, bar))
            options.json.write_text(json.dumps(lines, indent=1), encoding="utf-8")
            bar.advance(task)
    print(table(lines))


if __name__ == "__main__":
    main()
