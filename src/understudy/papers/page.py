"""One page that shows a study: tables, figures and what must be known about them; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from understudy.papers.tables import cells

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from understudy.papers.study import Study
    from understudy.papers.tables import FilledTable

__all__ = ["write_page"]

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

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ study.title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1f; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { border-bottom: 1px solid #d5d5dd; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; }
</style>
</head>
<body>
<h1>{{ study.title }}</h1>
<p>Scale: {{ scale }}. ε is certified for adding or removing one record. “Certified ε of its setting” is what the
paper's stated run costs when it is done right. Runs are seeded so that they can be repeated, on public data.</p>
{% for note in study.notes %}<p>{{ note }}</p>
{% endfor %}
{% for table in tables %}<div class="wide"><table>
<caption>{{ table.title }}</caption>
<thead><tr>{% for heading in headings %}<th scope="col">{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}<tr>{% for cell in cells(row) %}<td{% if 2 <= loop.index0 <= 9 %} class="number"{% endif %}>
{{- cell -}}
</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if table.remark %}<p>{{ table.remark }}</p>{% endif %}
{% endfor %}
{% for figure, picture in figures %}<figure><img alt="{{ figure.title }}" src="data:image/png;base64,{{ picture }}">
<figcaption>{{ figure.title }}</figcaption></figure>
{% endfor %}
</body>
</html>
"""


def write_page(
    study: Study, scale: str, tables: Sequence[FilledTable], pictures: Sequence[Path], out: Path
) -> Path:
    """Write `report.html` with all tables and figures inside."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(_PAGE)
    shown = [
        (figure, base64.b64encode(picture.read_bytes()).decode())
        for figure, picture in zip(study.figures, pictures, strict=True)
    ]
    text = template.render(
        study=study, scale=scale, tables=tables, figures=shown, headings=_HEADINGS, cells=cells
    )
    path = out / "report.html"
    path.write_text(text, encoding="utf-8")
    return path
