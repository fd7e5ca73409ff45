"""Published measures: sensitivity by brute force, charge before reading, and nothing but the noisy vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doubles import Repeatable
from several import together
from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.ranks import ALONE, Ranks
from understudy.door.source import Rows
from understudy.errors import EvaluationError
from understudy.evaluation import released
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.queries import MeasureCounts
from understudy.evaluation.scores import auroc, auroc_from_histograms
from understudy.evaluation.sources import ReleaseSource
from understudy.privacy.accounting import spent
from understudy.privacy.budget import Budget
from understudy.privacy.mechanisms import Charge, GaussianRelease, SubsampledGaussian
from understudy.records.encode import encode
from understudy.schema import Binary, Categorical, CodeSchema, Continuous, TableSchema

SCHEMA = TableSchema(
    (Continuous("age", 0, 100), Categorical("town", ("a", "b", "c")), Binary("ill")), label="ill"
)


class NoNoise:
    """A planted bug: no noise at all."""

    private = True

    def perturb(self, tensors: Any, scale: float, factor: float) -> None:
        """Nothing is added."""
        del scale
        for one in tensors:
            one.mul_(factor)


def people(rows: int, seed: int) -> pd.DataFrame:
    """Rows whose label depends on age."""
    generator = np.random.default_rng(seed)
    age = generator.uniform(0, 100, rows)
    ill = (age + generator.normal(0, 10, rows) > 50).astype(int).astype(str)
    return pd.DataFrame({"age": age, "town": generator.choice(list("abc"), rows), "ill": ill})


def vector_of(frame: pd.DataFrame, release: Any) -> np.ndarray:
    """The exact counts that would be published."""
    drawn = ReleaseSource(release).draw(500, 0)
    predictor = train(Learner.LOGISTIC_REGRESSION, drawn.features, drawn.labels, 2, 0)
    encoded = encode(frame, SCHEMA)
    query = MeasureCounts(SCHEMA, 2, Layout.of(SCHEMA), predictor)
    door = Door(Rows(encoded.x, encoded.labels), (), SeededNoise(0), private=False)
    return door.publish("x", query).value.numpy()


def test_one_row_moves_the_vector_by_the_stated_sensitivity(pool_release: Any) -> None:
    """Removing any row changes the counts by exactly √(2 + classes + columns), never more."""
    release = pool_release(SCHEMA, people(500, 0))
    frame = people(60, 1)
    whole = vector_of(frame, release)
    found = released.publish_measures(release, frame, Charge("x", GaussianRelease(5.0)))
    moves = [np.linalg.norm(whole - vector_of(frame.drop(index=row), release)) for row in frame.index]
    assert max(moves) == pytest.approx(found.sensitivity)
    assert found.sensitivity == pytest.approx(math.sqrt(2 + 2 + 3))


def test_noise_has_the_deviation_of_the_charge(pool_release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published vector differs from the exact one by σ · sensitivity, not by less."""
    release = pool_release(SCHEMA, people(500, 0))
    frame = people(200, 1)
    seen: list[np.ndarray] = []
    measures = released._measures
    monkeypatch.setattr(
        released, "_measures", lambda vector, *rest: (seen.append(vector), measures(vector, *rest))[1]
    )
    source = Repeatable(5)
    monkeypatch.setattr(released, "SecureNoise", lambda: source)
    for _ in range(40):
        released.publish_measures(release, frame, Charge("x", GaussianRelease(3.0)), rows=500)
    spread = np.std(np.stack(seen) - vector_of(frame, release))
    assert spread == pytest.approx(3.0 * math.sqrt(7), rel=0.05)


def test_without_noise_the_numbers_are_the_exact_ones(
    pool_release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Post-processing is right: with no noise, accuracy is exact and AuROC is within a bin of the exact one."""
    release = pool_release(SCHEMA, people(2000, 0))
    frame = people(2000, 1)
    monkeypatch.setattr(released, "SecureNoise", NoNoise)
    found = released.publish_measures(release, frame, Charge("x", GaussianRelease(1e-9)), rows=2000)
    named = {measure.name: measure for measure in found.measures}
    drawn = ReleaseSource(release).draw(2000, 0)
    predictor = train(Learner.LOGISTIC_REGRESSION, drawn.features, drawn.labels, 2, 0)
    test = ReleaseSource(pool_release(SCHEMA, frame)).release
    encoded = encode(test.pool, SCHEMA)  # type: ignore[attr-defined]
    probabilities = predictor(encoded.x)
    assert encoded.labels is not None
    exact = (probabilities.argmax(axis=1) == encoded.labels).mean()
    assert named["published logistic regression: accuracy"].value == pytest.approx(exact)
    assert named["published logistic regression: macro AuROC"].value == pytest.approx(
        auroc(encoded.labels == 1, probabilities[:, 1]), abs=0.01
    )
    assert named["published one-way marginal error"].value < 0.1
    assert not any(measure.internal for measure in found.measures)


def test_histogram_auroc_agrees_with_the_exact_one() -> None:
    """AuROC of binned scores equals the rank statistic of the bins, and empty histograms know nothing."""
    generator = np.random.default_rng(0)
    members, others = generator.integers(3, 10, 400), generator.integers(0, 8, 300)
    expected = auroc(np.repeat([True, False], [400, 300]), np.concatenate([members, others]).astype(float))
    counts = [np.bincount(side, minlength=20).astype(float) for side in (members, others)]
    assert auroc_from_histograms(*counts) == pytest.approx(expected)
    assert auroc_from_histograms(np.zeros(3), np.ones(3)) == 0.5


def test_the_charge_fits_its_budget_and_is_reserved_before_reading(pool_release: Any) -> None:
    """The ledger hears of the charge before a private row is read; a refusal leaves the rows unread."""
    budget = Budget(0.5, 1e-6)
    charge = released.evaluation_charge(budget)
    assert spent([charge], 1e-6).epsilon <= 0.5
    assert spent([charge], 1e-6).epsilon > 0.49

    class Unreadable:
        @property
        def content(self) -> pd.DataFrame:
            raise AssertionError("private rows were read before the charge")

    def refuse(_: Charge) -> None:
        raise EvaluationError("no budget left")

    release = pool_release(SCHEMA, people(300, 0))
    with pytest.raises(EvaluationError, match="no budget left"):
        released.publish_measures(release, Unreadable(), charge, reserve=refuse, rows=300)


def test_other_charges_and_unlabelled_data_are_refused(pool_release: Any) -> None:
    """A charge that is not one Gaussian release, or a schema without label, cannot be published."""
    release = pool_release(SCHEMA, people(300, 0))
    with pytest.raises(EvaluationError, match="one Gaussian release"):
        released.publish_measures(release, people(10, 1), Charge("x", SubsampledGaussian(0.1, 1.0, 3)))
    codes = pool_release(CodeSchema(("a", "b")), pd.DataFrame({"a": [0, 1], "b": [1, 0]}))
    with pytest.raises(EvaluationError, match="label"):
        released.publish_measures(
            codes, pd.DataFrame({"a": [0], "b": [1]}), Charge("x", GaussianRelease(1.0))
        )


def test_several_processes_publish_the_measures_of_all_their_rows(
    pool_release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test rows in two processes, reserved once, give without noise what one process with all of them gives."""
    monkeypatch.setattr(released, "SecureNoise", NoNoise)
    release, frame, charge = (
        pool_release(SCHEMA, people(500, 0)),
        people(60, 1),
        Charge("x", GaussianRelease(5.0)),
    )
    reserved: list[int] = []

    def publish(ranks: Ranks) -> list[float]:
        found = released.publish_measures(
            release,
            frame.iloc[ranks.rank :: ranks.size],
            charge,
            rows=500,
            reserve=lambda _: reserved.append(ranks.rank),
            ranks=ranks,
        )
        return [measure.value for measure in found.measures]

    whole = publish(ALONE)
    assert together(2, publish) == [whole, whole]
    assert reserved == [0, 0]
