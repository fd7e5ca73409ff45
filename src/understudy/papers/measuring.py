"""Scores of one job: what the evaluation room measures, in the papers' own arrangements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from understudy.data import known
from understudy.errors import EvaluationError
from understudy.evaluation import codes, images, scores
from understudy.evaluation.intervals import Estimate, from_seeds, jackknife
from understudy.evaluation.learners import prior_predictor
from understudy.evaluation.utility import Labelled
from understudy.papers.classifiers import Learner, train
from understudy.papers.study import (
    Classified,
    CodeFidelity,
    Inception,
    JensenShannon,
    Job,
    Metric,
    Score,
    SemiSupervised,
)
from understudy.records.encode import encode
from understudy.schema import CodeSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from understudy.evaluation.domain import DomainClassifier
    from understudy.evaluation.result import Measure
    from understudy.records.encode import Encoded
    from understudy.records.images import Images
    from understudy.release.release import Release
    from understudy.schema import Schema

__all__ = ["Material", "Value", "classified", "measured"]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Value:
    """A number with the ends of its 95 % interval, and what a trivial predictor or generator reaches."""

    value: float
    low: float | None = None
    high: float | None = None
    floor: float | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """What a job is scored with.

    Args:
        schema: of the data set, labels included.
        train: real training rows, for the judge and for jobs that score real rows.
        test: real rows that training never saw.
        cache: where the judge is kept.
        public: declared public rows, from which the semi-supervised task takes its labelled ones.
    """

    schema: Schema
    train: Encoded
    test: Encoded
    cache: Path
    public: Encoded | None = None

    def labelled(self, rows: Encoded) -> Labelled:
        """Encoded rows with their classes."""
        if rows.labels is None or self.schema.label_classes is None:
            raise EvaluationError("this score needs labels, and the data set has none.")
        return Labelled(rows.x, rows.labels, len(self.schema.label_classes))

    def judge(self, rows: int | None, on_progress: Callable[[float], None] | None = None) -> DomainClassifier:
        """The classifier behind the inception score, trained on real rows or read from the cache."""
        from understudy.evaluation.domain import domain_classifier

        known = self.labelled(self.train)
        return domain_classifier(
            Labelled(known.features[:rows], known.labels[:rows], known.classes),
            cache=self.cache,
            on_progress=on_progress,
        )


def measured(job: Job, release: Release | None, material: Material, seed: int) -> dict[str, Value]:
    """Every score of the job, by name; without a release real training rows are scored."""
    shown = _Shown(job, release, material, seed)
    return {score.name: shown.value(score) for score in job.scores}


def classified(
    release: Release, data: str, learners: Sequence[Learner], *, rows: int, seed: int
) -> dict[str, Value]:
    """The papers' classifiers, trained on rows of a release and tested on the test rows of a known data set.

    Raises:
        EvaluationError: the release or the data set has no labels, or they describe different records.
    """
    found = known(data)
    if release.schema != found.schema:
        raise EvaluationError(
            f"the release describes other records than {data!r}; name the data set it was made from."
        )
    test = encode(found.test, found.schema)
    asked = tuple(Classified(learner, metric) for learner in learners for metric in Metric)
    job = Job("release", data, release.card.plan.recipe, None, asked, drawn=rows)
    return measured(job, release, Material(found.schema, test, test, Path()), seed)


class _Shown:
    """The rows that are scored, and predictions that several scores share."""

    def __init__(self, job: Job, release: Release | None, material: Material, seed: int) -> None:
        self._release = release
        self._material = material
        self._seed = seed
        self._predicted: dict[Learner, Floats] = {}
        if release is None:
            self._x, self._labels = material.train.x[: job.drawn], material.train.labels
            self._labels = None if self._labels is None else self._labels[: job.drawn]
        else:
            drawn: pd.DataFrame | Images = release.sample(job.drawn, seed=seed)
            encoded = encode(drawn, release.schema)
            self._x, self._labels = encoded.x, encoded.labels

    def value(self, score: Score) -> Value:
        match score:
            case Classified():
                return self._classified(score)
            case Inception():
                return self._inception(score)
            case JensenShannon():
                from understudy.evaluation.image_fidelity import discriminator_score

                return _of_measure(discriminator_score(self._x, self._material.test.x, seed=self._seed))
            case SemiSupervised():
                return self._semi_supervised(score)
            case CodeFidelity(name=name):
                return self._codes(name)

    def _classified(self, score: Classified) -> Value:
        test = self._material.labelled(self._material.test)
        predicted = self._predictions(score.learner, test)
        compute = _METRICS[score.metric]
        estimate = from_seeds(
            lambda rows: [compute(test.labels[rows], predicted[rows])], len(test), replicates=20
        )
        constant = prior_predictor(test.labels, test.classes)(test.features)
        return Value(estimate.value, estimate.low, estimate.high, compute(test.labels, constant))

    def _predictions(self, learner: Learner, test: Labelled) -> Floats:
        if learner not in self._predicted:
            if self._labels is None:
                raise EvaluationError(
                    "classifiers need labelled rows; this generator was trained without labels."
                )
            predictor = train(learner, self._x, self._labels, test.classes, self._seed)
            self._predicted[learner] = predictor(test.features)
        return self._predicted[learner]

    def _inception(self, score: Inception) -> Value:
        probabilities = self._material.judge(score.judge_rows).probabilities(self._x)
        classes = probabilities.shape[1]
        if score.splits == 1:
            one = jackknife(images.inception_score, probabilities, low=1.0, high=classes)
            return Value(one.value, one.low, one.high, 1.0)
        order = np.random.default_rng(0).permutation(len(probabilities))
        parts = images.inception_scores(probabilities[order], score.splits)
        half = 2.262 * float(parts.std(ddof=1)) / np.sqrt(score.splits)
        found = Estimate.around(float(parts.mean()), half, 1.0, classes)
        return Value(found.value, found.low, found.high, 1.0)

    def _semi_supervised(self, score: SemiSupervised) -> Value:
        from understudy.evaluation.semisupervised import coded_images, semi_supervised

        assert self._release is not None
        if self._material.public is None:
            raise EvaluationError("the semi-supervised task takes its labelled images from public rows.")
        known = self._material.labelled(self._material.public)
        few = Labelled(known.features[: score.labelled], known.labels[: score.labelled], known.classes)
        test = self._material.labelled(self._material.test)
        return _of_measure(
            semi_supervised(coded_images(self._release), few, test, steps=score.steps, seed=self._seed)
        )

    def _codes(self, name: str) -> Value:
        statistic, counted = CODE_MEASURES[name]
        made, real = self._x, self._material.test.x
        if counted:
            schema = self._material.schema
            assert isinstance(schema, CodeSchema)
            made, real = (np.rint(x * schema.max_count) for x in (made, real))
        else:
            made, real = ((x > 0).astype(np.float32) for x in (made, real))
        found = jackknife(statistic, real, made, groups=5, low=-1.0, high=np.inf)
        return Value(found.value, found.low, found.high, statistic(real, np.zeros_like(made[:2])))


def _hard_micro(labels: Ints, probabilities: Floats) -> float:
    """What the thyroid notebook computes: the micro AuROC of predicted classes instead of probabilities."""
    hard = np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)]
    return scores.micro_auroc(labels, hard)


CODE_MEASURES: dict[str, tuple[Callable[[Floats, Floats], float], bool]] = {
    "prevalence correlation": (codes.prevalence_correlation, False),
    "prevalence error": (codes.prevalence_error, False),
    "correlation of mean counts": (codes.prevalence_correlation, True),
    "error of mean counts": (codes.prevalence_error, True),
}
"""Statistics of medGAN's evaluation, on whether codes occur or on how often. The floor is an empty record."""

_METRICS: dict[Metric, Callable[[Ints, Floats], float]] = {
    Metric.MICRO: scores.micro_auroc,
    Metric.MACRO: scores.macro_auroc,
    Metric.HARD_MICRO: _hard_micro,
}


def _of_measure(measure: Measure) -> Value:
    low, high = measure.low, measure.high
    finite = low is not None and high is not None and np.isfinite(low) and np.isfinite(high)
    return Value(measure.value, low if finite else None, high if finite else None, measure.floor)
