"""The moving average of a generator's weights, against its definition."""

from __future__ import annotations

import torch
from torch import nn

from understudy.synthesizers.shared.averaging import MovingAverage


def test_the_average_follows_the_weights() -> None:
    """After n warm updates towards a constant the distance has shrunk by decay to the n; without decay it is zero."""
    model = nn.Linear(3, 2)
    average, none = MovingAverage(model, decay=0.9), MovingAverage(model, decay=None)
    start = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    for taken in range(1000, 1005):
        average.update(model, taken)
        none.update(model, taken)
    assert torch.allclose(average.weights()["weight"], start + (1 - 0.9**5), atol=1e-6)
    assert torch.equal(none.weights()["weight"], model.weight)


def test_a_cold_average_forgets_faster_and_can_be_resumed() -> None:
    """The first update keeps 2/11 of the start; a restored average goes on where the other stood."""
    model = nn.BatchNorm1d(2).double()
    average, other = MovingAverage(model, decay=0.9), MovingAverage(model, decay=0.9)
    model(torch.randn(5, 2).double())
    average.update(model, 1)
    assert torch.allclose(average.weights()["running_mean"], 9 / 11 * model.running_mean)
    assert average.weights()["num_batches_tracked"].item() == 1
    other.restore(average.weights())
    for each in (average, other):
        each.update(model, 2)
    assert torch.equal(average.weights()["running_mean"], other.weights()["running_mean"])
