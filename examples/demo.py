"""The whole flow on data that comes inside scikit-learn: images, by us and by a paper's GAN, and a table.

Run it with `make demo`, or `python examples/demo.py --out demo`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import understudy
from understudy.auditing.attachment import attach
from understudy.auditing.configuration import audit
from understudy.data import known
from understudy.evaluation import Group
from understudy.release.sampling import sample_chunks
from understudy.release.write import write_records
from understudy.reporting import report
from understudy.run.progress import fit_with_bar, progress_bar
from understudy.run.threads import choose_threads

out = Console()

RUNS: dict[str, dict[str, Any]] = {
    "digits": {"epsilon": 5.0, "steps": 300, "file": "samples.png", "counts": 10},
    "digits-by-a-gan": {
        "data": "digits",
        "recipe": "dp-cgan",
        "epsilon": 5.0,
        "steps": 600,
        "batch": 120,
        "file": "samples.png",
        "counts": 10,
    },
    "breast-cancer": {"epsilon": 4.0, "delta": 1e-4, "file": "samples.csv"},
}


def main() -> None:
    """Plan, train, release, sample and evaluate each demonstration set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    folder: Path = parser.parse_args().out
    shutil.rmtree(folder, ignore_errors=True)
    for name, settings in RUNS.items():
        run(name, settings, folder / name)
    out.print(
        f"\nLook into {folder}/: a report.html, samples, and a release that could be handed on, for each set."
    )


def run(name: str, settings: dict[str, Any], folder: Path) -> None:
    """One data set from plan to evaluation."""
    dataset = known(settings.get("data", name))
    out.rule(f"[bold]{name}[/]: {len(dataset.train)} records play the private data")
    plan = understudy.plan(
        dataset.schema,
        epsilon=settings["epsilon"],
        delta=settings.get("delta", 1e-5),
        rows=len(dataset.train),
        recipe=settings.get("recipe"),
        batch=settings.get("batch"),
        steps=settings.get("steps"),
    )
    out.print(str(plan), highlight=False)
    choose_threads(plan, None)
    with progress_bar() as bar:
        release = fit_with_bar(bar, dataset.train, plan)
    release.save(folder / "release")
    counts = None
    if "counts" in settings:
        counts = dict.fromkeys(dataset.schema.label_classes or (), settings["counts"])
    write_records(sample_chunks(release, 200, counts=counts, seed=1), folder / settings["file"])
    evaluation = understudy.evaluate(release, dataset.test, reference=dataset.train, seeds=(0,))
    (folder / "evaluation.json").write_text(evaluation.to_json(), encoding="utf-8")
    found = audit(plan)
    attach(folder / "release", found)
    page = report(release, evaluation=evaluation, audit=found)
    (folder / "report.html").write_text(page, encoding="utf-8")
    out.print(summary(evaluation))
    out.print(
        f"audit: {found.verdict.outcome.value}; claimed ε = {found.claimed_epsilon:.3f}, "
        f"proved by attack: ε ≥ {found.lower_bound:.3f}\n"
    )


def summary(evaluation: understudy.Evaluation) -> Table:
    """The utility measures, each between what is trivial and what real data gives."""
    table = Table(title="trained on synthetic, tested on real")
    for heading in ("measure", "value", "interval", "real data", "trivial"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for measure in evaluation.of(Group.UTILITY):
        table.add_row(
            measure.name,
            f"{measure.value:.3f}",
            f"{measure.low:.3f} to {measure.high:.3f}",
            "" if measure.ceiling is None else f"{measure.ceiling:.3f}",
            "" if measure.floor is None else f"{measure.floor:.3f}",
        )
    return table


if __name__ == "__main__":
    main()
