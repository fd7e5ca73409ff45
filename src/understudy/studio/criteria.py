"""What a release must be good enough for, said in a form: one analysis at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy import codec, files
from understudy.errors import StudioError
from understudy.evaluation.criteria import Classifier, Criteria, CrossTab, Means, Regression, load_criteria
from understudy.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from understudy.evaluation.criteria import Criterion
    from understudy.schema import Schema
    from understudy.studio.workspace import Journey, Workspace

__all__ = ["criteria_of", "keep_criteria", "with_criterion"]


def criteria_of(workspace: Workspace, journey: Journey) -> tuple[Criterion, ...]:
    """What was said so far."""
    path = workspace.criteria(journey.name)
    return load_criteria(path).criteria if path.exists() else ()


def keep_criteria(workspace: Workspace, journey: Journey, criteria: tuple[Criterion, ...]) -> None:
    """Write them as a file that `understudy evaluate --criteria` reads as well."""
    path = workspace.criteria(journey.name)
    if not criteria:
        path.unlink(missing_ok=True)
        return
    files.write_whole(path, codec.to_toml(Criteria(criteria)), error=StudioError)


def with_criterion(
    known: tuple[Criterion, ...], form: Mapping[str, Any], schema: Schema
) -> tuple[Criterion, ...]:
    """One more, as the form says it.

    Args:
        known: the criteria before.
        form: its fields: name, kind, columns (separated by commas) and limit.
        schema: of the release, for the names of its columns.

    Raises:
        StudioError: a field cannot be read, or names no column.
        EvaluationError: there is one of this name, or it does not fit together.
    """
    name = str(form.get("criterion", "")).strip()
    columns = tuple(part.strip() for part in str(form.get("columns", "")).split(",") if part.strip())
    if not name:
        raise StudioError("say what the data is needed for.")
    try:
        limit = float(str(form.get("limit", "")))
    except ValueError as problem:
        raise StudioError("the limit must be a number, such as 0.05.") from problem
    there = {column.name for column in schema.columns} if isinstance(schema, TableSchema) else set()
    unknown = [column for column in columns if column not in there]
    if unknown:
        raise StudioError(
            f"there is no column {unknown[0]!r}; there are {', '.join(sorted(there)) or 'none'}."
        )
    return Criteria((*known, _criterion(str(form.get("kind")), name, columns, limit))).criteria


def _criterion(kind: str, name: str, columns: tuple[str, ...], limit: float) -> Criterion:
    match kind, columns:
        case CrossTab.kind, (_, *_):
            return CrossTab(name, columns, limit)
        case Means.kind, (of, by):
            return Means(name, of, by, limit)
        case Regression.kind, (of, _, *_):
            return Regression(name, of, columns[1:], limit)
        case Classifier.kind, ():
            return Classifier(name, limit)
    raise StudioError(
        "a cross-tab has one to three columns, means two (the number, then the groups), a regression two or more "
        "(what is explained, then what explains it), and a classifier none."
    )
