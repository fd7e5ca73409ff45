"""One page that shows a study: tables, figures and what must be known about them; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from understudy.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from understudy.papers.study import Study
    from understudy.papers.tables import FilledTable

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
<p>Scale: {{ scale }}. ε is certified for adding or removing one record. “Certified ε of its setting” is what the
paper's stated run costs when it is done right. Runs are seeded so that they can be repeated, on public data.</p>
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
{% for figure, picture in figures %}<figure>
<img alt="{{ figure.title }}" src="data:image/png;base64,{{ picture }}"></figure>
{% endfor %}</div>
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
    printed = [table.shown() for table in tables]
    text = template.render(study=study, scale=scale, tables=printed, figures=shown)
    path = out / "report.html"
    write_whole(path, text)
    return path
