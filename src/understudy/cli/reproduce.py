"""`understudy reproduce`: the papers' claims, tables and figures, made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from understudy.cli.console import err, out, print_json
from understudy.errors import PlanError
from understudy.run.devices import Device
from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from understudy.papers.runner import Stage
    from understudy.papers.study import Study

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="The five papers: their claims recomputed, their tables and figures made again.",
)

_Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.command("claims")
def claims_command(as_json: _Json = False) -> None:
    """What each paper claims, what its formula gives, what its code costs, and what is certified when done right.

    Every ε but the claimed one is computed now, from the documented settings; δ is 1e-5.
    """
    from understudy.papers.claims import claims

    found = claims()
    if as_json:
        print_json([claim.plain() for claim in found])
        return
    table = Table(title="ε at δ = 1e-5, one record added or removed")
    for heading in ("paper", "setting", "claimed", "by formula", "by code", "certified", "why"):
        justify: Literal["left", "right"] = "left" if heading in ("paper", "setting", "why") else "right"
        table.add_column(heading, justify=justify, no_wrap=heading == "paper")
    notes: dict[str, str] = {}
    for claim in found:
        numbers = (
            claim.claimed_epsilon,
            claim.formula_epsilon,
            claim.published_code_epsilon,
            claim.certified_epsilon,
        )
        which = notes.setdefault(claim.note, str(len(notes) + 1)) if claim.note else ""
        table.add_row(claim.paper, claim.setting, *(_number(value) for value in numbers), which)
    out.print(table)
    below = Table.grid(padding=(0, 1))
    for note, which in notes.items():
        below.add_row(which, note)
    out.print(below)


@app.command("iterations")
def iterations_command(as_json: _Json = False) -> None:
    """Table 7 of the dp-gan paper: iterations before and after grouping, its bookkeeping, and what is right."""
    from understudy.papers.claims import allowed_iterations

    found = allowed_iterations()
    if as_json:
        print_json([row.plain() for row in found])
        return
    table = Table(title="dp-gan table 7: generator iterations that the budget allows")
    for heading in ("data", "paper", "its bookkeeping", "right, noise per group", "right, joint noise"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in found:
        table.add_row(
            row.dataset,
            f"{row.printed_before:,} → {row.printed_after:,}",
            f"{row.bookkeeping_before:,} → {row.bookkeeping_after:,}",
            f"{row.shared_before:,} → {row.shared_after:,}",
            f"{'≥ ' if row.joint_at_least else ''}{row.joint:,}",
        )
    out.print(table)


@app.command("judge")
def judge_command(
    folder: Annotated[
        Path, typer.Option("--out", help="Folder of a reproduction; the judge is kept inside.")
    ],
    data: Annotated[str, typer.Option(help="A known set of labelled images.")] = "mnist",
    as_json: _Json = False,
) -> None:
    """Train the classifier behind the inception score, and say how good it is on test images.

    Example: `understudy reproduce judge --data mnist --out results/dp-gan`
    """
    from understudy.papers.judge import train_judge

    with progress_bar() as bar:
        task = bar.add_task(f"training on {data}", total=100, note="")
        found = train_judge(
            data, folder / "judge", on_progress=lambda share: bar.update(task, completed=round(100 * share))
        )
    if as_json:
        print_json(found.plain())
        return
    interval = f"{found.low:.4f} … {found.high:.4f}"
    out.print(
        f"accuracy on the test images of {data}: {found.accuracy:.4f} ({interval})\nsha256 {found.sha256}"
    )


@app.command("generate-score")
def generate_score_command(
    scores: Annotated[list[float], typer.Argument(help="Inception scores of the systems that are compared.")],
    as_json: _Json = False,
) -> None:
    """The ppgan paper's generate score |IS - mean| / (max - min) of each of several inception scores.

    It is relative to what is compared, and the worst scores as well as the best: no measure of quality.

    Example: `understudy reproduce generate-score 2.44 2.68 3.23`
    """
    from understudy.evaluation.images import generate_scores

    found = [float(one) for one in generate_scores(scores)]
    if as_json:
        print_json([{"inception": one, "generate": made} for one, made in zip(scores, found, strict=True)])
        return
    for one, made in zip(scores, found, strict=True):
        out.print(f"{one:g}: {made:.4f}")


@app.command("classifiers")
def classifiers_command(
    release: Annotated[Path, typer.Argument(help="A release of labelled rows.")],
    data: Annotated[str, typer.Option(help="The known data set whose test rows classifiers are tested on.")],
    rows: Annotated[int, typer.Option(min=10, help="Synthetic rows they are trained on.")] = 10_000,
    search: Annotated[bool, typer.Option("--search", help="The thyroid study's grid search, too.")] = False,
    seed: Annotated[int, typer.Option(help="Of sampling and of the classifiers.")] = 0,
    as_json: _Json = False,
) -> None:
    """The papers' classifiers, trained on synthetic rows alone and tested on real ones.

    Real rows are read without noise, so the numbers of a data set that is not public are private.

    Example: `understudy reproduce classifiers release --data mnist --rows 60000`
    """
    from understudy.papers.classifiers import Learner
    from understudy.papers.measuring import classified
    from understudy.release.release import Release

    learners = [one for one in Learner if search or one is not Learner.SEARCHED_MLP]
    found = classified(Release.load(release), data, learners, rows=rows, seed=seed)
    if as_json:
        print_json({name: asdict(value) for name, value in found.items()})
        return
    table = Table("measure", "value", "95 % interval", "a constant predictor")
    for name, value in found.items():
        table.add_row(name, f"{value.value:.4f}", f"{value.low:.4f} … {value.high:.4f}", f"{value.floor:.4f}")
    out.print(table)


PAPERS = {
    "dp-cgan": "DP-CGAN: Table 1 and Figure 2.",
    "dp-cgan-tf2": "DP-CGAN in TensorFlow 2: Tables 1 and 2 (thyroid).",
    "dp-gan": "dp-GAN: Tables 2, 4, 6, 7 and 8 to 10.",
    "ppgan": "PPGAN: Figures 2 to 5, its closed formula, and ICD-9 codes.",
    "small-images": "Small images: Figures 1 to 3.",
}


def _command(paper: str) -> Callable[..., None]:
    def reproduce_paper(
        folder: Annotated[
            Path, typer.Option("--out", help="Folder for results; finished runs in it are kept.")
        ],
        quick: Annotated[
            bool, typer.Option("--quick", help="Minutes, far fewer steps (the default).")
        ] = False,
        full: Annotated[bool, typer.Option("--full", help="All data and many more steps.")] = False,
        printed: Annotated[
            bool,
            typer.Option("--printed", help="The paper's own settings: hours to days; may be interrupted."),
        ] = False,
        job: Annotated[list[str] | None, typer.Option(help="Run this job alone; may be repeated.")] = None,
        seeds: Annotated[
            int | None, typer.Option(min=1, help="Runs of each main setting: 3 if full, 1 otherwise.")
        ] = None,
        workers: Annotated[
            int | None, typer.Option(min=1, help="Processes; as many as cores by default.")
        ] = None,
        device: Annotated[Device, typer.Option(help="Where networks are trained.")] = Device.CPU,
    ) -> None:
        from understudy.evaluation.threads import usable_cores
        from understudy.papers.catalogue import FULL, PRINTED, QUICK, chosen, reproduce, study_of

        if quick + full + printed > 1:
            raise PlanError("choose one of --quick, --full and --printed.")
        scale = PRINTED if printed else FULL if full else QUICK
        repeats, names = seeds or (3 if full else 1), job or []
        study = chosen(study_of(paper, scale, names), names)
        pool = 1 if device is Device.CUDA else workers or usable_cores()
        _tell_effort(study, repeats, pool)
        with progress_bar() as bar:
            page = reproduce(
                paper,
                scale,
                folder,
                seeds=repeats,
                workers=pool,
                jobs=names,
                device=device,
                on_progress=_shown_on(bar),
            )
        err.print(f"written: {page}, tables and figures beside it")

    reproduce_paper.__doc__ = (
        f"{PAPERS[paper]}\n\nWrites tables (Markdown, CSV, JSON), figures (SVG, PNG) and report.html. May be "
        f"interrupted and started again.\n\nExample: `understudy reproduce {paper} --quick --out results/{paper}`"
    )
    return reproduce_paper


def _tell_effort(study: Study, seeds: int, pool: int) -> None:
    """How long it takes, job by job, before anything runs."""
    from understudy.papers.effort import job_seconds, study_seconds
    from understudy.run.pace import in_words

    found = job_seconds(study)
    for job in study.jobs:
        err.print(
            f"{job.name:<28} {job.taken:>11,} steps  about {in_words(found[job.name])}", highlight=False
        )
    err.print(
        f"{study.runs(seeds)} runs by {pool} process{'es' if pool > 1 else ''}, about "
        f"{in_words(study_seconds(study, seeds, found))} of one core if nothing is finished yet; after an "
        "interruption the same command goes on"
    )


def _shown_on(bar: Progress) -> Callable[[Stage], None]:
    """A bar for the study, and one for each run that is under way."""
    whole = bar.add_task("all runs", total=None, note="")
    tasks: dict[int, TaskID] = {}
    done: set[int] = set()

    def on_progress(stage: Stage) -> None:
        if stage.number not in tasks and not stage.skipped:
            what = f"run {stage.number} of {stage.total}" if stage.number else "first of all"
            tasks[stage.number] = bar.add_task(what, total=100, note=stage.name)
        if stage.number in tasks:
            bar.update(tasks[stage.number], completed=round(100 * stage.share), visible=stage.share < 1)
        if stage.share >= 1 and stage.number:
            done.add(stage.number)
        bar.update(
            whole,
            total=stage.total,
            completed=len(done),
            note=f"{len(done)} of {stage.total} finished",
        )

    return on_progress


for _paper in PAPERS:
    app.command(_paper)(_command(_paper))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if value >= 1e6 else f"{value:,.2f}"
