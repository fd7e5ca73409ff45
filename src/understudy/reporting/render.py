"""`report`: a release, its evaluation and its audit as HTML, Markdown or JSON."""

from __future__ import annotations

import enum
import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2
import pandas as pd
from markupsafe import Markup

from understudy._version import __version__
from understudy.calling import explained
from understudy.evaluation.result import Group, Measure
from understudy.release.release import release_of
from understudy.reporting import charts, svg
from understudy.reporting.content import Content, cell_text, gather
from understudy.reporting.markdown import as_markdown
from understudy.schema import CodeSchema

if TYPE_CHECKING:
    from pathlib import Path

    from understudy.auditing.verdict import Audit
    from understudy.evaluation.result import Evaluation
    from understudy.release.release import Release

__all__ = ["Format", "example_rows", "report"]

SHOWN_CODES = 24
"""How many codes of a synthetic record are listed before "and … more"."""


class Format(enum.Enum):
    """How a report is written."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"


@explained("understudy.report(release, evaluation=evaluation)")
def report(
    release: Release | str | Path,
    *,
    evaluation: Evaluation | None = None,
    audit: Audit | None = None,
    public: bool = False,
    format: Format = Format.HTML,  # noqa: A002 - the word that users type
) -> str:
    """The report as text.

    Args:
        release: what the report is about, or the path of its folder; it is sampled and described, never changed.
        evaluation: what `understudy evaluate` measured.
        audit: what `understudy audit` found.
        public: leave out every number that reads private rows without a mechanism; without it the
            page carries a banner that it is internal.
        format: HTML (one file, no script, no network), Markdown or JSON.
    """
    content = gather(release_of(release), evaluation, audit, public=public)
    match format:
        case Format.HTML:
            return _html(content)
        case Format.MARKDOWN:
            return as_markdown(content)
        case Format.JSON:
            return json.dumps(_plain(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _html(content: Content) -> str:
    folder = files("understudy.reporting")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = _number
    environment.filters["meter"] = _meter
    template = environment.from_string(folder.joinpath("page.html.jinja").read_text("utf-8"))
    style = folder.joinpath("style.css").read_text("utf-8")
    evaluation = content.evaluation
    return template.render(
        content=content,
        style=Markup(style),  # noqa: S704 - our own file
        version=__version__,
        attack=charts.attack_figure(content),
        examples=charts.example_picture(content),
        rows=example_rows(content),
        utility=charts.utility_figures(evaluation) if evaluation else (),
        fidelity=_headline(evaluation, Group.FIDELITY),
        details=_details(evaluation),
        disclosure=_headline(evaluation, Group.DISCLOSURE),
        closeness=_headline(evaluation, Group.CLOSENESS),
        criteria=evaluation.criteria if evaluation else (),
        marginals=charts.marginal_figures(evaluation) if evaluation else (),
        correlations=charts.correlation_figures(evaluation) if evaluation else (),
        neighbours=charts.neighbours(evaluation.pictures) if evaluation else None,
    )


def _headline(evaluation: Evaluation | None, group: Group) -> tuple[Measure, ...]:
    """The measures of a group except those that exist once per column."""
    return tuple(m for m in evaluation.of(group) if ": " not in m.name) if evaluation else ()


def _details(evaluation: Evaluation | None) -> tuple[Measure, ...]:
    return tuple(m for m in evaluation.of(Group.FIDELITY) if ": " in m.name) if evaluation else ()


def example_rows(content: Content) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None:
    """Header and rows of example records; for codes, each row is the list of its codes."""
    frame = content.examples
    if not isinstance(frame, pd.DataFrame):
        return None
    if isinstance(content.schema, CodeSchema):
        codes = [name for name in content.schema.codes if name in frame.columns]
        listed = [[code for code in codes if row[code] > 0] for _, row in frame.iterrows()]
        return ("codes of one synthetic record",), tuple((_code_list(row),) for row in listed)
    rows = tuple(tuple(cell_text(value) for value in row) for row in frame.itertuples(index=False))
    return tuple(str(name) for name in frame.columns), rows


def _code_list(codes: list[str]) -> str:
    more = len(codes) - SHOWN_CODES
    return ", ".join(codes[:SHOWN_CODES]) + (f" … and {more} more" if more > 0 else "") or "(none)"


def _number(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    if value != 0 and abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _meter(measure: Measure) -> Markup:
    return svg.meter(svg.Range(measure.name, measure.value, None, None, measure.ceiling, measure.floor))


def _plain(content: Content) -> dict[str, Any]:
    audit = content.audit
    return {
        "title": content.title,
        "public": content.public,
        "private": content.private,
        "verdict": content.verdict,
        "warnings": list(content.warnings),
        "facts": [vars(fact) for fact in content.facts],
        "promise": list(content.promise),
        "attack": [vars(point) for point in content.attack],
        "spending": [vars(line) for line in content.spending],
        "totals": [vars(fact) for fact in content.totals],
        "evaluation": None if content.evaluation is None else json.loads(content.evaluation.to_json()),
        "measures_left_out": content.hidden,
        "audit": None if audit is None else _plain_audit(audit),
        "making": [vars(fact) for fact in content.making],
        "recipe": content.recipe,
        "schema": content.schema_text,
        "command": content.command,
        "understudy": __version__,
    }


def _plain_audit(audit: Audit) -> dict[str, Any]:
    return {
        "subject": audit.subject,
        "verdict": audit.verdict.outcome.value,
        "says": audit.verdict.says,
        "claimed_epsilon": audit.claimed_epsilon,
        "lower_bound": audit.lower_bound,
        "confidence": audit.confidence,
        "canaries": audit.canaries,
        "rounds": audit.rounds,
        "readings": [
            {
                "name": reading.name,
                "outcome": reading.outcome.value,
                "value": reading.value,
                "claimed": reading.claimed,
                "says": reading.says,
            }
            for reading in audit.readings
        ],
    }
