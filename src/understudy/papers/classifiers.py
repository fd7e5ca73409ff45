"""The classifiers that the dp-cgan papers train on generated rows, with their settings and on values as they are.

The evaluation room scales features by the statistics of the rows it trains on. On generated images that is a
mistake that the papers do not make: a pixel that a generator paints almost constant would be blown up, and a real
image that differs there would be judged by it alone.
"""

from __future__ import annotations

import enum
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.evaluation.learners import prior_predictor

if TYPE_CHECKING:
    import numpy.typing as npt

    from understudy.evaluation.learners import Predictor

    Floats = npt.NDArray[np.floating[Any]]
    Ints = npt.NDArray[np.integer[Any]]

__all__ = ["Learner", "train"]

PASSES = 25
"""Of Adam over the rows. scikit-learn's default of 200 takes minutes and changes the third digit."""


FOLDS = 3
_GRID = {
    "alpha": [10.0**-power for power in range(1, 11)],
    "solver": ["lbfgs", "adam"],
    "hidden_layer_sizes": [(width,) for width in range(15, 21)],
}
"""What the thyroid study searches; its published optimum was found on real rows."""


class Learner(enum.Enum):
    """A classifier of the papers; its value is its name in tables."""

    LOGISTIC_REGRESSION = "logistic regression"
    MLP = "MLP"
    SMALL_MLP = "MLP of 16"
    """Of the thyroid study: L-BFGS, next to no decay of weights."""
    SEARCHED_MLP = "MLP by grid search"
    """The thyroid study's search, by cross validation on the rows that it is trained on: 120 settings."""


def train(learner: Learner, features: Floats, labels: Ints, classes: int, seed: int) -> Predictor:
    """Fit one classifier; a class that the labels lack gets probability zero.

    Args:
        learner: which one.
        features: rows in any shape, encoded by a public schema.
        labels: class of each row, 0 to classes - 1.
        classes: how many classes there are.
        seed: of everything random in the training.
    """
    present = np.unique(labels)
    if len(present) < 2:
        return prior_predictor(labels, classes)
    if learner is Learner.SEARCHED_MLP and np.bincount(labels)[present].min() < FOLDS:
        learner = Learner.SMALL_MLP  # too few rows of a class for cross validation
    model = _model(learner, seed)
    with warnings.catch_warnings():
        from sklearn.exceptions import ConvergenceWarning

        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of passes is part of the protocol
        model.fit(_unit(features), labels)

    def predict(rows: Floats) -> Floats:
        probabilities = np.zeros((len(rows), classes))
        probabilities[:, present] = model.predict_proba(_unit(rows))
        return probabilities

    return predict


def _unit(features: Floats) -> Floats:
    """Flat rows in [0, 1], the papers' range; ours are encoded to [-1, 1]."""
    return (features.reshape(len(features), -1) + 1) / 2


def _model(learner: Learner, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    match learner:
        case Learner.LOGISTIC_REGRESSION:
            return LogisticRegression(max_iter=100)
        case Learner.MLP:
            return MLPClassifier((100,), alpha=1.0, max_iter=PASSES, random_state=seed)
        case Learner.SMALL_MLP:
            return MLPClassifier((16,), alpha=1e-8, solver="lbfgs", max_iter=300, random_state=seed)
        case Learner.SEARCHED_MLP:
            from sklearn.model_selection import GridSearchCV

            return GridSearchCV(_model(Learner.SMALL_MLP, seed), _GRID, cv=FOLDS, n_jobs=1)
