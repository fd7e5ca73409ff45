"""One page that shows a study: tables, figures and what must be known about them; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from understudy.files import write_whole
from understudy.papers.judge import train_judge
from understudy.papers.study import Inception
from understudy.papers.tables import ShownTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from understudy.papers.outcomes import Outcome
    from understudy.papers.study import Study
    from understudy.papers.tables import FilledTable
    from understudy.synthesizers.protocol import Recipe

__all__ = ["write_page"]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ study.title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1f; }
h1 { line-height: 1.2; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #d5d5dd; padding: .25rem .6rem; text-align: left; vertical-align: top; }
th { vertical-align: bottom; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { white-space: normal; max-width: 7rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 2rem; }
figure { margin: 0; max-width: 36rem; }
img { max-width: 100%; height: auto; }
</style>
</head>
<body>
<h1>{{ study.title }}</h1>
<p>Scale: {{ scale }}. {{ about }} ε is certified for adding or removing one record. “Certified ε of its setting” is
what the paper's stated run costs when it is done right. Runs are seeded so that they can be repeated, on public data:
nothing here is private.{% if judge %} Accuracy of the judge behind the inception score on test images:
{{ judge }}.{% endif %}</p>
{% for note in study.notes %}<p>{{ note }}</p>
{% endfor %}
{% for table in tables %}<h2>{{ table.title }}</h2>
{% if table.words %}<p>{{ table.words }}</p>{% endif %}
<div class="wide"><table>
<thead><tr>{% for heading in table.headings -%}
<th scope="col"{% if table.numeric[loop.index0] %} class="number"{% endif %}>{{ heading }}</th>
{%- endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}<tr>{% for cell in row -%}
<td{% if table.numeric[loop.index0] %} class="number"{% endif %}>{{ cell }}</td>
{%- endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if table.remark %}<p>{{ table.remark }}</p>{% endif %}
{% endfor %}
<div class="figures">
{% for title, picture in figures %}<figure>
<img alt="{{ title }}" src="data:image/png;base64,{{ picture }}"></figure>
{% endfor %}</div>
</body>
</html>
"""


_ABOUT = {
    "quick": "A quick run is not the paper's: it shows the main lines after as many steps as minutes allow.",
    "full": "Systems are ours where a table does not say “printed”: fewer steps than the papers', with rates for them.",
    "printed": "The settings are those of the text, and of its published code where the text has none.",
}


def write_page(
    study: Study,
    scale: str,
    tables: Sequence[FilledTable],
    outcomes: Sequence[Outcome],
    pictures: Sequence[tuple[str, Path]],
    out: Path,
) -> Path:
    """Write `report.html` with all tables and figures inside, and how every run was made."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(_PAGE)
    shown = [(title, base64.b64encode(picture.read_bytes()).decode()) for title, picture in pictures]
    printed = [*(table.shown() for table in tables), _runs(study, outcomes)]
    text = template.render(
        study=study,
        scale=scale,
        about=_ABOUT.get(scale, ""),
        judge=_judges(study, outcomes, out),
        tables=printed,
        figures=shown,
    )
    path = out / "report.html"
    write_whole(path, text)
    return path


def _runs(study: Study, outcomes: Sequence[Outcome]) -> ShownTable:
    """What each run was, in numbers."""
    headings = ("run", "recipe", "rows", "ε", "σ", "batch", "capacity", "steps", "updates", "CPU s", "date")
    jobs = {job.name: job for job in study.jobs}
    rows = tuple(
        (
            f"{one.job}, seed {one.seed}",
            "real rows" if (recipe := jobs[one.job].recipe) is None else recipe.name,
            f"{jobs[one.job].rows or 'all'}",
            "none" if one.epsilon is None else f"{one.epsilon:.3f}",
            f"{one.noise_multiplier:.3f}" if one.noise_multiplier else "none",
            str(getattr(recipe, "batch", "–")),
            _capacity(recipe),
            f"{one.steps:,}",
            f"{one.updates:,}",
            f"{one.seconds:,.0f}",
            one.date,
        )
        for one in outcomes
    )
    numeric = tuple(heading not in ("run", "recipe", "date") for heading in headings)
    return ShownTable("The runs", "", headings, numeric, rows, "")


def _capacity(recipe: Recipe | None) -> str:
    """Of the critic: the channels of its first convolution, or the widths of its layers."""
    critic = getattr(recipe, "critic", None)
    widths = getattr(critic, "hidden", None)
    return str(getattr(critic, "capacity", "–")) if widths is None else "-".join(map(str, widths))


def _judges(study: Study, outcomes: Sequence[Outcome], out: Path) -> str:
    """The accuracy of every judge that the finished runs were scored by."""
    made = {outcome.job for outcome in outcomes}
    judged = {
        (job.dataset, score.judge_rows)
        for job in study.jobs
        for score in job.scores
        if job.name in made and isinstance(score, Inception)
    }
    found = [train_judge(data, out / "judge", rows=rows) for data, rows in sorted(judged, key=str)]
    return ", ".join(f"{one.accuracy:.4f} ({one.dataset})" for one in found)
