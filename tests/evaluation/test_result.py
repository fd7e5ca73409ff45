"""The typed results: JSON round trip, public view, and refusals."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
from rich.console import Console

from understudy.errors import EvaluationError
from understudy.evaluation.result import Better, Correlations, Evaluation, Group, Marginal, Measure, Pictures

ACCURACY = Measure(
    "accuracy",
    0.8,
    Better.HIGHER,
    Group.UTILITY,
    0.7,
    0.9,
    ceiling=0.9,
    floor=0.1,
    explanation="Share right.",
)
VALIDITY = Measure("validity", 1.0, Better.HIGHER, Group.FIDELITY, internal=False)
WHOLE = Evaluation(
    (ACCURACY, VALIDITY),
    synthetic_rows=10,
    test_rows=5,
    seed=3,
    marginals=(Marginal("age", ("young", "old"), (0.5, 0.5), (0.4, 0.6)),),
    correlations=Correlations(("a", "b"), ((1.0, 0.2), (0.2, 1.0)), ((1.0, 0.1), (0.1, 1.0))),
    pictures=Pictures(1, 2, 1, ((0, 255),), ((1, 254),)),
    notes=("a note",),
)


def test_json_round_trip() -> None:
    """Everything that is written is read back equal."""
    assert Evaluation.from_json(WHOLE.to_json()) == WHOLE


def test_json_holds_no_nan() -> None:
    """A number that is not finite becomes null, so that any JSON reader can read it."""
    text = dataclasses.replace(WHOLE, measures=(dataclasses.replace(ACCURACY, value=math.nan),)).to_json()
    assert "NaN" not in text
    assert math.isnan(Evaluation.from_json(text)["accuracy"].value)


def test_public_view_holds_nothing_internal() -> None:
    """Only covered measures survive; charts of real rows and neighbours are gone."""
    public = WHOLE.public()
    assert [measure.name for measure in public.measures] == ["validity"]
    assert (public.marginals, public.correlations, public.pictures) == ((), None, None)
    assert (public.synthetic_rows, public.test_rows) == (None, None)
    assert Evaluation.from_json(public.to_json()) == public
    assert "0.8" not in public.to_json()


def test_share_of_ceiling() -> None:
    """0.8 between a floor of 0.1 and a ceiling of 0.9 is 7/8 of the way."""
    assert ACCURACY.share_of_ceiling == pytest.approx(7 / 8)
    assert VALIDITY.share_of_ceiling is None


def test_lookup_and_refusals() -> None:
    """Unknown and repeated names, turned intervals and foreign files are refused with words."""
    assert WHOLE["accuracy"] is ACCURACY
    with pytest.raises(EvaluationError, match="no measure is called"):
        WHOLE["nothing"]
    with pytest.raises(EvaluationError, match="unique"):
        dataclasses.replace(WHOLE, measures=(ACCURACY, ACCURACY))
    with pytest.raises(EvaluationError, match="turned around"):
        dataclasses.replace(ACCURACY, low=0.9, high=0.7)
    for foreign in ("{}", "[]", "not json", '{"measures": [{"name": 1}]}'):
        with pytest.raises(EvaluationError, match=r"not an evaluation|missing|expected|not valid JSON"):
            Evaluation.from_json(foreign)


def test_table_marks_internal_numbers() -> None:
    """The printed table carries every measure and the mark of those that read private rows."""
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(WHOLE.table())
    text = console.export_text()
    assert "accuracy †" in text
    assert "validity " in text
    assert "validity †" not in text
