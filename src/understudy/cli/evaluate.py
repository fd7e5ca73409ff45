"""`understudy evaluate`: how good a release is, and optionally numbers about it that may be published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err, out, say, warn_not_private
from understudy.cli.options import AsJson, LedgerFile, RealQuery, TestQuery
from understudy.cli.running import command_line
from understudy.run.progress import progress_bar

if TYPE_CHECKING:
    from understudy.evaluation import Criteria, Evaluation
    from understudy.evaluation.sources import Rows
    from understudy.release.release import Release

__all__ = ["evaluate_command", "evaluate_with_bar"]


def evaluate_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    test: Annotated[
        str, typer.Option(help="Real rows that training never saw: a file, or a name such as digits:test.")
    ],
    real: Annotated[
        str | None, typer.Option(help="The real training rows: for ceilings and closeness. Internal.")
    ] = None,
    test_query: TestQuery = None,
    real_query: RealQuery = None,
    rows: Annotated[int | None, typer.Option(min=10, help="Synthetic rows to draw.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Independent draws and trainings.")] = 3,
    augment: Annotated[bool, typer.Option("--augment", help="Also train on real + synthetic rows.")] = False,
    few: Annotated[
        list[int] | None,
        typer.Option(
            "--few-labels",
            help="Semi-supervised task with this many labelled real images; repeatable. Images.",
        ),
    ] = None,
    criteria: Annotated[
        Path | None,
        typer.Option(help="TOML file of what the release must be good enough for; exits with code 3 if not."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Private folder to keep what depends on real rows only.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Trainings at a time; as many as cores by default.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--out", help="Write the evaluation here, for `report`.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Publish chosen numbers: spend this ε of the test rows' budget.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The δ of that.")] = 1e-6,
    ledger: LedgerFile = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the test rows' data set in the ledger.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure utility, fidelity, disclosure and closeness of a release on real rows.

    Every number that reads private rows is marked † and is internal. With --epsilon, accuracy, AuROC and marginal
    errors are published with noise and charged, or, with --criteria, the verdicts on these alone; only such numbers
    may appear in `understudy report --public`.

    Examples:
        understudy evaluate release --test patients-test.csv --real patients.csv --out evaluation.json

        understudy evaluate release --test test.csv --criteria criteria.toml

        understudy evaluate release --test test.csv --epsilon 0.5 --ledger spending.ledger --dataset test-2024
    """
    from understudy.data import read
    from understudy.data.databases import source_of
    from understudy.data.read import refuse_absent
    from understudy.errors import BudgetError
    from understudy.evaluation.criteria import load_criteria
    from understudy.evaluation.publishing import publish_evaluation
    from understudy.evaluation.run import real_rows
    from understudy.files import write_whole
    from understudy.privacy.budget import Budget
    from understudy.release.release import Release

    if epsilon is not None and (ledger is None or dataset is None):
        raise BudgetError("--epsilon spends budget: say where it is charged with --ledger and --dataset.")
    held, trained = source_of(test, test_query), None if real is None else source_of(real, real_query)
    for source in (held, trained):
        refuse_absent(source)
    _refuse_same_rows(held, trained)
    asked = None if criteria is None else load_criteria(criteria)
    loaded = Release.load(release)
    if not loaded.card.private:
        warn_not_private(loaded.card.warnings)
    schema = loaded.schema
    if epsilon is not None and ledger is not None and dataset is not None:
        found = publish_evaluation(
            loaded,
            lambda: read(held, schema),
            Budget(epsilon, delta),
            ledger=ledger,
            dataset=dataset,
            criteria=asked,
            command=command_line(),
        )
        err.print(f"charged to {dataset!r} in {ledger}. {' '.join(found.notes)}")
    else:
        found = evaluate_with_bar(
            loaded,
            real_rows(held, schema),
            None if trained is None else real_rows(trained, schema),
            rows=rows,
            seeds=seeds,
            augment=augment,
            few=tuple(few or ()),
            criteria=asked,
            cache=cache,
            workers=workers,
        )
    if save is not None:
        write_whole(save, found.to_json())
        err.print(f"evaluation written to {save}; make a page of it with: understudy report {release}")
    _show(found, as_json=as_json)
    if not all(one.passed for one in found.criteria):
        raise typer.Exit(3)


def _show(found: Evaluation, *, as_json: bool) -> None:
    if as_json:
        typer.echo(found.to_json())
        return
    if found.measures:
        out.print(found.table())
    for line in found.not_measured:
        err.print(f"not measured: {line}")
    if found.verdict is not None:
        out.print(found.criteria_table())
        say(found.verdict)


def _refuse_same_rows(test: object, real: object) -> None:
    from understudy.errors import EvaluationError

    files = [Path(one) for one in (test, real) if isinstance(one, str) and Path(one).exists()]
    if test == real or (len(files) == 2 and files[0].samefile(files[1])):
        raise EvaluationError(
            f"--test and --real name the same rows, {test}. Give rows that were kept away from training to --test."
        )


def evaluate_with_bar(
    release: Release,
    test: Rows,
    reference: Rows | None,
    *,
    rows: int | None = None,
    seeds: int = 3,
    augment: bool = False,
    few: tuple[int, ...] = (),
    criteria: Criteria | None = None,
    cache: Path | None = None,
    workers: int | None = None,
) -> Evaluation:
    """Call `evaluate` behind a progress bar."""
    from understudy.evaluation import evaluate

    with progress_bar() as bar:
        task = bar.add_task("evaluating", total=100, note="")
        return evaluate(
            release,
            test,
            reference=reference,
            rows=rows,
            seeds=range(seeds),
            augment=augment,
            few=few,
            criteria=criteria,
            cache=cache,
            workers=workers,
            on_progress=lambda what, share: bar.update(task, completed=round(100 * share), note=what),
        )
