"""The networks of the evaluation on real MNIST: good enough to be judges and ceilings."""

from __future__ import annotations

import pytest

from understudy.data import known
from understudy.errors import MissingDataset
from understudy.evaluation.domain import domain_classifier
from understudy.evaluation.learners import Learner, train
from understudy.evaluation.scores import accuracy
from understudy.evaluation.sources import labelled
from understudy.evaluation.utility import Labelled
from understudy.records.encode import encode

pytestmark = [pytest.mark.slow, pytest.mark.data, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def mnist() -> tuple[Labelled, Labelled]:
    """Training and test images."""
    try:
        found = known("mnist")
    except MissingDataset as missing:
        pytest.skip(f"MNIST is not on this machine: {missing}")
    train_rows, test_rows = (
        labelled(encode(part, found.schema), found.schema) for part in (found.train, found.test)
    )
    return train_rows, test_rows


def test_the_evaluation_cnn_reaches_its_ceiling(mnist: tuple[Labelled, Labelled]) -> None:
    """Trained on real images, the CNN of train-on-synthetic reaches 98.5 % on the test images."""
    rows, test = mnist
    predictor = train(Learner.CNN, rows.features, rows.labels, 10, 0)
    assert accuracy(test.labels, predictor(test.features)) >= 0.985


def test_the_domain_classifier_is_a_good_judge(mnist: tuple[Labelled, Labelled]) -> None:
    """The judge of inception scores reaches 99.2 % on the test images."""
    rows, test = mnist
    judge = domain_classifier(rows)
    assert accuracy(test.labels, judge.probabilities(test.features)) >= 0.992
