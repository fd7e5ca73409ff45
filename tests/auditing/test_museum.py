"""Every published error is caught; the correct step is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.auditing.museum import PIECES, exhibit, inspect
from understudy.auditing.step import Thoroughness
from understudy.auditing.verdict import Outcome

QUICK = Thoroughness(rounds=80, opposed_rounds=20, training_rounds=2, empty_rounds=4, sampler_rounds=200)
OPPOSED = replace(QUICK, rounds=8, opposed_rounds=400)
WRONG = [piece for piece in PIECES if piece.error]
EXPECTED = {
    "dp-gan-noise": "multiplier",
    "dp-gan-groups": "multiplier",
    "dp-cgan-accountant": "variance",
    "dp-cgan-tensors": "multiplier",
    "dp-cgan-labels": "multiplier",
    "dp-cgan-tf2-microbatch": "opposed",
    "ppgan-mean": "opposed",
    "sprint-squared": "multiplier",
    "shuffled-epochs": "batch-size",
}


@pytest.mark.parametrize("piece", WRONG, ids=lambda piece: piece.name)
def test_published_errors_are_caught(piece):
    """Each re-enacted error fails, by the reading that is made for it."""
    line = exhibit(piece, inspect(piece, OPPOSED if EXPECTED[piece.name] == "opposed" else QUICK))
    assert line.verdict is Outcome.FAIL
    assert line.reading == EXPECTED[piece.name]
    if piece.name not in ("dp-cgan-accountant", "shuffled-epochs"):
        assert line.lower_bound > line.claimed_epsilon


def test_collection_holds_the_correct_step_once():
    """The last piece, and only that one, has no error."""
    assert [piece.name for piece in PIECES if not piece.error] == ["understudy"]
    assert set(EXPECTED) == {piece.name for piece in WRONG}
