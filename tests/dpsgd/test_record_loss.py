"""Private steps on any loss of a record: classifiers in closed form, autoencoders and a VAE, through the same door."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from understudy.door.door import Door
from understudy.door.noise import SeededNoise
from understudy.door.source import Rows
from understudy.dpsgd import NoisyGradients, Path, PlainGradients, Predictor, clipped_sum, explain
from understudy.dpsgd.batch import CriticBatch
from understudy.dpsgd.clipping import SLACK, GlobalClip, JointClip, MicrobatchClip
from understudy.dpsgd.gradients import book, bookkeeping
from understudy.dpsgd.gradients.walk import Chain, read_chain
from understudy.dpsgd.losses import record_losses, record_slopes
from understudy.dpsgd.objectives import WassersteinPenalty
from understudy.errors import PlanError
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from understudy.dpsgd.losses import RecordLoss

STEPS = "steps"


def cross_entropy(outputs: Tensor, _x: Tensor, label: Tensor | None) -> Tensor:
    """Of a classifier."""
    assert label is not None
    return functional.cross_entropy(outputs, label)


def squared_error(outputs: Tensor, x: Tensor, _label: Tensor | None) -> Tensor:
    """Of an autoencoder."""
    return (outputs - x.flatten()).square().sum()


class Vae(nn.Module):
    """A variational autoencoder of digits: outputs are the pixels, then mean and log-variance of the latent."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 12))
        self.decoder = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 64))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        latent = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        return torch.cat([self.decoder(latent), mean, log_variance], dim=1)


def negative_elbo(outputs: Tensor, x: Tensor, _label: Tensor | None) -> Tensor:
    """Squared error of the pixels, and the divergence of the latent from a standard normal."""
    pixels, mean, log_variance = outputs.split([64, 6, 6])
    divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum() / 2
    return 10 * (pixels - x).square().sum() + divergence


def digits() -> tuple[Rows, Rows]:
    """Every digit of scikit-learn with values in [0, 1], for training and for testing."""
    x, labels = load_digits(return_X_y=True)
    pixels, classes = torch.from_numpy(x).float() / 16, torch.from_numpy(labels)
    return Rows(pixels[:1500], classes[:1500]), Rows(pixels[1500:], classes[1500:])


def classifier() -> Predictor:
    """A small dense classifier of digits."""
    return Predictor(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))


def convolutional() -> Predictor:
    """A small convolutional classifier of digits, with group norm."""
    layers = (nn.Conv2d(1, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.GELU(), nn.Flatten(), nn.Linear(128, 10))
    return Predictor(nn.Sequential(*layers))


def loop(model: nn.Module, loss: RecordLoss, records: Rows, bound: float) -> dict[str, Tensor]:
    """The definition: one backward per record, clip, add."""
    params = dict(model.named_parameters())
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in params.items()}
    x, labels = torch.as_tensor(records.x), records.labels
    for i in range(len(x)):
        label = None if labels is None else torch.as_tensor(labels)[i]
        outputs = model(x[i : i + 1], None if label is None else label[None])
        found = torch.autograd.grad(loss(outputs[0], x[i], label), list(params.values()))
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in found))
        for name, g in zip(params, found, strict=True):
            total[name] += g.double() * min(1.0, bound / (1 + SLACK) / norm)
    return total


def relative_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The norm of the difference over the norm of what is expected."""
    difference = math.sqrt(sum(float((found[n] - expected[n]).square().sum()) for n in expected))
    return difference / math.sqrt(sum(float(g.square().sum()) for g in expected.values()))


CASES = {
    "classifier": (classifier, cross_entropy, (64,)),
    "convolutional classifier": (convolutional, cross_entropy, (1, 8, 8)),
    "autoencoder": (
        lambda: Predictor(nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 64), nn.Sigmoid())),
        squared_error,
        (64,),
    ),
}


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("case", CASES)
def test_clipped_gradients_equal_a_loop_over_records(case: str, path: Path) -> None:
    """Both paths give the sum of a naive loop to 1e-6, at bounds that clip some records and spare others."""
    make, loss, shape = CASES[case]
    torch.manual_seed(0)
    model, records = make(), digits()[0]
    x, labels = torch.as_tensor(records.x)[:60].reshape(60, *shape), torch.as_tensor(records.labels)[:60]
    assert explain(model, loss).startswith("book-keeping")
    batch = CriticBatch(x, labels, x[:0])
    norms = bookkeeping_norms(model, loss, batch)
    bound = float(norms.median())
    for chunk in (None, 7):
        found = clipped_sum(model, loss, batch, GlobalClip(bound), path=path, chunk=chunk)
        assert relative_error(found.gradients, loop(model, loss, Rows(x, labels), bound)) < 1e-6
        assert abs(found.shifted_count) < 30  # some were clipped, and some were not


def bookkeeping_norms(model: nn.Module, loss: RecordLoss, batch: CriticBatch) -> Tensor:
    """The gradient norm of each record."""
    chain = read_chain(model)
    assert isinstance(chain, Chain)
    squares = bookkeeping.squared_norms(model, chain, loss, batch, joint=False)
    return torch.stack(list(squares.values())).sum(0).sqrt()


@pytest.mark.parametrize("rule", [GlobalClip(0.5), MicrobatchClip(0.5, 4)], ids=lambda rule: rule.kind)
def test_one_record_moves_the_sum_by_at_most_its_bound(rule: GlobalClip | MicrobatchClip) -> None:
    """Whatever the label and however large the record, the sum of a classifier moves within the sensitivity."""
    check_influence(rule)


def check_influence(rule: GlobalClip | MicrobatchClip) -> None:
    """Removing a record that is far too large."""
    torch.manual_seed(0)
    model, records = classifier(), digits()[0]
    x, labels = torch.as_tensor(records.x)[:20].clone(), torch.as_tensor(records.labels)[:20]
    x[3] *= 1e4
    bins = torch.arange(20) // 4
    sums = [
        clipped_sum(model, cross_entropy, CriticBatch(x[k], labels[k], x[:0], microbatch=bins[k]), rule)
        for k in (torch.arange(20), torch.tensor([i for i in range(20) if i != 3]))
    ]
    difference = [(sums[0].gradients[n] - sums[1].gradients[n]).square().sum() for n in sums[0].gradients]
    assert math.sqrt(sum(map(float, difference))) <= sums[0].sensitivity


def test_slopes_that_know_the_batch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a loss that is centred over its batch, so that one record moves what all others add."""

    def centred(loss: RecordLoss, outputs: Tensor, x: Tensor, labels: Tensor | None) -> Tensor:
        slopes = record_slopes(loss, outputs, x, labels)
        return slopes - slopes.mean(0) - outputs.mean(0)

    monkeypatch.setattr(book, "record_slopes", centred)
    with pytest.raises(AssertionError):
        check_influence(GlobalClip(0.5))


def test_a_loss_sees_one_record_at_a_time() -> None:
    """A loss that would take a mean over a batch is never shown one, so that no record enters another's loss."""
    shapes = set()

    def curious(outputs: Tensor, x: Tensor, label: Tensor | None) -> Tensor:
        assert label is not None
        shapes.add((tuple(outputs.shape), tuple(x.shape), tuple(label.shape)))
        return (outputs - outputs.mean()).square().sum() + label

    outputs, x = torch.randn(5, 3), torch.randn(5, 4)
    labels = torch.arange(5)
    every = record_losses(curious, outputs, x, labels)
    slopes = record_slopes(curious, outputs, x, labels)
    for i in range(5):
        one = slice(i, i + 1)
        assert torch.allclose(record_losses(curious, outputs[one], x[one], labels[one]), every[one])
        assert torch.allclose(record_slopes(curious, outputs[one], x[one], labels[one]), slopes[one])
    assert shapes == {((3,), (4,), ())}


def trained(
    gradients: NoisyGradients | PlainGradients, model: nn.Module, door: Door, steps: int, rate: float
) -> None:
    """Adam on what the steps release."""
    optimiser = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        for name, gradient in gradients.step(door, model).items():
            model.get_parameter(name).grad = gradient
        optimiser.step()


@pytest.mark.parametrize("case", ["classifier", "convolutional classifier"])
def test_a_classifier_learns_digits_through_the_door(case: str) -> None:
    """At σ = 1 a private classifier, in closed form, reads at least 80 of 100 unseen digits (seeded)."""
    make, loss, shape = CASES[case]
    torch.manual_seed(0)
    model, (train, test) = make(), digits()
    private = Rows(torch.as_tensor(train.x).reshape(-1, *shape), train.labels)
    door = Door(private, (Charge(STEPS, SubsampledGaussian(0.2, 1.0, 100)),), SeededNoise(0), insecure=True)
    trained(NoisyGradients(STEPS, GlobalClip(1.0), loss, 300.0), model, door, 100, 0.02)
    with torch.no_grad():
        guesses = model(torch.as_tensor(test.x).reshape(-1, *shape)).argmax(1)
    assert float((guesses == torch.as_tensor(test.labels)).double().mean()) > 0.8
    assert door.left(STEPS) == 0


def test_a_vae_learns_digits_through_the_door() -> None:
    """A model of any shape works by vmap, with coins of its own: it rebuilds digits better than their mean does."""
    torch.manual_seed(0)
    model, (train, test) = Vae(), digits()
    private = Rows(train.x)
    assert explain(model, negative_elbo).startswith("vmap: Vae")
    door = Door(private, (Charge(STEPS, SubsampledGaussian(0.07, 0.5, 40)),), SeededNoise(0), insecure=True)
    trained(NoisyGradients(STEPS, GlobalClip(1.0), negative_elbo, 105.0), model, door, 40, 0.03)
    x = torch.as_tensor(test.x)
    with torch.no_grad():
        rebuilt = model.decoder(model.encoder(x)[:, :6])
    constant = (x - torch.as_tensor(train.x).mean(0)).square().mean()
    assert float((rebuilt - x).square().mean()) < 0.7 * float(constant)


def test_the_baseline_takes_any_loss_too() -> None:
    """Without noise the step is the mean gradient, and says the mean loss."""
    torch.manual_seed(0)
    model, train = classifier(), digits()[0]
    door = Door(train, (Charge(STEPS, SubsampledGaussian(1.0, 0.0, 1)),), SeededNoise(0), private=False)
    step = PlainGradients(STEPS, cross_entropy)
    found = step.step(door, model)
    loss = functional.cross_entropy(model(torch.as_tensor(train.x)), torch.as_tensor(train.labels))
    loss.backward()
    assert step.loss == pytest.approx(loss.item(), rel=1e-5)
    for name, p in model.named_parameters():
        assert torch.allclose(found[name], p.grad, atol=1e-6)


def test_fakes_that_nobody_has_a_loss_for_are_refused() -> None:
    """Fakes belong to critics; a rule or a penalty that pairs records with fakes needs some. Nothing is drawn."""
    model, train = classifier(), digits()[0]
    door = Door(train, (Charge(STEPS, SubsampledGaussian(0.2, 1.0, 1)),), SeededNoise(0), insecure=True)
    with pytest.raises(PlanError, match="no loss for fakes"):
        NoisyGradients(STEPS, GlobalClip(1.0), cross_entropy, 1.0).step(door, model, train)
    with pytest.raises(PlanError, match="no fakes were given"):
        NoisyGradients(STEPS, JointClip(1.0), cross_entropy, 1.0).step(door, model)
    with pytest.raises(PlanError, match="no fakes were given"):
        NoisyGradients(STEPS, GlobalClip(1.0), WassersteinPenalty(), 1.0).step(door, model)
    assert door.used == {}
