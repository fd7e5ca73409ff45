"""`understudy demo`: the whole flow on data that needs no download, by our recipes and by a paper's GAN."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from understudy.cli.console import err, out
from understudy.run.progress import fit_with_bar, progress_bar
from understudy.run.threads import choose_threads

if TYPE_CHECKING:
    import pandas as pd

    import understudy

__all__ = ["demo_command"]

_MARK = ".understudy-demo"
"""The file by which an earlier demo is known, so that nothing else is ever replaced."""

_RUNS: dict[str, dict[str, Any]] = {
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
    "registry": {"epsilon": 4.0, "file": "samples.csv"},
}


def demo_command(
    folder: Annotated[
        Path, typer.Option("--out", help="Where to; an earlier demo there is replaced.")
    ] = Path("demo"),
) -> None:
    """Plan, train privately, release, sample, evaluate, audit and report, in about two minutes.

    Digits by our recipe and by the GAN of a paper, a table of patients, and a made-up registry of codes; all data come
    with scikit-learn or are made up, so that nothing is downloaded and nobody's privacy is at stake.

    Example: `understudy demo --out demo`
    """
    if folder.exists() and not (folder / _MARK).exists():
        from understudy.errors import PlanError

        raise PlanError(f"{folder} exists and is no earlier demo: choose another --out.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).write_text("made by `understudy demo`\n", encoding="utf-8")
    for name, settings in _RUNS.items():
        _run(name, settings, folder)
    err.print(
        f"\nLook into {folder}/studio/: a report.html, samples, and a release that could be handed on, for each set. "
        f"In a browser, with the extra `understudy[studio]`:\n  understudy studio {folder}\n"
        f"  understudy serve {folder}/studio/breast-cancer/release"
    )


def _data(name: str) -> tuple[Any, Any, understudy.Schema]:
    """Training records, test records and schema."""
    if name == "registry":
        from understudy.schema import CodeSchema

        codes = CodeSchema(tuple(f"C{k:02}" for k in range(60)))
        whole = _registry(codes.codes, 3000)
        return whole.iloc[:2000], whole.iloc[2000:], codes
    from understudy.data import known

    dataset = known(name)
    return dataset.train, dataset.test, dataset.schema


def _registry(codes: tuple[str, ...], people: int) -> pd.DataFrame:
    """Made-up people with one of six illnesses, each of which has its own company of codes."""
    import numpy as np
    import pandas as pd

    chance = np.random.default_rng(0)
    company = chance.random((6, len(codes))) ** 6
    illness = chance.integers(6, size=people)
    return pd.DataFrame(
        (chance.random((people, len(codes))) < company[illness]).astype(int), columns=list(codes)
    )


def _run(name: str, settings: dict[str, Any], root: Path) -> None:
    """One data set from plan to report, kept as a journey of the studio."""
    import understudy
    from understudy.auditing.attachment import attach
    from understudy.release.sampling import sample_chunks
    from understudy.release.write import write_records
    from understudy.run.record import open_account
    from understudy.schema import save_schema
    from understudy.studio.work import register
    from understudy.studio.workspace import Source, Workspace

    train, test, schema = _data(settings.get("data", name))
    err.rule(f"{name}: {len(train)} records play the private data")
    plan = understudy.plan(
        schema,
        epsilon=settings["epsilon"],
        delta=settings.get("delta", 1e-5),
        rows=len(train),
        recipe=settings.get("recipe"),
        batch=settings.get("batch"),
        steps=settings.get("steps"),
    )
    out.print(str(plan))
    choose_threads(plan, None)
    workspace, data = Workspace(root), settings.get("data", name)
    if data == "registry":
        train.to_csv(root / "registry.csv", index=False)
    source = Source("registry.csv") if data == "registry" else Source(data, known=True)
    journey = workspace.create(name, source)
    numbers = {key: settings[key] for key in ("epsilon", "delta", "recipe", "steps") if key in settings}
    journey = workspace.save(journey, total=10.0, rows=len(train), **numbers)
    register(workspace, journey)
    folder = workspace.folder(name)
    save_schema(schema, workspace.schema(name))
    place, ledger = workspace.release(name), workspace.ledger
    with open_account(plan, place, ledger, journey.dataset, command=f"understudy demo: {name}") as account:
        with progress_bar() as bar:
            release = fit_with_bar(bar, train, plan, account=account)
        release.save(place)
    counts = None
    if "counts" in settings:
        counts = dict.fromkeys(schema.label_classes or (), settings["counts"])
    write_records(sample_chunks(release, 200, counts=counts, seed=1), folder / settings["file"])
    evaluation = understudy.evaluate(release, test, reference=train, seeds=(0,))
    workspace.measured(name).write_text(evaluation.to_json(), encoding="utf-8")
    found = understudy.audit(plan)
    attach(place, found)
    page = understudy.report(release, evaluation=evaluation, audit=found)
    (folder / "report.html").write_text(page, encoding="utf-8")
    out.print(_summary(evaluation))
    out.print(
        f"audit: {found.verdict.outcome.value}; claimed ε = {found.claimed_epsilon:.3f}, "
        f"proved by attack: ε ≥ {found.lower_bound:.3f}\n"
    )


def _summary(evaluation: understudy.Evaluation) -> Table:
    """The utility measures (of codes, fidelity), each between what is trivial and what real data gives."""
    from understudy.evaluation import Group

    shown = evaluation.of(Group.UTILITY) or evaluation.of(Group.FIDELITY)
    table = Table(title="synthetic records, measured on real ones")
    for heading in ("measure", "value", "interval", "real data", "trivial"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for measure in shown:
        table.add_row(
            measure.name,
            f"{measure.value:.3f}",
            "" if measure.low is None or measure.high is None else f"{measure.low:.3f} to {measure.high:.3f}",
            "" if measure.ceiling is None else f"{measure.ceiling:.3f}",
            "" if measure.floor is None else f"{measure.floor:.3f}",
        )
    return table
