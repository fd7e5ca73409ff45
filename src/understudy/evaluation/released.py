"""Numbers about a release that may be published themselves, because a mechanism covers them.

The real test rows are private. One Gaussian release publishes noisy counts of them, and accuracy, AuROC and marginal
errors are computed from the counts alone, which is post-processing. Where the schema names persons, each counts once,
by the mean of its rows. What a row adds, and the sensitivity that
follows, is said in `queries`. The classifier is trained on synthetic rows only and the release is already public:
neither costs anything.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.door.door import Door
from understudy.door.noise import SecureNoise
from understudy.door.ranks import ALONE
from understudy.door.source import Rows as DoorRows
from understudy.errors import EvaluationError
from understudy.evaluation.judging import Questions
from understudy.evaluation.layout import Layout
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.queries import BINS, CriteriaSums, MeasureCounts, column_counts
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.scores import auroc_from_histograms
from understudy.evaluation.sources import Evaluated, ReleaseSource, Rows
from understudy.evaluation.tables import total_variation
from understudy.privacy.calibration import noise_for
from understudy.privacy.mechanisms import Charge, GaussianRelease
from understudy.records.encode import encode
from understudy.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from understudy.door.query import Published, Query
    from understudy.door.ranks import Ranks
    from understudy.evaluation.criteria import Criteria
    from understudy.evaluation.result import Judged
    from understudy.evaluation.utility import Labelled
    from understudy.privacy.budget import Budget

__all__ = [
    "PublishedCriteria",
    "PublishedMeasures",
    "evaluation_charge",
    "publish_criteria",
    "publish_measures",
]

Floats = npt.NDArray[np.floating[Any]]
PURPOSE = "published evaluation"
SIMULATIONS = 100


@dataclass(frozen=True)
class PublishedMeasures:
    """Measures that are not internal, with what they cost.

    Args:
        measures: accuracy, AuROC and, for tables, marginal errors.
        charge: the line for the ledger.
        sensitivity: how far one row, or one person with all rows, moves the published vector in the L2 norm.
    """

    measures: tuple[Measure, ...]
    charge: Charge
    sensitivity: float


@dataclass(frozen=True, eq=False)
class _Counts:
    """The published vector, taken apart."""

    rows: float
    right: tuple[float, float]
    scores: Floats
    """(classes, 2, bins): others first, members second."""
    marginals: tuple[Floats, ...]

    @classmethod
    def split(cls, vector: Floats, classes: int, sizes: tuple[int, ...]) -> _Counts:
        after = 3 + classes * 2 * BINS
        ends = np.cumsum([after, *sizes])
        parts = tuple(vector[a:b] for a, b in itertools.pairwise(ends))
        return cls(
            float(vector[0]),
            (float(vector[1]), float(vector[2])),
            vector[3:after].reshape(classes, 2, BINS),
            parts,
        )

    @property
    def accuracy(self) -> float:
        return float(np.clip(self.right[0] / max(1.0, self.rows), 0, 1))

    @property
    def auroc(self) -> float:
        return float(np.mean([auroc_from_histograms(members, others) for others, members in self.scores]))

    def marginal_error(self, synthetic: tuple[Floats, ...]) -> float:
        return float(
            np.mean([total_variation(_shares(r), s) for r, s in zip(self.marginals, synthetic, strict=True)])
        )


def evaluation_charge(budget: Budget) -> Charge:
    """The Gaussian release that spends the budget on one evaluation."""
    sigma = noise_for(lambda noise: [Charge(PURPOSE, GaussianRelease(noise))], budget)
    return Charge(PURPOSE, GaussianRelease(sigma))


def publish_measures(
    release: Evaluated,
    test: Rows,
    charge: Charge,
    *,
    learner: Learner = Learner.LOGISTIC_REGRESSION,
    rows: int = 20_000,
    seed: int = 0,
    reserve: Callable[[Charge], None] | None = None,
    ranks: Ranks = ALONE,
) -> PublishedMeasures:
    """Publish accuracy, AuROC and marginal errors of a release on private test rows.

    Several processes, each with test rows (and persons) of its own, call it together and get the same measures.

    Args:
        release: what synthetic rows are drawn from.
        test: private test rows.
        charge: made by `evaluation_charge`.
        learner: the classifier that is trained on synthetic rows.
        rows: synthetic rows to draw; public.
        seed: of the draw and the training; not of the noise.
        reserve: called with the charge before any private row is read, to write it into the ledger.
        ranks: the processes; the first alone reserves.

    Raises:
        EvaluationError: the schema has no label, or the charge is not a single Gaussian release.
    """
    _check(charge)
    drawn = ReleaseSource(release).draw(rows, seed)
    predictor = train(learner, drawn.features, drawn.labels, drawn.classes, seed)
    layout = Layout.of(release.schema) if isinstance(release.schema, TableSchema) else None
    query = MeasureCounts(release.schema, drawn.classes, layout, predictor)
    seen = _published(query, release, test, charge, reserve, ranks)
    sizes = () if layout is None else layout.sizes
    shares = _synthetic_marginals(release, layout, rows, seed)
    measures = _measures(seen.value.numpy(), seen.deviation, drawn, sizes, shares, learner)
    return PublishedMeasures(measures, charge, query.sensitivity)


@dataclass(frozen=True)
class PublishedCriteria:
    """Verdicts that are not internal, with what they cost; see `PublishedMeasures`."""

    criteria: tuple[Judged, ...]
    charge: Charge
    sensitivity: float


def publish_criteria(
    release: Evaluated,
    test: Rows,
    criteria: Criteria,
    charge: Charge,
    *,
    seed: int = 0,
    reserve: Callable[[Charge], None] | None = None,
) -> PublishedCriteria:
    """Publish whether a release is good enough, judged by private test rows in one release of noisy sums.

    Whatever cannot be asked is refused before the charge. A criterion passes only if its whole interval does, so that
    noise never makes a release look better than it is.

    Args:
        release: what synthetic rows are drawn from.
        test: private test rows.
        criteria: what is asked.
        charge: made by `evaluation_charge`.
        seed: of the draw and the trainings; not of the noise.
        reserve: called with the charge before any private row is read, to write it into the ledger.
    """
    _check(charge)
    questions = Questions(criteria, release, seed=seed)
    query = CriteriaSums(questions)
    seen = _published(query, release, test, charge, reserve)
    judged = questions.judged(seen.value.numpy(), deviation=seen.deviation)
    return PublishedCriteria(judged, charge, query.sensitivity)


def _check(charge: Charge) -> None:
    if not isinstance(charge.mechanism, GaussianRelease) or charge.mechanism.count != 1:
        raise EvaluationError(f"one evaluation is one Gaussian release, got the charge {charge}.")


def _published(
    query: Query,
    release: Evaluated,
    test: Rows,
    charge: Charge,
    reserve: Callable[[Charge], None] | None,
    ranks: Ranks = ALONE,
) -> Published:
    """Reserve, then read, then ask at the door."""
    with ranks.agreed():
        if reserve is not None and ranks.first:
            reserve(charge)
    with ranks.agreed():
        rows = DoorRows.of(encode(test, release.schema), release.schema)
    return Door(rows, (charge,), SecureNoise(), ranks=ranks).publish(charge.purpose, query)


def _synthetic_marginals(
    release: Evaluated, layout: Layout | None, rows: int, seed: int
) -> tuple[Floats, ...]:
    if layout is None:
        return ()
    frame = release.sample(rows, seed=seed)
    return tuple(_shares(counts) for counts in column_counts(frame, layout))  # type: ignore[arg-type]


def _shares(counts: Floats) -> Floats:
    kept = np.maximum(counts, 0)
    return kept / kept.sum() if kept.sum() > 0 else np.full(len(kept), 1 / len(kept))


def _measures(
    published: Floats,
    deviation: float,
    drawn: Labelled,
    sizes: tuple[int, ...],
    shares: tuple[Floats, ...],
    learner: Learner,
) -> tuple[Measure, ...]:
    """Everything below sees the noisy vector only; intervals come from adding the same noise once more."""
    found = _Counts.split(published, drawn.classes, sizes)
    again = [
        _Counts.split(published + deviation * one, drawn.classes, sizes)
        for one in np.random.default_rng(0).normal(size=(SIMULATIONS, len(published)))
    ]
    sampling = found.accuracy * (1 - found.accuracy) / max(1.0, found.rows)
    measures = [
        _measure(
            f"published {learner.value}: accuracy",
            found.accuracy,
            math.sqrt(float(np.var([one.accuracy for one in again])) + sampling),
            Better.HIGHER,
            "Share of private test rows classified right",
        ),
        _measure(
            f"published {learner.value}: macro AuROC",
            found.auroc,
            float(np.std([one.auroc for one in again])),
            Better.HIGHER,
            "Mean over classes of the one-vs-rest AuROC",
        ),
    ]
    if shares:
        spread = float(np.std([one.marginal_error(shares) for one in again]))
        words = "Mean total variation of one-way marginals, noise included"
        error = found.marginal_error(shares)
        measures.append(_measure("published one-way marginal error", error, spread, Better.LOWER, words))
    return tuple(measures)


def _measure(name: str, value: float, spread: float, better: Better, words: str) -> Measure:
    group = Group.FIDELITY if "marginal" in name else Group.UTILITY
    return Measure(
        name,
        value,
        better,
        group,
        max(0.0, value - 1.96 * spread),
        min(1.0, value + 1.96 * spread),
        internal=False,
        explanation=f"{words}; published with noise and charged.",
    )
