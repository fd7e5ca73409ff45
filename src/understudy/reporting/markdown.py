"""The report as Markdown, for issue threads, pull requests and archives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pandas as pd

from understudy.escaping import for_markdown, for_terminal
from understudy.evaluation.result import Evaluation, Group, Measure
from understudy.reporting.content import cell_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.auditing.verdict import Audit
    from understudy.reporting.content import Content

__all__ = ["as_markdown"]

BANNER = "> **Internal, not for publication.** Some numbers below read private records."


def as_markdown(content: Content) -> str:
    """All sections of the report, charts as tables."""
    parts = [f"# {for_markdown(content.title)}"]
    if not content.private:
        parts.append("> **NOT PRIVATE.** " + for_markdown(" ".join(content.warnings)))
    if not content.public:
        parts.append(BANNER)
    if content.verdict is not None and content.evaluation is not None:
        parts += [f"**{for_markdown(content.verdict)}**", _criteria(content.evaluation)]
    parts += ["## What is promised", *(for_markdown(line) for line in content.promise)]
    parts += [
        "## What was spent",
        _table(("purpose", "mechanism"), [(s.purpose, s.mechanism) for s in content.spending]),
    ]
    parts.append(_table(("total", "value", ""), [(f.name, f.value, f.remark) for f in content.totals]))
    if isinstance(content.examples, pd.DataFrame):
        frame = content.examples.iloc[:, :8]
        rows = [tuple(cell_text(value) for value in row) for row in frame.itertuples(index=False)]
        parts += ["## Synthetic records", _table([str(name) for name in frame.columns], rows)]
    if content.evaluation is not None:
        parts += _evaluation(content.evaluation)
    if content.hidden:
        parts.append("Measures that read private records are not shown on this public page.")
    if content.audit is not None:
        parts += _audit(content.audit)
    parts += [
        "## How it was made",
        _table(("", "", ""), [(f.name, f.value, f.remark) for f in content.making]),
    ]
    parts += [_fenced("console", f"$ {content.command}"), _fenced("toml", content.recipe.strip())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _evaluation(evaluation: Evaluation) -> list[str]:
    parts = []
    headings = {
        Group.UTILITY: "Utility",
        Group.FIDELITY: "Fidelity",
        Group.DISCLOSURE: "Disclosure: membership and attributes",
        Group.CLOSENESS: "Closeness to training records (finds copies; discouraged as a measure of privacy)",
    }
    for group in Group:
        if evaluation.of(group):
            rows = [_cells(measure) for measure in evaluation.of(group)]
            parts += [
                f"## {headings[group]}",
                _table(("measure", "value", "95 % interval", "ceiling", "floor"), rows),
            ]
    missing = [f"not measured: {line}" for line in evaluation.not_measured]
    return [*parts, *(f"- {for_markdown(note)}" for note in (*evaluation.notes, *missing))]


def _criteria(evaluation: Evaluation) -> str:
    rows = [
        (
            f"{one.name} †" if one.internal else one.name,
            one.kind,
            one.asks,
            "–" if one.ceiling is None else f"{one.ceiling:.3g}",
            "PASS" if one.passed else "FAIL",
        )
        for one in evaluation.criteria
    ]
    return _table(("needed for", "kind", "value and limit", "real rows", "verdict"), rows)


def _audit(audit: Audit) -> list[str]:
    rows = [(r.name, r.outcome.value, f"{r.value:.4g}", f"{r.claimed:.4g}", r.says) for r in audit.readings]
    return [
        "## Audit",
        (
            f"**{audit.verdict.outcome.value}**: {for_markdown(audit.verdict.says)} Proved "
            f"ε ≥ {audit.lower_bound:.3g}, claimed ε = {audit.claimed_epsilon:.3g}, {audit.canaries} canaries, "
            f"{audit.rounds} rounds."
        ),
        _table(("reading", "outcome", "observed", "claimed", "in words"), rows),
    ]


def _cells(measure: Measure) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4g}"

    interval = "–" if measure.low is None else f"{number(measure.low)} to {number(measure.high)}"
    name = f"{measure.name} †" if measure.internal else measure.name
    return name, number(measure.value), interval, number(measure.ceiling), number(measure.floor)


def _fenced(language: str, text: str) -> str:
    """A block of code whose fence is longer than any in the text, so that the text cannot end it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{for_terminal(text)}\n{fence}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(for_markdown(cell) for cell in line) + " |" for line in lines)
