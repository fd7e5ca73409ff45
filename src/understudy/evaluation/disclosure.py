"""What a release tells about the people it was trained on: membership and attributes.

These are the two kinds of disclosure that an expert consensus asks to be measured (Pilgram et al. 2025, "A consensus
privacy metrics framework for synthetic data", arXiv 2503.04980), also for differentially private data. Both are
measured against what the same attacker reaches on people who were not in the training rows: what is true of the
population is no disclosure. They are attacks that somebody thought of: a high number shows a leak, a low one is not a
promise. The promise is the accountant's. All of them read training rows and are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import TooFewRows
from understudy.evaluation.intervals import Estimate, from_seeds, wilson
from understudy.evaluation.neighbours import nearest_distances
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.scores import auroc

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "attribute_disclosure",
    "attribute_guesses",
    "membership_disclosure",
    "membership_gain",
    "true_positive_rate_at",
]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
MOST_ROWS, MOST_SYNTHETIC = 2_000, 10_000
LEAST_ROWS = 20
MOST_COLUMNS = 10
_BLOCK = 500


def membership_disclosure(
    synthetic: Floats, training: Floats, holdout: Floats, *, seed: int = 0
) -> tuple[Measure, ...]:
    """An attacker who takes rows near to a synthetic one for training rows, on encoded rows.

    Raises:
        TooFewRows: there are fewer than 20 training or hold-out rows.
    """
    train, held, made = _cut(synthetic, training, holdout, seed)
    scores = np.concatenate([-nearest_distances(side, made) for side in (train, held)])
    member = np.repeat([True, False], len(train))
    rate = true_positive_rate_at(scores[member], scores[~member])
    return (
        _measure(
            "membership AuROC",
            from_seeds(lambda rows: [auroc(member[rows], scores[rows])], len(member), strata=member),
            0.5,
            1.0,
            "How well distance to the synthetic rows tells training rows from others; chance is one half.",
        ),
        _measure(
            "membership F1 above guessing",
            from_seeds(
                lambda rows: [membership_gain(member[rows], scores[rows])],
                len(member),
                strata=member,
                low=-1.0,
            ),
            0.0,
            1.0,
            (
                "F1 of the same attacker, less what accusing everybody gives, as a share of what is left to gain "
                "(El Emam et al. 2022); 0 is guessing, 1 is certainty."
            ),
        ),
        _measure(
            "membership true positives at 1 % false positives",
            wilson(round(rate * len(train)), len(train)),
            0.01,
            1.0,
            "Share of members that the same attacker recognises at 1 % false alarms; chance is 1 %.",
        ),
    )


def membership_gain(member: Bools, scores: Floats) -> float:
    """(F1 - F1 of accusing everybody) / (1 - F1 of accusing everybody), of "the score reaches a threshold".

    The threshold that serves best on every other row is tried on the rows between them.
    """
    order = np.argsort(-scores[0::2], kind="stable")
    tried, truth = scores[0::2][order], member[0::2][order]
    f1 = 2 * np.cumsum(truth) / (np.arange(1, len(truth) + 1) + truth.sum())
    last = np.r_[tried[1:] != tried[:-1], True]
    threshold = tried[int(np.argmax(np.where(last, f1, -1)))]
    held, accused = member[1::2], scores[1::2] >= threshold
    reached = 2 * float((accused & held).sum()) / max(1.0, float(accused.sum() + held.sum()))
    everybody = 2 * float(held.mean()) / (1 + float(held.mean()))
    return (reached - everybody) / (1 - everybody)


def true_positive_rate_at(members: Floats, others: Floats, false_positive_rate: float = 0.01) -> float:
    """Share of members above the threshold that at most the given share of non-members exceeds."""
    allowed = int(np.floor(false_positive_rate * len(others)))
    threshold = np.sort(others)[::-1][allowed]
    return float((members > threshold).mean())


def attribute_disclosure(
    synthetic: Ints, training: Ints, holdout: Ints, names: Sequence[str], *, seed: int = 0
) -> tuple[Measure, ...]:
    """An attacker who knows all of a person but one column, and takes it from the most similar synthetic row.

    The measure is how much oftener that is right for training rows than for hold-out rows. The floor is the same
    with the training rows themselves in the place of synthetic ones.

    Args:
        synthetic: (rows, columns) integer codes.
        training: likewise.
        holdout: likewise.
        names: of the columns.
        seed: of the random cuts.

    Raises:
        TooFewRows: there are fewer than 20 training or hold-out rows.
    """
    train, held, made = _cut(synthetic, training, holdout, seed)
    chance = np.random.default_rng(seed)
    targets = np.sort(chance.permutation(train.shape[1])[:MOST_COLUMNS])
    member, people = np.repeat([True, False], len(train)), np.concatenate([train, held])
    right = attribute_guesses(people, made, targets)
    copied = attribute_guesses(people, _some(training, MOST_SYNTHETIC, chance), targets)
    copied[: len(train)] = True  # a copy of the training rows knows every one of them

    def gain(hits: Bools, rows: npt.NDArray[np.intp]) -> float:
        return float(hits[rows][member[rows]].mean() - hits[rows][~member[rows]].mean())

    gains = [gain(right[:, [j]], np.arange(len(people))) for j in range(len(targets))]
    worst = int(np.argmax(gains))
    words = "How much oftener a column is guessed right from the most similar synthetic row for training rows than "
    return tuple(
        _measure(
            name,
            from_seeds(
                lambda rows, columns=columns: [gain(right[:, columns], rows)],  # type: ignore[misc]
                len(people),
                strata=member,
                low=-1.0,
            ),
            0.0,
            gain(copied[:, columns], np.arange(len(people))),
            words + more,
        )
        for name, columns, more in (
            (
                "attribute disclosure",
                list(range(len(targets))),
                f"for others; mean of {len(targets)} columns.",
            ),
            ("attribute disclosure, worst column", [worst], f"for others; {names[targets[worst]]}."),
        )
    )


def attribute_guesses(people: Ints, made: Ints, targets: Ints) -> Bools:
    """For each person and target column, whether the made row that agrees in most other columns has its value.

    Among equally similar rows the first counts.
    """
    sizes = np.maximum(people.max(axis=0), made.max(axis=0)) + 1
    known = _one_hot(made, sizes)
    right = np.zeros((len(people), len(targets)), dtype=bool)
    for start in range(0, len(people), _BLOCK):
        block = people[start : start + _BLOCK]
        agree = _one_hot(block, sizes) @ known.T
        for place, target in enumerate(targets):
            same = block[:, [target]] == made[:, target][None, :]
            best = (agree - same).argmax(axis=1)
            right[start : start + _BLOCK, place] = same[np.arange(len(block)), best]
    return right


def _one_hot(codes: Ints, sizes: Ints) -> npt.NDArray[np.float32]:
    found = np.zeros((len(codes), int(sizes.sum())), dtype=np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found[np.arange(len(codes))[:, None], codes + starts] = 1
    return found


def _cut(synthetic: Any, training: Any, holdout: Any, seed: int) -> tuple[Any, Any, Any]:
    """Equally many training and hold-out rows, and synthetic ones."""
    generator = np.random.default_rng(seed)
    rows = min(len(training), len(holdout), MOST_ROWS)
    if rows < LEAST_ROWS:
        raise TooFewRows(f"it takes {LEAST_ROWS} training and as many hold-out rows, there are {rows}.")
    return (
        _some(training, rows, generator),
        _some(holdout, rows, generator),
        _some(synthetic, MOST_SYNTHETIC, generator),
    )


def _some(rows: Any, most: int, generator: np.random.Generator) -> Any:
    return rows if len(rows) <= most else rows[generator.choice(len(rows), most, replace=False)]


def _measure(name: str, estimate: Estimate, chance: float, certain: float, words: str) -> Measure:
    return Measure(
        name,
        estimate.value,
        Better.LOWER,
        Group.DISCLOSURE,
        estimate.low,
        estimate.high,
        ceiling=chance,
        floor=certain,
        explanation=words,
    )
