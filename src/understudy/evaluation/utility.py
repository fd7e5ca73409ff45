"""Utility: classifiers trained on synthetic records, tested on real ones.

The synthetic records are drawn here, from a `Source`; real rows come in under the names `test` and
`reference` only. There is no argument through which real training rows could be scored as synthetic ones.

Every score has a ceiling, the same classifier trained on real reference rows, and a floor, a predictor that
knows the class shares of the test labels and nothing else.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from understudy.errors import EvaluationError
from understudy.evaluation import scores
from understudy.evaluation.intervals import Estimate, Progress, from_seeds
from understudy.evaluation.keeping import kept
from understudy.evaluation.learners import Learner, prior_predictor, train
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["IMAGE_LEARNERS", "TABLE_LEARNERS", "Labelled", "Score", "Source", "scores_of", "utility"]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

TABLE_LEARNERS = (Learner.LOGISTIC_REGRESSION, Learner.MLP, Learner.GRADIENT_BOOSTING)
CEILING, AUGMENTED = "ceiling", "real + synthetic"
IMAGE_LEARNERS = (Learner.LOGISTIC_REGRESSION, Learner.MLP, Learner.CNN)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with a class each.

    Args:
        features: (rows, columns), or (rows, channels, height, width) with values in [-1, 1] for images.
        labels: 0 to classes - 1.
        classes: how many classes the schema has, whether they occur here or not.
        names: of the classes; their numbers stand for them if it is empty.
    """

    features: Floats
    labels: Ints
    classes: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.features) != len(self.labels):
            raise EvaluationError(f"{len(self.features)} rows of features, but {len(self.labels)} labels.")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < self.classes):
            raise EvaluationError(
                f"labels must lie in 0..{self.classes - 1}, got {self.labels.min()}..{self.labels.max()}."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, places: Ints) -> Labelled:
        """Some of the rows, in this order."""
        return replace(self, features=self.features[places], labels=self.labels[places])

    def with_rows_of(self, other: Labelled) -> Labelled:
        """These rows followed by the other's."""
        return replace(
            self,
            features=np.concatenate([self.features, other.features]),
            labels=np.concatenate([self.labels, other.labels]),
        )

    def name(self, label: int) -> str:
        """What a class is called."""
        return self.names[label] if self.names else str(label)


class Source(Protocol):
    """Something that synthetic labelled rows are drawn from: a release."""

    def draw(self, rows: int, seed: int) -> Labelled:
        """Fresh synthetic rows, the same ones for the same seed."""
        ...


@dataclass(frozen=True)
class Score:
    """A score of predicted probabilities, with its name and a sentence about it."""

    name: str
    compute: Callable[[Ints, Floats], float]
    explanation: str


def scores_of(test: Labelled) -> tuple[Score, ...]:
    """The scores that these test labels define: ranking needs two classes, and a rare class must be there."""
    found = [
        Score("accuracy", scores.accuracy, "Share of real test rows that are classified right."),
        Score(
            "balanced accuracy", scores.balanced_accuracy, "Mean over classes of the share classified right."
        ),
    ]
    if len(np.unique(test.labels)) > 1:
        found += [
            Score(
                "macro AuROC",
                scores.macro_auroc,
                "Mean over classes of the chance to rank a member above others.",
            ),
            Score("micro AuROC", scores.micro_auroc, "AuROC over all pairs of a test row and a class."),
        ]
    rare = scores.rare_classes(test.labels)
    if rare:
        names = ", ".join(test.name(label).replace(": ", " ") for label in rare)
        found.append(
            Score(
                f"average precision of rare class {names}"
                if len(rare) == 1
                else f"mean average precision of {len(rare)} rare classes",
                partial(scores.rare_class_precision, classes=rare),
                f"Area under the precision-recall curve of what has less than half of an equal share: {names}.",
            )
        )
    return tuple(found)


def utility(
    source: Source,
    test: Labelled,
    *,
    reference: Labelled | None = None,
    learners: Sequence[Learner] = TABLE_LEARNERS,
    rows: int | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    augment: bool = False,
    cache: Path | None = None,
    workers: int = 1,
    on_progress: Progress | None = None,
) -> tuple[Measure, ...]:
    """Train on synthetic, test on real: each learner's scores with interval, ceiling and floor.

    Args:
        source: what synthetic rows are drawn from, a fresh draw for each seed.
        test: real rows that no generator and no classifier was trained on.
        reference: real training rows, for the ceiling; None for no ceiling.
        learners: the classifiers.
        rows: synthetic rows per draw; as many as reference (or test) rows by default.
        seeds: of the draws and the trainings; deterministic learners meet each draw too.
        augment: also train on reference and synthetic rows together.
        cache: a private folder to keep ceilings in.
        workers: trainings at a time; the numbers do not depend on it.
        on_progress: called as trainings finish.
    """
    if len(test) == 0:
        raise EvaluationError("utility needs real test rows, got none.")
    if augment and reference is None:
        raise EvaluationError("training on real and synthetic rows together needs real reference rows.")
    rows = rows or len(reference if reference is not None else test)
    draws = [_checked(source.draw(rows, seed), test) for seed in seeds]
    jobs = _jobs(learners, draws, test, reference, seeds, augment=augment, cache=cache)
    tick = _ticker(on_progress, len(jobs))
    with warnings.catch_warnings():
        # The filters are global: threads that set and reset their own must all find this one.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = side_by_side(jobs, workers=workers, done=lambda key: tick(key[0].value))
    measures: list[Measure] = []
    for learner in learners:
        predicted = [found[learner, str(place)] for place in range(len(seeds))]
        top = found.get((learner, CEILING))
        measures += _measures(f"{learner.value}: ", predicted, test, top)
        if augment:
            both = [found[learner, AUGMENTED]]
            measures += _measures(f"{learner.value}, real + synthetic: ", both, test, top)
    return tuple(measures)


def _jobs(
    learners: Sequence[Learner],
    draws: Sequence[Labelled],
    test: Labelled,
    reference: Labelled | None,
    seeds: Sequence[int],
    *,
    augment: bool,
    cache: Path | None,
) -> dict[tuple[Learner, str], Callable[[], Floats]]:
    """Every training with its predictions of the test rows, the longest first."""
    jobs: dict[tuple[Learner, str], Callable[[], Floats]] = {}
    for learner in sorted(learners, key=lambda one: one is not Learner.CNN):
        for place, (drawn, seed) in enumerate(zip(draws, seeds, strict=True)):
            jobs[learner, str(place)] = partial(_predict, learner, drawn, test, seed)
        if reference is not None:
            jobs[learner, CEILING] = partial(_ceiling, learner, reference, test, seeds[0], cache)
        if augment and reference is not None:
            jobs[learner, AUGMENTED] = partial(
                _predict, learner, reference.with_rows_of(draws[0]), test, seeds[0]
            )
    return jobs


def _checked(drawn: Labelled, test: Labelled) -> Labelled:
    if drawn.features.shape[1:] != test.features.shape[1:] or drawn.classes != test.classes:
        raise EvaluationError(
            f"synthetic rows have shape {drawn.features.shape[1:]} and {drawn.classes} "
            "classes, the test rows "
            f"{test.features.shape[1:]} and {test.classes}. Encode both with the release's schema."
        )
    return drawn


def _predict(learner: Learner, rows: Labelled, test: Labelled, seed: int) -> Floats:
    return train(learner, rows.features, rows.labels, rows.classes, seed)(test.features)


def _ceiling(learner: Learner, reference: Labelled, test: Labelled, seed: int, cache: Path | None) -> Floats:
    """The same for real rows; it depends on nothing synthetic, so it can be kept."""
    depends = (learner.value, reference.features, reference.labels, reference.classes, test.features, seed)
    made = kept(cache, "ceiling", lambda: {"p": _predict(learner, reference, test, seed)}, *depends)
    return made["p"]


def _measures(prefix: str, predicted: Sequence[Floats], test: Labelled, top: Floats | None) -> list[Measure]:
    floor = prior_predictor(test.labels, test.classes)(test.features)
    return [
        _measure(prefix + score.name, score, _estimate(score, predicted, test), test, top, floor)
        for score in scores_of(test)
    ]


def _estimate(score: Score, predicted: Sequence[Floats], test: Labelled) -> Estimate:
    def on_rows(rows: npt.NDArray[np.intp]) -> list[float]:
        return [score.compute(test.labels[rows], probabilities[rows]) for probabilities in predicted]

    return from_seeds(on_rows, len(test), strata=test.labels, replicates=20 if len(test) > 5000 else 50)


def _measure(
    name: str, score: Score, estimate: Estimate, test: Labelled, top: Floats | None, floor: Floats
) -> Measure:
    return Measure(
        name=name,
        value=estimate.value,
        better=Better.HIGHER,
        group=Group.UTILITY,
        low=estimate.low,
        high=estimate.high,
        ceiling=None if top is None else score.compute(test.labels, top),
        floor=score.compute(test.labels, floor),
        explanation=score.explanation,
    )


def _ticker(on_progress: Progress | None, total: int) -> Callable[[str], None]:
    done = 0

    def tick(what: str) -> None:
        nonlocal done
        done += 1
        if on_progress:
            on_progress(f"trained {what}", done / total)

    return tick
