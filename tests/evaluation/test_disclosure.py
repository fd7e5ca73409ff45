"""Disclosure: copies of training rows betray membership and attributes, honest rows do not."""

from __future__ import annotations

import numpy as np
import pytest

from tiny import three_sets
from understudy.errors import TooFewRows
from understudy.evaluation import disclosure
from understudy.evaluation.result import Group


def coded(rows: int, seed: int) -> np.ndarray:
    """Integer codes: two columns that go together, and six of chance."""
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 4, rows)
    return np.column_stack([first, first, generator.integers(0, 5, (rows, 6))])


NAMES = [f"c{j}" for j in range(8)]


def test_true_positive_rate_by_hand() -> None:
    """Non-members scored 0..99 set the threshold at 98: members at 99 and 98.5 pass, 98 does not."""
    assert disclosure.true_positive_rate_at(np.array([99, 98.5, 98, 0]), np.arange(100.0)) == 0.5


def test_membership_gain_by_hand() -> None:
    """An attacker who is always right gains 1, one who knows nothing accuses everybody and gains 0."""
    member = np.array([True, True, False, False] * 10)
    assert disclosure.membership_gain(member, member.astype(float)) == 1.0
    assert disclosure.membership_gain(member, np.zeros(40)) == 0.0


def test_honest_rows_tell_nothing() -> None:
    """Fresh rows of the same distribution: no attacker gains on members."""
    training, holdout, fresh = three_sets()
    found = {m.name: m for m in disclosure.membership_disclosure(fresh, training, holdout)}
    assert 0.45 < found["membership AuROC"].value < 0.55
    assert abs(found["membership F1 above guessing"].value) < 0.1
    assert found["membership true positives at 1 % false positives"].value < 0.05
    assert all(one.internal and one.group is Group.DISCLOSURE for one in found.values())


def test_copies_betray_membership() -> None:
    """A generator that repeats its training rows, also a little changed, is caught by every measure."""
    training, holdout, fresh = three_sets()
    for made, least in ((training, 1.0), (training + 0.01 * fresh, 0.9)):
        found = {m.name: m.value for m in disclosure.membership_disclosure(made, training, holdout)}
        assert min(found.values()) >= least, found


def test_attributes_of_members_are_told_by_copies_only() -> None:
    """What is true of the population (two columns that go together) is no disclosure; a copied person is."""
    training, holdout, fresh = coded(400, 0), coded(400, 1), coded(400, 2)
    honest = disclosure.attribute_disclosure(fresh, training, holdout, NAMES)[0]
    copied, worst = disclosure.attribute_disclosure(training, training, holdout, NAMES)
    assert abs(honest.value) < 0.05
    assert honest.floor == pytest.approx(copied.floor)
    assert copied.value > 0.4
    assert worst.value > copied.value
    assert worst.explanation.endswith(("c2.", "c3.", "c4.", "c5.", "c6.", "c7."))


def test_guesses_by_hand() -> None:
    """The made row that agrees in most other columns gives the guess, and the target itself does not help."""
    people = np.array([[0, 0, 1], [1, 1, 0]])
    made = np.array([[0, 0, 1], [1, 1, 1]])
    right = disclosure.attribute_guesses(people, made, np.array([2]))
    assert right[:, 0].tolist() == [True, False]


def test_too_few_rows_are_said() -> None:
    """With 19 hold-out rows an attack shows nothing."""
    rows = np.zeros((50, 2))
    with pytest.raises(TooFewRows, match="there are 19"):
        disclosure.membership_disclosure(rows, rows, rows[:19])
