"""Every measure moves the right way as synthetic data gets worse step by step.

Real split, 10 % of the cells replaced by noise, 50 %, columns shuffled, one constant row.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from understudy.evaluation import images
from understudy.evaluation.codes import code_measures
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.propensity import propensity
from understudy.evaluation.result import Better, Measure
from understudy.evaluation.tables import table_fidelity
from understudy.evaluation.utility import Labelled, utility

STEPS = ("real", "noise 10 %", "noise 50 %", "shuffled", "constant")


def degraded(rows: np.ndarray, step: str, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rows after one of the five steps."""
    generator = np.random.default_rng(5)
    if step == "shuffled":
        return np.stack([generator.permutation(column) for column in rows.T], axis=1)
    if step == "constant":
        return np.repeat(rows[:1], len(rows), axis=0)
    share = {"real": 0.0, "noise 10 %": 0.1, "noise 50 %": 0.5}[step]
    noise = generator.uniform(low, high, rows.shape)
    return np.where(generator.random(rows.shape) < share, noise, rows)


@functools.cache
def cancer() -> tuple[np.ndarray, np.ndarray, Layout]:
    """Two halves of the breast-cancer table, six columns and the diagnosis."""
    bunch = load_breast_cancer()
    rows = np.column_stack([bunch.data[:, :6], bunch.target])[np.random.default_rng(0).permutation(569)]
    bounds = {f"x{j}": (float(rows[:, j].min()), float(rows[:, j].max())) for j in range(6)}
    return rows[:285], rows[285:], Layout(bounds, {"label": (0.0, 1.0)}, bins=8)


@functools.cache
def table_measures(step: str) -> dict[str, Measure]:
    """Fidelity of the degraded first half against the second."""
    first, second, layout = cancer()
    low, high = (np.array([*(b[k] for b in layout.numeric.values()), k]) for k in (0, 1))
    rows = degraded(first, step, low, high)
    rows[:, 6] = np.round(rows[:, 6])
    synthetic, test = (pd.DataFrame(r, columns=[*layout.columns]) for r in (rows, second))
    return {
        measure.name: measure
        for measure in (*table_fidelity(synthetic, test, layout), *propensity(synthetic, test, layout))
    }


def worsening(measures: list[Measure]) -> bool:
    """Whether the values get worse from each step to the next."""
    values = [measure.value for measure in measures]
    pairs = itertools.pairwise(values)
    return all(a < b if measures[0].better is Better.LOWER else a > b for a, b in pairs)


@pytest.mark.parametrize(
    "name",
    [
        "one-way marginal error",
        "two-way marginal error",
        "three-way marginal error",
        "Wasserstein distance: x2",
    ],
)
def test_marginal_measures_worsen_with_noise_and_collapse(name: str) -> None:
    """Noise raises marginal errors step by step and a constant row raises them most.

    In bins of equal mass a tenth of noise in 285 rows is below the sampling error of single columns.
    """
    left_out = {"shuffled", "noise 10 %"} if name.startswith("one-way") else {"shuffled"}
    assert worsening([table_measures(step)[name] for step in STEPS if step not in left_out])


@pytest.mark.parametrize(
    "name",
    [
        "two-way marginal error",
        "correlation difference",
        "mutual information difference",
        "two-sample AuROC",
        "propensity (pMSE)",
    ],
)
def test_dependence_measures_see_noise_and_shuffling(name: str) -> None:
    """Measures of dependence worsen with noise and see columns that were shuffled."""
    assert worsening([table_measures(step)[name] for step in STEPS[:3]])
    assert worsening([table_measures("real")[name], table_measures("shuffled")[name]])


def test_one_way_measures_do_not_see_shuffling() -> None:
    """Shuffling columns keeps one-way marginals, which is why two-way ones are needed."""
    real, shuffled = table_measures("real"), table_measures("shuffled")
    assert shuffled["one-way marginal error"].value == real["one-way marginal error"].value


def test_a_constant_row_covers_few_categories() -> None:
    """Mode collapse shows in category coverage, although every row is valid."""
    assert table_measures("real")["category coverage"].value == 1.0
    assert table_measures("constant")["category coverage"].value == 0.5


@functools.cache
def digit_measures(step: str) -> dict[str, Measure]:
    """Utility of the degraded first half of the digits against the second."""
    bunch = load_digits()
    order = np.random.default_rng(1).permutation(1797)
    pixels, labels = bunch.data[order] / 8 - 1, bunch.target[order]
    worse = degraded(pixels[:900], step, np.full(64, -1.0), np.full(64, 1.0))

    class Source:
        def draw(self, rows: int, seed: int) -> Labelled:
            return Labelled(worse[:rows], labels[:rows], 10)

    test = Labelled(pixels[900:], labels[900:], 10)
    found = utility(Source(), test, rows=900, learners=[Learner.LOGISTIC_REGRESSION], seeds=(0,))
    return {measure.name: measure for measure in found}


@pytest.mark.parametrize("score", ["accuracy", "balanced accuracy", "macro AuROC", "micro AuROC"])
def test_utility_worsens_with_noise_and_shuffling(score: str) -> None:
    """Classifiers trained on worse digits score worse, down to chance for shuffled and constant ones."""
    name = f"logistic regression: {score}"
    assert worsening([digit_measures(step)[name] for step in STEPS[:4]])
    chance = 0.5 if "macro" in score else 0.1
    if "micro" not in score:
        assert abs(digit_measures("constant")[name].value - chance) < 0.05


def test_image_statistics_worsen_with_noise_and_collapse() -> None:
    """The Fréchet distance grows with noise, and coverage and recall vanish for one repeated image."""
    bunch = load_digits()
    pixels = bunch.data[np.random.default_rng(2).permutation(1797)] / 8 - 1
    low, high = np.full(64, -1.0), np.full(64, 1.0)
    sets = {step: degraded(pixels[:800], step, low, high) for step in STEPS}
    distance = [images.frechet_distance(pixels[800:], sets[step]) for step in STEPS]
    assert distance == sorted(distance[:3]) + distance[3:]
    assert min(distance[1:]) > distance[0]
    scores = {step: images.manifold_scores(pixels[800:], sets[step]) for step in STEPS}
    assert scores["real"].coverage > scores["noise 10 %"].coverage > scores["noise 50 %"].coverage
    assert scores["real"].precision > scores["noise 50 %"].precision
    assert scores["constant"].recall < 0.01
    assert scores["constant"].coverage < 0.05


def test_inception_scores_worsen_with_noise_and_collapse() -> None:
    """A classifier of real digits finds worse images less sure or less varied, down to 1 for one repeated image."""
    bunch = load_digits()
    order = np.random.default_rng(2).permutation(1797)
    pixels, labels = bunch.data[order] / 8 - 1, bunch.target[order]
    judge = train(Learner.MLP, pixels[800:], labels[800:], 10, 0)
    low, high = np.full(64, -1.0), np.full(64, 1.0)
    found = [images.inception_score(judge(degraded(pixels[:800], step, low, high))) for step in STEPS]
    assert found[0] > found[1] > found[2], found
    assert found[0] > found[3], found
    assert found[4] == pytest.approx(1.0)


def test_code_measures_worsen_with_noise_and_collapse() -> None:
    """Flipped codes raise every code measure step by step; one repeated row raises prevalence error most."""
    generator = np.random.default_rng(3)
    ill = generator.random((8000, 1)) < 0.4
    rows = (generator.random((8000, 8)) < np.where(ill, 0.6, 0.1)).astype(float)
    found = []
    for step in ("real", "noise 10 %", "noise 50 %", "constant"):
        worse = np.round(degraded(rows[:4000], step, np.zeros(8), np.ones(8)))
        measures = code_measures(worse, rows[4000:], predicted_codes=3)
        found.append({name: compute() for name, compute in measures})
    for name in ("prevalence error", "co-occurrence error", "codes per row error"):
        assert worsening([measures[name] for measures in found[:3]]), name
    assert worsening([measures["prevalence error"] for measures in found])
    assert worsening([measures["dimension-wise prediction"] for measures in (found[0], found[2])])
