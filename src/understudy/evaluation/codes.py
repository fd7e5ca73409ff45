"""Fidelity of code vectors (one binary column per diagnosis code), after medGAN (Choi et al. 2017).

Rows are people, columns are codes, an entry is 1 if the person has the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.errors import EvaluationError, TooFewRows
from understudy.evaluation.intervals import from_seeds, jackknife
from understudy.evaluation.result import Better, Marginal, Measure, fidelity_measure
from understudy.evaluation.scores import auroc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "MOST_CODES",
    "Binary",
    "code_charts",
    "code_measures",
    "cooccurrence_error",
    "count_error",
    "count_variation",
    "dimension_wise_prediction",
    "distinct_records",
    "phantom_codes",
    "prevalence_correlation",
    "prevalence_error",
    "triple_error",
]

Binary = npt.NDArray[Any]
MOST_CODES = 256
TRIPLE_CODES = 32
MOST_TRIPLE_ROWS = 20_000


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
        raise TooFewRows("no two codes occur together in the real rows.")
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


def distinct_records(real: Binary, synthetic: Binary) -> float:
    """Share of the synthetic rows that differ from all rows before them; the real rows are not looked at."""
    del real
    packed = np.packbits(synthetic.astype(bool), axis=1)
    return len({row.tobytes() for row in packed}) / max(1, len(packed))


def phantom_codes(real: Binary, synthetic: Binary) -> float:
    """Share of the synthetic mentions of a code whose code no real row has."""
    mentions = synthetic.sum(axis=0, dtype=np.float64)
    return float(mentions[~real.any(axis=0)].sum() / max(1.0, mentions.sum()))


def triple_error(real: Binary, synthetic: Binary) -> float:
    """Relative distance of how often three different codes occur together: 0 if equal, 1 if they never do."""
    first, second = _triples(real), _triples(synthetic)
    size = float(np.linalg.norm(first))
    if size == 0:
        raise TooFewRows("no three codes occur together in the real rows.")
    return float(np.linalg.norm(first - second) / size)


def count_variation(real: Binary, synthetic: Binary) -> float:
    """Total variation between the distributions of the number of codes per row."""
    first, second = _count_shares(real, synthetic)
    return float(0.5 * np.abs(first - second).sum())


def code_measures(
    synthetic: Binary,
    test: Binary,
    *,
    reference: Binary | None = None,
    predicted_codes: int = 12,
    train_rows: int = 10_000,
) -> Iterator[tuple[str, Callable[[], Measure]]]:
    """Every measure of synthetic code vectors against real test rows: its name, and what computes it.

    What computes it raises TooFewRows if the real rows do not define it.

    Args:
        synthetic: (rows, codes) drawn from the release.
        test: (rows, codes), real.
        reference: other real rows, for the ceiling.
        predicted_codes: how many of the most frequent codes dimension-wise prediction predicts.
        train_rows: most rows that each of its classifiers is trained on.
    """
    if synthetic.shape[1] != test.shape[1]:
        raise EvaluationError(f"synthetic rows have {synthetic.shape[1]} codes, test rows {test.shape[1]}.")
    frequent = np.argsort(-test.mean(axis=0), kind="stable")
    for one in _STATISTICS:
        yield one.name, partial(_measure, one, synthetic, test, reference, frequent[: one.most_codes])
    yield "phantom codes", partial(_phantoms, synthetic, test, reference)
    chosen = frequent[:predicted_codes]
    yield "dimension-wise prediction", partial(_prediction, synthetic, test, reference, chosen, train_rows)


def code_charts(
    synthetic: Binary, test: Binary, names: tuple[str, ...], most: int = 30
) -> tuple[Marginal, Marginal]:
    """Prevalences of the most frequent codes of the test rows, and the number of codes per record."""
    chosen = np.argsort(-test.mean(axis=0), kind="stable")[:most]
    real, drawn = (tuple(rows.mean(axis=0)[chosen].tolist()) for rows in (test, synthetic))
    labels = tuple(names[c] for c in chosen)
    counts = _count_shares(test, synthetic)
    lengths = tuple(str(count) for count in range(len(counts[0])))
    first, second = (tuple(side.tolist()) for side in counts)
    return (
        Marginal("prevalence of the most frequent codes", labels, real, drawn),
        Marginal("codes per record", lengths, first, second, ordered=True),
    )


@dataclass(frozen=True)
class _Statistic:
    name: str
    compute: Callable[[Binary, Binary], float]
    better: Better
    explanation: str
    low: float = 0.0
    high: float = np.inf
    most_codes: int | None = None


_STATISTICS = (
    _Statistic(
        "prevalence error",
        prevalence_error,
        Better.LOWER,
        "Mean over codes of the absolute difference of their prevalence.",
    ),
    _Statistic(
        "prevalence correlation",
        prevalence_correlation,
        Better.HIGHER,
        "Correlation between the codes' real and synthetic prevalence (dimension-wise probability).",
        low=-1.0,
        high=1.0,
    ),
    _Statistic(
        "co-occurrence error",
        cooccurrence_error,
        Better.LOWER,
        f"Relative distance of the co-occurrence matrices of the {MOST_CODES} most frequent codes.",
        most_codes=MOST_CODES,
    ),
    _Statistic(
        "triples of codes error",
        triple_error,
        Better.LOWER,
        f"Relative distance of how often three of the {TRIPLE_CODES} most frequent codes occur together.",
        most_codes=TRIPLE_CODES,
    ),
    _Statistic(
        "codes per row error",
        count_error,
        Better.LOWER,
        "Earth mover's distance of the number of codes per row.",
    ),
    _Statistic(
        "codes per row, total variation",
        count_variation,
        Better.LOWER,
        "Total variation between the distributions of the number of codes per row.",
        high=1.0,
    ),
    _Statistic(
        "distinct records",
        distinct_records,
        Better.HIGHER,
        "Share of synthetic rows that repeat no other; the ceiling is that of as many real rows.",
        high=1.0,
    ),
)


def _measure(
    one: _Statistic,
    synthetic: Binary,
    test: Binary,
    reference: Binary | None,
    codes: npt.NDArray[np.intp],
) -> Measure:
    real, drawn = test[:, codes], synthetic[:, codes]
    empty = np.zeros_like(drawn[: max(2, min(len(drawn), 1000))])
    estimate = jackknife(one.compute, real, drawn, groups=5, low=one.low, high=one.high)
    top = None if reference is None else one.compute(real, reference[: len(drawn), codes])
    return fidelity_measure(one.name, estimate, one.better, top, one.compute(real, empty), one.explanation)


def _phantoms(synthetic: Binary, test: Binary, reference: Binary | None) -> Measure:
    """A code is real if any real row has it; as a ceiling, test rows stand against reference rows alone."""
    rows = test if reference is None else np.concatenate([test, reference])
    seen = np.asarray(rows.any(axis=0, keepdims=True))
    estimate = jackknife(lambda drawn: phantom_codes(seen, drawn), synthetic, groups=5, low=0.0, high=1.0)
    top = None if reference is None else phantom_codes(reference, test)
    words = "Share of mentions of codes that no real record has; the floor mentions all codes equally often."
    return fidelity_measure(
        "phantom codes", estimate, Better.LOWER, top, phantom_codes(seen, np.ones_like(seen)), words
    )


def _prediction(
    synthetic: Binary, test: Binary, reference: Binary | None, codes: npt.NDArray[np.intp], train_rows: int
) -> Measure:
    scores, truth = dimension_wise_prediction(synthetic[:train_rows], test, codes)
    if np.isnan(_mean_auroc(truth, scores)):
        raise TooFewRows("no code occurs in some test rows and is absent from others.")
    estimate = from_seeds(lambda rows: [_mean_auroc(truth[rows], scores[rows])], len(test), replicates=20)
    top = None
    if reference is not None:
        top = _mean_auroc(truth, dimension_wise_prediction(reference[:train_rows], test, codes)[0])
    words = f"Mean AuROC of predicting each of the {len(codes)} most frequent codes from all others."
    return fidelity_measure("dimension-wise prediction", estimate, Better.HIGHER, top, 0.5, words)


def _mean_auroc(truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> float:
    """Mean over the codes that occur in some rows and not in all; NaN if there are none."""
    usable = [j for j in range(truth.shape[1]) if truth[:, j].any() and not truth[:, j].all()]
    return float(np.mean([auroc(truth[:, j], scores[:, j]) for j in usable])) if usable else np.nan


def _count_shares(*sides: Binary) -> list[npt.NDArray[np.float64]]:
    """For each side, which share of its rows has 0, 1, 2, … codes."""
    counts = [rows.sum(axis=1, dtype=np.int64) for rows in sides]
    most = max(int(count.max(initial=0)) for count in counts) + 1
    return [np.bincount(count, minlength=most) / max(1, len(count)) for count in counts]


def _triples(rows: Binary) -> npt.NDArray[np.float64]:
    """How often each three different columns are set together, as shares of the rows."""
    dense = rows[:MOST_TRIPLE_ROWS].astype(np.float32)
    places = np.arange(dense.shape[1])
    found = [
        (dense[:, i + 1 :] * dense[:, [i]]).T @ dense for i in places
    ]  # of i and a later j, with every k
    kept = [block[places[i + 1 :][:, None] < places] for i, block in enumerate(found)]
    return np.concatenate(kept).astype(np.float64) / max(1, len(dense))


def _pairs(rows: Binary) -> npt.NDArray[np.float64]:
    dense = rows.astype(np.float32)
    together = np.asarray(dense.T @ dense, dtype=np.float64) / max(1, len(rows))
    np.fill_diagonal(together, 0.0)
    return together


def _quiet() -> Any:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
