"""How values look in a notebook and in a prompt."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tiny import TINY_IMAGES, TINY_TABLE, tiny_plan
from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.evaluation.result import Better, Evaluation, Group, Measure
from understudy.notebook import html_table
from understudy.planning import plan
from understudy.release.release import Release
from understudy.schema import Categorical, CodeSchema, TableSchema

HOSTILE = "<script>alert(1)</script>\x1b[31m&\"'"


def test_text_of_others_is_shown_and_not_obeyed() -> None:
    """No tag, attribute, entity or control character begins in a name that somebody else wrote."""
    page = html_table(
        HOSTILE, [(HOSTILE, HOSTILE)], head=(HOSTILE, HOSTILE), warning=HOSTILE, notes=[HOSTILE]
    )
    assert "<script" not in page
    assert "\x1b" not in page
    assert '"' not in re.sub(r'style="[a-z0-9:#-]*"', "", page)
    assert page.count("&lt;script&gt;") == 7


def hostile_values() -> list[object]:
    """One value of every kind, with hostile text wherever text of others can stand."""
    schema = TableSchema((Categorical(HOSTILE, (HOSTILE, "b")), Categorical("y", (HOSTILE, "b"))), label="y")
    measure = Measure(HOSTILE, 1.0, Better.HIGHER, Group.UTILITY, unit=HOSTILE)
    reading = Reading(HOSTILE, Outcome.PASS, 1, 0, 2, 1, HOSTILE)
    return [
        schema,
        CodeSchema((HOSTILE,)),
        replace(TINY_IMAGES, classes=(HOSTILE, "b")),
        tiny_plan(schema),
        Evaluation((measure,), None, None, 0, notes=(HOSTILE,)),
        Audit(HOSTILE, 1, 1e-5, 0.9, 1, 1, (reading,), judge([reading])),
    ]


@pytest.mark.parametrize("value", hostile_values(), ids=lambda value: type(value).__name__)
def test_every_value_has_a_page_and_a_short_text(value: object) -> None:
    """Plans, schemas, evaluations and audits show themselves in one line and in one table, both harmless."""
    page: str = value._repr_html_()  # type: ignore[attr-defined]
    assert page.startswith("<div>")
    assert "<script" not in page
    assert len(repr(value)) < 200
    assert "\n" not in repr(value)


def test_a_release_says_what_it_promises(table_release: Release) -> None:
    """ε stands in both forms, and what is not private says so before anything else."""
    cost = table_release.card.plan.spent
    assert cost is not None
    assert f"ε = {cost.epsilon:.4g}" in repr(table_release)
    assert f"{cost.epsilon:.4f}" in table_release._repr_html_()
    open_one = Release(replace(table_release.card, warnings=("seeded.",)), table_release.weights)
    assert "NOT PRIVATE" in repr(open_one)
    assert "NOT PRIVATE: seeded." in open_one._repr_html_()


def test_a_plan_tells_what_it_buys() -> None:
    """The page of a plan holds the noise beside the rows, and a baseline is marked."""
    page = plan(TINY_TABLE, epsilon=1, rows=1000, delta=1e-4)._repr_html_()
    assert "rows per cell of pairs" in page
    assert "1,000 rows in 2 classes" in page
    assert "NOT PRIVATE" in tiny_plan(epsilon=None)._repr_html_()
