"""Train on synthetic, test on real: draws, ceilings, floors and the walls around private rows."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from understudy.errors import EvaluationError
from understudy.evaluation.learners import Learner, prior_predictor, train
from understudy.evaluation.utility import Labelled, utility


def digits() -> tuple[Labelled, Labelled, Labelled]:
    """Three disjoint parts of scikit-learn's digits, as images in [-1, 1]."""
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    pixels = (bunch.images / 8 - 1).astype(np.float32)[order, None]
    return tuple(  # type: ignore[return-value]
        Labelled(pixels[part], bunch.target[order][part], 10) for part in np.array_split(np.arange(1797), 3)
    )


@dataclass
class Pool:
    """A source that draws from a fixed pool and remembers what it was asked."""

    pool: Labelled
    asked: list[tuple[int, int]] = field(default_factory=list)

    def draw(self, rows: int, seed: int) -> Labelled:
        """Rows of the pool with replacement."""
        self.asked.append((rows, seed))
        chosen = np.random.default_rng(seed).integers(0, len(self.pool), rows)
        return Labelled(self.pool.features[chosen], self.pool.labels[chosen], self.pool.classes)


def test_digits_reach_near_their_ceiling() -> None:
    """Resampled real digits score near the real-data ceiling and far above the floor."""
    reference, pool, test = digits()
    source = Pool(pool)
    measures = {
        m.name: m
        for m in utility(
            source,
            test,
            reference=reference,
            learners=[Learner.LOGISTIC_REGRESSION],
            seeds=(0, 1),
            augment=True,
        )
    }
    accuracy = measures["logistic regression: accuracy"]
    assert accuracy.ceiling is not None
    assert accuracy.floor is not None
    assert accuracy.ceiling > 0.93
    assert accuracy.floor < 0.15
    assert accuracy.value > 0.85
    assert accuracy.low is not None
    assert accuracy.low < accuracy.value
    assert measures["logistic regression: macro AuROC"].floor == 0.5
    assert measures["logistic regression, real + synthetic: accuracy"].value > 0.9
    assert source.asked == [(599, 0), (599, 1)]
    assert all(measure.internal for measure in measures.values())


def test_trainings_side_by_side_give_the_same_numbers(tmp_path: Path) -> None:
    """Two threads, or ceilings kept from before, change no digit of any measure, the CNN's included."""
    reference, pool, test = digits()
    few = Labelled(pool.features[:200], pool.labels[:200], 10)

    def measured(workers: int, cache: Path | None) -> object:
        return utility(
            Pool(few),
            test,
            reference=Labelled(reference.features[:200], reference.labels[:200], 10),
            learners=[Learner.LOGISTIC_REGRESSION, Learner.MLP, Learner.CNN],
            seeds=(0, 1),
            cache=cache,
            workers=workers,
        )

    alone = measured(1, None)
    assert measured(2, tmp_path) == alone
    kept = list(tmp_path.iterdir())
    assert len(kept) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert measured(2, tmp_path) == alone


def test_each_learner_learns_the_digits() -> None:
    """Every classifier, the CNN included, beats nine in ten digits when trained on real ones."""
    first, second, test = digits()
    both = first.with_rows_of(second)
    for learner, least in zip(Learner, (0.93, 0.93, 0.9, 0.85), strict=True):
        probabilities = train(learner, both.features, both.labels, 10, 0)(test.features)
        assert probabilities.shape == (len(test), 10)
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(test)))
        assert (probabilities.argmax(axis=1) == test.labels).mean() > least, learner


def test_classes_that_were_never_drawn_get_probability_zero() -> None:
    """A generator that forgot a class is scored, not refused, and cannot win on that class."""
    train_rows, _, test = digits()
    some = train_rows.labels < 5
    predictor = train(Learner.LOGISTIC_REGRESSION, train_rows.features[some], train_rows.labels[some], 10, 0)
    probabilities = predictor(test.features)
    assert probabilities[:, 5:].max() == 0.0
    single = train(Learner.MLP, train_rows.features[:3], np.zeros(3, int), 10, 0)(test.features)
    assert single[:, 0].min() == 1.0


def test_floor_knows_only_the_class_shares() -> None:
    """The trivial predictor returns the shares of its labels whatever the features."""
    assert prior_predictor(np.array([0, 1, 1, 1]), 3)(np.zeros((2, 5))).tolist() == [[0.25, 0.75, 0.0]] * 2


def test_no_argument_takes_synthetic_rows() -> None:
    """Synthetic rows are drawn from the source; there is no parameter to pass rows in under that name."""
    assert list(inspect.signature(utility).parameters) == [
        "source",
        "test",
        "reference",
        "learners",
        "rows",
        "seeds",
        "augment",
        "cache",
        "workers",
        "on_progress",
    ]


def test_progress_reaches_the_end() -> None:
    """The callback is called once per training and ends at one."""
    reference, pool, test = digits()
    seen: list[float] = []
    utility(
        Pool(pool),
        test,
        reference=reference,
        learners=[Learner.LOGISTIC_REGRESSION],
        seeds=(0,),
        on_progress=lambda _, share: seen.append(share),
    )
    assert seen == [0.5, 1.0]


def test_refusals() -> None:
    """Rows that do not fit, missing rows and impossible labels are named."""
    _reference, pool, test = digits()
    flat = Labelled(test.features.reshape(len(test), -1), test.labels, 10)
    with pytest.raises(EvaluationError, match="Encode both"):
        utility(Pool(pool), flat, seeds=(0,))
    with pytest.raises(EvaluationError, match="reference rows"):
        utility(Pool(pool), test, augment=True)
    with pytest.raises(EvaluationError, match="test rows"):
        utility(Pool(pool), Labelled(test.features[:0], test.labels[:0], 10))
    with pytest.raises(EvaluationError, match="labels must lie"):
        Labelled(test.features, test.labels, 9)
    with pytest.raises(EvaluationError, match="but 3 labels"):
        Labelled(test.features, test.labels[:3], 10)
