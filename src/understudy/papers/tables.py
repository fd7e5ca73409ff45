"""Tables of a study: the paper's figures beside ours, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from understudy.evaluation.images import generate_scores
from understudy.files import write_whole
from understudy.papers.bookkeeping import ClosedFormula, largest_loss
from understudy.papers.claims import Claim, Iterations, allowed_iterations, claims
from understudy.papers.facts import GROUPINGS, Grouping, claimed, ppgan_formula
from understudy.papers.measuring import Value
from understudy.papers.study import AnyTable, GenerateScoreTable, IterationsTable, NoiseTable, Table
from understudy.privacy.mechanisms import SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from understudy.papers.outcomes import Outcome, Point
    from understudy.papers.study import Line, Study

__all__ = ["FilledTable", "Row", "ShownTable", "fill", "over_seeds", "write_tables"]


@dataclass(frozen=True)
class Row:
    """A line of a table with everything filled in; None where there is no such number.

    Args:
        setting: the paper's name of it.
        measure: what was measured.
        paper: the value that the paper prints.
        claimed_epsilon: the ε that the paper claims for it.
        certified_epsilon: the certified ε of the paper's setting, done right.
        our_epsilon: the certified ε of our run; None means without noise.
        ours: our value, the mean over seeds.
        low: lower end of its 95 % interval.
        high: upper end of its 95 % interval.
        floor: what a trivial predictor or generator reaches.
        runs: how many seeds.
        remark: what a reader must know.
    """

    setting: str
    measure: str
    paper: float | None
    claimed_epsilon: float | None
    certified_epsilon: float | None
    our_epsilon: float | None
    ours: float | None
    low: float | None
    high: float | None
    floor: float | None
    runs: int
    remark: str = ""


_HEADINGS = (
    "setting",
    "measure",
    "paper",
    "claimed ε",
    "certified ε of its setting",
    "our ε",
    "ours",
    "95 % interval",
    "floor",
    "runs",
    "remark",
)


@dataclass(frozen=True)
class ShownTable:
    """A table as texts.

    Args:
        title: above it.
        words: what holds for all lines, between title and table.
        headings: of the columns.
        numeric: which columns hold numbers.
        rows: one text for each column.
        remark: below it.
    """

    title: str
    words: str
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str


@dataclass(frozen=True)
class FilledTable:
    """A table that can be written."""

    name: str
    title: str
    rows: tuple[Row, ...]
    remark: str = ""

    def shown(self) -> ShownTable:
        """The table for people: without empty columns, and with a measure or remark of all lines said once."""
        texts_of = [_cells(row) for row in self.rows]
        columns = {name: [texts[place] for texts in texts_of] for place, name in enumerate(_HEADINGS)}
        said = {name: columns[name][0] for name in ("measure", "remark") if len(set(columns[name])) == 1}
        kept = [
            name
            for name, texts in columns.items()
            if name not in said and not set(texts) <= ({"0"} if name == "runs" else {"–", ""})
        ]
        words = " ".join(f"{name.capitalize()}: {text}." for name, text in said.items() if text)
        rows = tuple(zip(*(columns[name] for name in kept), strict=True))
        numeric = tuple(name not in ("setting", "measure", "remark") for name in kept)
        return ShownTable(self.title, words, tuple(kept), numeric, rows, self.remark)

    def markdown(self) -> str:
        """The table as Markdown."""
        shown = self.shown()
        lines = [f"## {shown.title}", "", *([shown.words, ""] if shown.words else [])]
        lines.append("| " + " | ".join(shown.headings) + " |")
        lines.append("|" + "|".join("---:" if number else "---" for number in shown.numeric) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in shown.rows]
        return "\n".join([*lines, *(["", self.remark] if self.remark else []), ""])

    def csv(self) -> str:
        """The table as CSV."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [*asdict(self.rows[0])] if self.rows else [])
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return text.getvalue()

    def json(self) -> str:
        """The table as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)


def _cells(row: Row) -> tuple[str, ...]:
    """The texts of a row, for people."""
    interval = "–" if row.low is None or row.high is None else f"{row.low:.4f} … {row.high:.4f}"
    none = "none" if row.runs else "–"
    return (
        row.setting,
        row.measure,
        _text(row.paper),
        _text(row.claimed_epsilon),
        _text(row.certified_epsilon),
        none if row.our_epsilon is None else _text(row.our_epsilon),
        _text(row.ours),
        interval,
        _text(row.floor),
        str(row.runs),
        row.remark,
    )


def _text(value: float | None) -> str:
    """Four decimals below one, separated thousands for counts, four digits otherwise."""
    if value is None:
        return "–"
    if 1e-3 <= abs(value) < 1:
        return f"{value:.4f}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def over_seeds(values: Sequence[Value], limits: tuple[float, float] = (-math.inf, math.inf)) -> Value:
    """The mean over seeds; its interval joins the spread over seeds with the mean interval of one run.

    Args:
        values: one for each seed.
        limits: values that the measure can have; the interval ends there.
    """
    mean = float(np.mean([value.value for value in values]))
    floors = [value.floor for value in values if value.floor is not None]
    floor = float(np.mean(floors)) if floors else None
    widths = [
        (value.high - value.low) / 2 for value in values if value.low is not None and value.high is not None
    ]
    within = float(np.mean(widths)) if widths else None
    low, high = values[0].low, values[0].high
    if len(values) > 1:
        spread = float(np.std([value.value for value in values], ddof=1)) / math.sqrt(len(values))
        half = math.hypot(float(stats.t.ppf(0.975, len(values) - 1)) * spread, within or 0.0)
        low, high = mean - half, mean + half
    least, most = limits
    return Value(
        mean, None if low is None else max(least, low), None if high is None else min(most, high), floor
    )


def fill(study: Study, outcomes: Sequence[Outcome]) -> tuple[FilledTable, ...]:
    """Put the outcomes into the study's tables; the ε of the paper's own settings are computed now."""
    known = {
        (claim.paper, claim.setting): claim
        for claim in claims([fact for fact in claimed() if fact.paper == study.paper])
    }
    found = _by_job(outcomes)
    return tuple(_filled(table, found, known) for table in study.tables)


def _filled(
    table: AnyTable, found: Mapping[str, Sequence[Outcome]], known: Mapping[tuple[str, str], Claim]
) -> FilledTable:
    match table:
        case Table():
            rows = tuple(_row(line, found, known) for line in table.lines)
        case GenerateScoreTable():
            rows = _generate_scores(table, found)
        case IterationsTable():
            rows = tuple(
                row for one in zip(GROUPINGS, allowed_iterations(), strict=True) for row in _allowed(*one)
            )
        case NoiseTable():
            rows = _noise(known)
    return FilledTable(table.name, table.title, rows, table.remark)


def _by_job(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.job, []).append(outcome)
    return found


def _row(line: Line, found: Mapping[str, Sequence[Outcome]], known: Mapping[tuple[str, str], Claim]) -> Row:
    claim = None if line.claim is None else known[line.claim]
    runs = [_at(run, line.stop) for run in found.get(line.job or "", ())]
    ours = over_seeds([run.values[line.score.name] for run in runs], line.score.limits) if runs else None
    return Row(
        setting=line.label,
        measure=line.score.name,
        paper=line.paper,
        claimed_epsilon=None if claim is None else claim.claimed_epsilon,
        certified_epsilon=None if claim is None else claim.certified_epsilon,
        our_epsilon=runs[0].epsilon if runs else None,
        ours=None if ours is None else ours.value,
        low=None if ours is None else ours.low,
        high=None if ours is None else ours.high,
        floor=None if ours is None else ours.floor,
        runs=len(runs),
        remark=line.remark,
    )


def _at(run: Outcome, stop: int | None) -> Outcome | Point:
    """What the run had reached at a stop, or at its end."""
    return run if stop is None else next(point for point in run.points if point.steps == stop)


def _generate_scores(table: GenerateScoreTable, found: Mapping[str, Sequence[Outcome]]) -> tuple[Row, ...]:
    """The inception score of each job, and the degenerate score that the ppgan paper makes of it."""
    means = {
        job: over_seeds([run.values[table.score.name] for run in found[job]], table.score.limits)
        for job in table.jobs
        if job in found
    }
    plain = [value.value for value in means.values()]
    relative = generate_scores(plain) if len(set(plain)) > 1 else [None] * len(plain)
    rows = []
    for (job, value), score in zip(means.items(), relative, strict=True):
        epsilon, runs = found[job][0].epsilon, len(found[job])
        rows.append(
            Row(
                job,
                table.score.name,
                None,
                None,
                None,
                epsilon,
                value.value,
                value.low,
                value.high,
                1.0,
                runs,
            )
        )
        generate = None if score is None else float(score)
        rows.append(Row(job, "generate score", None, None, None, epsilon, generate, None, None, None, runs))
    return tuple(rows)


def _computed(
    setting: str, measure: str, paper: float | None, epsilon: float | None, ours: float | None
) -> Row:
    """A row that needed no training."""
    return Row(
        setting,
        measure,
        paper,
        epsilon,
        None,
        None,
        ours,
        None,
        None,
        None,
        0,
        "computed, nothing was trained",
    )


def _allowed(fact: Grouping, found: Iterations) -> tuple[Row, ...]:
    """Table 7 for one data set: the paper's two numbers against three ways to count."""
    ways = (
        ("its bookkeeping", found.bookkeeping_before, found.bookkeeping_after),
        ("right for noise per group", found.shared_before, found.shared_after),
        (f"right for joint noise{' (at least)' * found.joint_at_least}", found.joint, found.joint),
    )
    return tuple(
        _computed(fact.dataset, f"iterations {when}, {way}", printed, fact.epsilon, count)
        for way, before, after in ways
        for when, printed, count in (
            ("before grouping", fact.printed_before, before),
            ("after grouping", fact.printed_after, after),
        )
    )


def _noise(known: Mapping[tuple[str, str], Claim]) -> tuple[Row, ...]:
    """σ by equation 20, with the n that the paper puts and with all steps, and the certified ε of either."""
    rate, steps, delta = 64 / 60_000, 2_500_000, 1e-5
    rows = []
    for claim in known.values():
        assert claim.claimed_epsilon is not None
        for counted, certified in ((ppgan_formula(), claim.certified_epsilon), (ClosedFormula(steps), None)):
            sigma = counted.noise(rate, claim.claimed_epsilon, delta)
            right = certified or largest_loss(SubsampledGaussian(rate, sigma, steps), delta)
            row = _computed(
                claim.setting,
                f"σ by equation 20, n = {counted.counted_steps:,}",
                sigma,
                claim.claimed_epsilon,
                None,
            )
            rows.append(replace(row, certified_epsilon=right))
    return tuple(rows)


def write_tables(tables: Sequence[FilledTable], out: Path) -> None:
    """Write every table as .md, .csv and .json."""
    folder = out / "tables"
    for table in tables:
        for suffix, text in (("md", table.markdown()), ("csv", table.csv()), ("json", table.json())):
            write_whole(folder / f"{table.name}.{suffix}", text)
