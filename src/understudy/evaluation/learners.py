"""The classifiers that are trained on synthetic records and tested on real ones."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Learner", "Predictor", "prior_predictor", "train"]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]
Predictor = Callable[[Floats], Floats]
"""Takes features (rows, …), returns class probabilities (rows, classes)."""


class Learner(enum.Enum):
    """A kind of classifier; its value is its name in reports."""

    LOGISTIC_REGRESSION = "logistic regression"
    MLP = "MLP"
    GRADIENT_BOOSTING = "gradient boosting"
    CNN = "CNN"


def train(learner: Learner, features: Floats, labels: Ints, classes: int, seed: int) -> Predictor:
    """Fit one classifier; a class that the labels lack gets probability zero.

    Args:
        learner: which kind.
        features: (rows, columns), or (rows, channels, height, width) for images (needed by the CNN).
        labels: class of each row, 0 to classes - 1.
        classes: how many classes there are.
        seed: of everything random in the training.
    """
    present = np.unique(labels)
    if len(present) < 2:
        return prior_predictor(labels, classes)
    if learner is Learner.CNN:
        from understudy.evaluation.network import fit_cnn, predict_probabilities

        model = fit_cnn(features, labels, classes, seed=seed)
        return lambda rows: predict_probabilities(model, rows)
    fitted = _fitted(_sklearn(learner, len(labels), seed), _flat(features), labels)

    def predict(rows: Floats) -> Floats:
        probabilities = np.zeros((len(rows), classes))
        probabilities[:, present] = fitted.predict_proba(_flat(rows))
        return probabilities

    return predict


def prior_predictor(labels: Ints, classes: int) -> Predictor:
    """The trivial floor: always the class shares of the training labels, whatever the features."""
    shares = np.bincount(labels, minlength=classes) / max(1, len(labels))
    return lambda rows: np.tile(shares, (len(rows), 1))


def _flat(features: Floats) -> Floats:
    return features.reshape(len(features), -1)


def _fitted(model: Any, features: Floats, labels: Ints) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # A fixed number of passes is part of the protocol, so stopping there is no news.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, labels)


def _sklearn(learner: Learner, rows: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if learner is Learner.LOGISTIC_REGRESSION:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=100, C=0.1, tol=1e-3))
    if learner is Learner.MLP:
        passes = int(np.clip(400_000 // rows, 8, 100))
        network = MLPClassifier(
            (100,), alpha=1e-3, batch_size=min(200, rows), max_iter=passes, random_state=seed
        )
        return make_pipeline(StandardScaler(), network)
    return HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.1, early_stopping=False, random_state=seed
    )
