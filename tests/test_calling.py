"""Calls from Python: a wrong one gets one sentence with the right one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import understudy
from tiny import TINY_TABLE, tiny_frame, tiny_plan
from understudy.calling import explained, number, whole
from understudy.errors import CallError, ReleaseError, UnderstudyError
from understudy.release.release import Release


@explained("half(value=1)")
def half(value: float, *, exactly: bool = True) -> float:
    """What the tests call."""
    return value / 2 if exactly else value // 2


def test_right_calls_pass() -> None:
    """Explaining wrong calls changes nothing about right ones."""
    assert half(3) == 1.5
    assert half(3, exactly=False) == 1
    assert half.__doc__ == "What the tests call."


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: half(exactly=True), "missing a required argument: 'value'. Call it as half(value=1)."),  # type: ignore[call-arg]
        (lambda: half(1, exact=True), "did you mean 'exactly'?"),  # type: ignore[call-arg]
        (lambda: half(1, 2, 3), "too many positional arguments. Call it as half(value=1)."),  # type: ignore[call-arg]
    ],
)
def test_arguments_that_do_not_exist_are_explained(call: Callable[[], object], words: str) -> None:
    """What is missing, misspelled or too much is named, with a right call; it is a TypeError for those who catch it."""
    with pytest.raises(CallError) as raised:
        call()
    assert words in str(raised.value)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, UnderstudyError)


def test_numbers_are_taken_in_every_spelling() -> None:
    """1e3 rows are a thousand, also by numpy; a text, a truth and a fraction are not."""
    assert [whole("rows", value) for value in (1000, 1e3, np.int64(1000), np.float32(1000))] == [1000] * 4
    assert number("epsilon", np.float64(1)) == 1.0
    for wrong in ("1", True, None, 1.5, float("nan"), [1]):
        with pytest.raises(CallError, match="rows must be a whole number, as in rows=1000"):
            whole("rows", wrong)
    for wrong in ("1", True, None):
        with pytest.raises(CallError, match="epsilon must be a number, as in epsilon=1"):
            number("epsilon", wrong)


FRAME = tiny_frame()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: understudy.fit(TINY_TABLE, FRAME), r"takes the data first: understudy.fit\(data, schema"),  # type: ignore[arg-type]
        (lambda: understudy.fit(FRAME, TINY_TABLE), "say how much may be spent"),
        (lambda: understudy.fit(FRAME, TINY_TABLE, epsilon="1"), "epsilon must be a number"),  # type: ignore[arg-type]
        (lambda: understudy.fit(FRAME, FRAME, epsilon=1), "a schema is expected, .* this is a DataFrame"),  # type: ignore[arg-type]
        (lambda: understudy.fit(FRAME, tiny_plan(), epsilon=1), "epsilon belong to the plan"),
        (lambda: understudy.fit(FRAME, TINY_TABLE, eps=1), "did you mean 'epsilon'"),  # type: ignore[call-arg]
        (lambda: understudy.plan(TINY_TABLE, epsilon=1), "missing a required argument: 'rows'"),  # type: ignore[call-arg]
        (lambda: understudy.plan(TINY_TABLE, epsilon=1, rows="all"), "rows must be a whole number"),  # type: ignore[arg-type]
        (lambda: understudy.sample(FRAME, 10), "a release is expected, or the path of its folder"),  # type: ignore[arg-type]
    ],
)
def test_wrong_calls_of_the_verbs_name_the_right_one(call: Callable[[], object], words: str) -> None:
    """Nobody needs the manual to mend a call, and nothing is spent by it."""
    with pytest.raises(CallError, match=words):
        call()


def test_a_number_of_records_is_asked_for_in_words(table_release: Release) -> None:
    """A negative number or a text is refused with an example; 1e1 records are ten."""
    assert len(table_release.sample(1e1, seed=1)) == 10
    with pytest.raises(ReleaseError, match=r"as in sample\(1000\); got -1"):
        table_release.sample(-1)
    with pytest.raises(CallError, match="rows must be a whole number"):
        table_release.sample("10")  # type: ignore[arg-type]
    with pytest.raises(CallError, match=r"release.sample\(1000\)"):
        table_release.sample()  # type: ignore[call-arg]
