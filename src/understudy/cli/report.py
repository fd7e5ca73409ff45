"""`understudy report`: one page about a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.console import err
from understudy.cli.options import RealQuery, TestQuery

if TYPE_CHECKING:
    from understudy.auditing.verdict import Audit
    from understudy.evaluation import Evaluation
    from understudy.release.release import Release

__all__ = ["report_command"]

FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


def report_command(
    release: Annotated[Path, typer.Argument(help="Folder of a release.")],
    out: Annotated[Path, typer.Option(help="Where to: .html, .md or .json.")],
    evaluation: Annotated[
        list[Path] | None, typer.Option(help="File written by `understudy evaluate --out`; may be repeated.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Real test rows, to evaluate now.")] = None,
    real: Annotated[
        str | None, typer.Option(help="Real training rows, to evaluate now with ceilings.")
    ] = None,
    test_query: TestQuery = None,
    real_query: RealQuery = None,
    audit: Annotated[
        Path | None, typer.Option(help="JSON of `understudy audit --json`; by default the attached one.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Print only numbers that may be published.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", help="html, markdown or json; by the name of the file if left out."),
    ] = None,
) -> None:
    """Write a page about a release: what is promised, what it cost, what it makes, how good it is.

    Without --public the page carries a banner "internal, not for publication".

    Examples:
        understudy report release --test patients-test.csv --real patients.csv --out report.html

        understudy report release --evaluation published.json --public --out report.html
    """
    from understudy.auditing.attachment import attached
    from understudy.data.databases import source_of
    from understudy.errors import EvaluationError
    from understudy.files import write_whole
    from understudy.release.release import Release
    from understudy.reporting import Format, report

    name = form or FORMATS.get(out.suffix.lower())
    if name not in {one.value for one in Format}:
        raise typer.BadParameter(
            f"{name or out.name!r}: choose html, markdown or json.", param_hint="--format"
        )
    if evaluation and test:
        raise EvaluationError("give either --evaluation files or --test rows, not both.")
    loaded = Release.load(release)
    found = (
        _read_all(evaluation)
        if evaluation
        else _measure(loaded, test and source_of(test, test_query), real and source_of(real, real_query))
    )
    checked = attached(release) if audit is None else _read_audit(audit)
    text = report(loaded, evaluation=found, audit=checked, public=public, format=Format(name))
    write_whole(out, text)
    err.print(f"report written to {out}" + ("" if public else " (internal, not for publication)"))


def _measure(release: Release, test: object, real: object) -> Evaluation | None:
    if test is None:
        return None
    from understudy.cli.evaluate import evaluate_with_bar
    from understudy.data import read

    reference = None if real is None else read(real, release.schema)
    return evaluate_with_bar(release, read(test, release.schema), reference)


def _read_audit(path: Path) -> Audit:
    from understudy.auditing.verdict import Audit
    from understudy.codec import from_json
    from understudy.errors import EvaluationError
    from understudy.files import read_text

    return from_json(Audit, read_text(path, error=EvaluationError), error=EvaluationError)


def _read_all(paths: list[Path]) -> Evaluation:
    """One evaluation from several files, such as an internal one and a published one."""
    from dataclasses import replace

    from understudy.errors import EvaluationError
    from understudy.evaluation import Evaluation
    from understudy.files import read_text

    parts = [Evaluation.from_json(read_text(path, error=EvaluationError)) for path in paths]
    whole = parts[0]
    for part in parts[1:]:
        whole = replace(
            whole,
            measures=whole.measures + part.measures,
            marginals=whole.marginals or part.marginals,
            correlations=whole.correlations or part.correlations,
            pictures=whole.pictures or part.pictures,
            notes=whole.notes + part.notes,
            not_measured=whole.not_measured + part.not_measured,
            criteria=whole.criteria + part.criteria,
        )
    return whole
