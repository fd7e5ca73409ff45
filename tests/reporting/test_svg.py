"""Charts: well-formed, labelled, escaped, and with marks where the numbers say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.reporting import svg

HOSTILE = "<script>alert('x')</script> & \"quotes\""


def parsed(chart: object) -> ET.Element:
    """The chart as a tree; fails if it is not well-formed."""
    return ET.fromstring(str(chart))


@pytest.mark.parametrize(
    "chart",
    [
        svg.ranges(HOSTILE, [svg.Range(HOSTILE, 0.5, 0.4, 0.6, 0.9, 0.1)], description=HOSTILE),
        svg.bars(HOSTILE, [HOSTILE], [0.2], [0.4]),
        svg.histogram(HOSTILE, [HOSTILE, "b"], [0.2, 0.8], [0.4, 0.6]),
        svg.heatmap(HOSTILE, [HOSTILE, "b"], [[1, -1], [-1, 1]], description=HOSTILE),
        svg.curve(
            HOSTILE, [svg.Series(HOSTILE, ((1, 2), (3, 4)))], x_name=HOSTILE, y_name="y", description="d"
        ),
        svg.meter(svg.Range(HOSTILE, 0.5, ceiling=0.9, floor=0.1)),
    ],
)
def test_charts_are_well_formed_labelled_and_escaped(chart: object) -> None:
    """Each chart parses as XML, names itself for screen readers, and holds hostile text as text only."""
    root = parsed(chart)
    assert root.attrib["role"] == "img"
    title = root.find("title")
    assert title is not None
    assert title.text
    assert "script" not in {element.tag for element in root.iter()}
    named = root.attrib["aria-labelledby"].split()
    assert {element.attrib.get("id") for element in root} >= set(named)


def test_range_chart_puts_marks_in_order() -> None:
    """Floor, dot and ceiling stand in the order of their values on one axis."""
    root = parsed(svg.ranges("t", [svg.Range("a", 0.5, 0.45, 0.55, 0.9, 0.1)], description="d"))
    at = {line.attrib["class"]: float(line.attrib["x1"]) for line in root.iter("line")}
    dot = next(float(circle.attrib["cx"]) for circle in root.iter("circle"))
    assert at["floor"] < at["interval"] < dot < at["ceiling"]
    middle = (at["floor"] + at["ceiling"]) / 2
    assert dot == pytest.approx(middle, abs=0.02)


def test_meter_is_empty_without_both_ends() -> None:
    """Without a ceiling, or with a ceiling equal to the floor, there is nothing to draw."""
    assert str(svg.meter(svg.Range("a", 0.5, floor=0.1))) == ""
    assert str(svg.meter(svg.Range("a", 0.5, ceiling=0.1, floor=0.1))) == ""


def test_meter_of_a_lower_is_better_measure_runs_the_same_way() -> None:
    """With a ceiling below the floor, a value near the ceiling still stands at the right."""
    near = parsed(svg.meter(svg.Range("a", 0.1, ceiling=0.0, floor=1.0)))
    assert next(float(c.attrib["cx"]) for c in near.iter("circle")) == pytest.approx(100)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_axes_hold_every_value(values: list[float]) -> None:
    """Whatever the values, every dot lies inside the chart and no coordinate is NaN."""
    text = str(svg.ranges("t", [svg.Range("a", value) for value in values], description="d"))
    assert "nan" not in text
    assert "inf" not in re.sub("inf[a-z]", "", text)
    assert all(0 <= float(c.attrib["cx"]) <= svg.WIDTH for c in parsed(text).iter("circle"))


def test_logarithmic_axis_is_labelled_at_powers_of_ten() -> None:
    """From 0.001 to 1 the axis shows four powers of ten."""
    points = ((0.001, 0.1), (0.02, 0.3), (1.0, 1.0))
    root = parsed(
        svg.curve("t", [svg.Series("s", points)], x_name="x", y_name="y", description="d", logarithmic=True)
    )
    labels = [text.text for text in root.iter("text") if text.attrib["text-anchor"] == "middle"]
    assert labels[:-1] == ["0.001", "0.01", "0.1", "1"]
