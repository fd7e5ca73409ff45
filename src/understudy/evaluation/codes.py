"""Fidelity of code vectors (one binary column per diagnosis code), after medGAN (Choi et al. 2017).

Rows are people, columns are codes, an entry is 1 if the person has the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError
from understudy.evaluation.intervals import Progress, from_seeds, jackknife
from understudy.evaluation.result import Better, Marginal, Measure, fidelity_measure
from understudy.evaluation.scores import auroc

__all__ = [
    "code_fidelity",
    "code_marginals",
    "cooccurrence_error",
    "count_error",
    "dimension_wise_prediction",
    "prevalence_correlation",
    "prevalence_error",
]

Binary = npt.NDArray[Any]
Statistic = Callable[[Binary, Binary], float]
MOST_CODES = 256


def prevalence_error(real: Binary, synthetic: Binary) -> float:
    """Mean over codes of the absolute difference of their prevalence."""
    return float(np.abs(real.mean(axis=0) - synthetic.mean(axis=0)).mean())


def prevalence_correlation(real: Binary, synthetic: Binary) -> float:
    """Correlation of the codes' prevalences (medGAN's scatter plot as a number); 0 if one is constant."""
    first, second = real.mean(axis=0), synthetic.mean(axis=0)
    if first.std() < 1e-12 or second.std() < 1e-12:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def cooccurrence_error(real: Binary, synthetic: Binary) -> float:
    """Relative Frobenius distance of the matrices of how often two different codes occur together.

    0 if equal; 1 for synthetic rows in which no two codes ever meet.
    """
    first, second = _pairs(real), _pairs(synthetic)
    size = float(np.linalg.norm(first))
    if size == 0:
        raise EvaluationError("no two codes occur together in the real rows: co-occurrence is not defined.")
    return float(np.linalg.norm(first - second) / size)


def count_error(real: Binary, synthetic: Binary) -> float:
    """Earth mover's distance of the number of codes per row, in codes."""
    from scipy import stats

    return float(stats.wasserstein_distance(real.sum(axis=1), synthetic.sum(axis=1)))


def dimension_wise_prediction(
    train: Binary, test: Binary, codes: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Predict each chosen code from all others by logistic regression.

    medGAN reports F1 at a threshold of one half, which is zero for most rare codes whatever the data; we keep
    the scores, from which AuROC is computed.

    Returns:
        Scores and truths on the test rows, (rows, chosen codes) each.
    """
    from sklearn.linear_model import LogisticRegression

    scores = np.zeros((len(test), len(codes)))
    for place, code in enumerate(codes):
        target = train[:, code].astype(bool)
        if target.all() or not target.any():
            continue
        others = np.arange(train.shape[1]) != code
        model = LogisticRegression(C=0.1, max_iter=30, tol=1e-2, solver="lbfgs")
        with _quiet():
            model.fit(train[:, others].astype(np.float32), target)
        scores[:, place] = model.decision_function(test[:, others].astype(np.float32))
    return scores, test[:, codes].astype(bool)


def code_fidelity(
    synthetic: Binary,
    test: Binary,
    *,
    reference: Binary | None = None,
    predicted_codes: int = 12,
    train_rows: int = 10_000,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """All measures of synthetic code vectors against real test rows.

    Args:
        synthetic: (rows, codes) drawn from the release.
        test: (rows, codes), real.
        reference: other real rows, for the ceiling.
        predicted_codes: how many of the most frequent codes dimension-wise prediction predicts.
        train_rows: most rows that each of its classifiers is trained on.
        on_progress: called as measures finish.
    """
    if synthetic.shape[1] != test.shape[1]:
        raise EvaluationError(f"synthetic rows have {synthetic.shape[1]} codes, test rows {test.shape[1]}.")
    empty = np.zeros_like(synthetic[: max(2, min(len(synthetic), 1000))])
    frequent = np.argsort(-test.mean(axis=0), kind="stable")[:MOST_CODES]
    measures = []
    for name, statistic, better, high, explanation in _STATISTICS:
        pick = frequent if statistic is cooccurrence_error else np.arange(test.shape[1])
        real, drawn = test[:, pick], synthetic[:, pick]
        estimate = jackknife(statistic, real, drawn, groups=5, low=-1.0 if high == 1 else 0.0, high=high)
        top = None if reference is None else statistic(real, reference[:, pick])
        floor = statistic(real, empty[:, pick])
        measures.append(fidelity_measure(name, estimate, better, top, floor, explanation))
        if on_progress:
            on_progress(name, len(measures) / (len(_STATISTICS) + 1))
    measures.append(_prediction(synthetic, test, reference, frequent[:predicted_codes], train_rows))
    if on_progress:
        on_progress("dimension-wise prediction", 1.0)
    return tuple(measures)


def code_marginals(synthetic: Binary, test: Binary, names: tuple[str, ...], most: int = 30) -> Marginal:
    """Prevalences of the most frequent codes of the test rows, for a chart."""
    chosen = np.argsort(-test.mean(axis=0), kind="stable")[:most]
    real, drawn = (tuple(rows.mean(axis=0)[chosen].tolist()) for rows in (test, synthetic))
    return Marginal("prevalence of the most frequent codes", tuple(names[c] for c in chosen), real, drawn)


_STATISTICS: tuple[tuple[str, Statistic, Better, float, str], ...] = (
    (
        "prevalence error",
        prevalence_error,
        Better.LOWER,
        np.inf,
        "Mean over codes of the absolute difference of their prevalence.",
    ),
    (
        "prevalence correlation",
        prevalence_correlation,
        Better.HIGHER,
        1.0,
        "Correlation between the codes' real and synthetic prevalence (dimension-wise probability).",
    ),
    (
        "co-occurrence error",
        cooccurrence_error,
        Better.LOWER,
        np.inf,
        f"Relative distance of the co-occurrence matrices of the {MOST_CODES} most frequent codes.",
    ),
    (
        "codes per row error",
        count_error,
        Better.LOWER,
        np.inf,
        "Earth mover's distance of the number of codes per row.",
    ),
)


def _prediction(
    synthetic: Binary, test: Binary, reference: Binary | None, codes: npt.NDArray[np.intp], train_rows: int
) -> Measure:
    scores, truth = dimension_wise_prediction(synthetic[:train_rows], test, codes)
    estimate = from_seeds(lambda rows: [_mean_auroc(truth[rows], scores[rows])], len(test), replicates=20)
    top = None
    if reference is not None:
        top = _mean_auroc(truth, dimension_wise_prediction(reference[:train_rows], test, codes)[0])
    words = f"Mean AuROC of predicting each of the {len(codes)} most frequent codes from all others."
    return fidelity_measure("dimension-wise prediction", estimate, Better.HIGHER, top, 0.5, words)


def _mean_auroc(truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> float:
    usable = [j for j in range(truth.shape[1]) if truth[:, j].any() and not truth[:, j].all()]
    if not usable:
        raise EvaluationError("no code occurs in some test rows and is absent from others.")
    return float(np.mean([auroc(truth[:, j], scores[:, j]) for j in usable]))


def _pairs(rows: Binary) -> npt.NDArray[np.float64]:
    dense = rows.astype(np.float32)
    together = np.asarray(dense.T @ dense, dtype=np.float64) / max(1, len(rows))
    np.fill_diagonal(together, 0.0)
    return together


def _quiet() -> Any:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
