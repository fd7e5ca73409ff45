"""The gradient of a whole person is clipped as one: equal to plain autograd, and bounded whatever the person holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from doubles import Opaque, Silent
from understudy.door import persons as grouping
from understudy.door.door import Door
from understudy.door.noise import SecureNoise, SeededNoise
from understudy.door.persons import Persons
from understudy.door.source import Rows
from understudy.dpsgd import Critic, NoisyGradients, Path, clipped_sum, step
from understudy.dpsgd.batch import CriticBatch
from understudy.dpsgd.clipping import (
    Clipping,
    GlobalClip,
    JointClip,
    MicrobatchClip,
    PublicAdaptiveClip,
    QuantileAdaptiveClip,
    SeparateClip,
    WeightsBiasesClip,
)
from understudy.dpsgd.conditioning import OneHotChannels, OneHotFeatures
from understudy.dpsgd.gradients.microbatch import gradients_of, summed_losses
from understudy.dpsgd.losses import fake_loss
from understudy.dpsgd.objectives import Minimax, Objective, Wasserstein, WassersteinPenalty
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.door.query import Batch
    from understudy.dpsgd.clipping import ConcreteClip

PEOPLE, MOST, WIDTH, SIGMA = 9, 4, 6, 1.3
SIZES = torch.tensor([1, 3, 2, 4, 1, 4, 2, 1, 3])
OWNERS = torch.repeat_interleave(torch.arange(PEOPLE), SIZES)


def a_flat_critic() -> tuple[Critic, tuple[int, ...]]:
    """Conditioned on labels, with layer norm and a smooth layer."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH + 3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1)]
    return Critic(nn.Sequential(*layers), OneHotFeatures(3)).double(), (WIDTH,)


def an_image_critic() -> tuple[Critic, tuple[int, ...]]:
    """Conditioned on labels, with convolutions and group norm."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(4, 2, 3, 2, 1), nn.GroupNorm(1, 2), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(18, 1)]
    return Critic(nn.Sequential(*layers), OneHotChannels(3)).double(), (1, 6, 6)


def a_batch(shape: tuple[int, ...]) -> CriticBatch:
    """Records of nine persons who have one to four each."""
    source, rows = torch.Generator().manual_seed(1), len(OWNERS)
    return CriticBatch(
        real=torch.randn(rows, *shape, generator=source, dtype=torch.float64),
        real_labels=torch.randint(0, 3, (rows,), generator=source),
        fake=torch.randn(5, *shape, generator=source, dtype=torch.float64),
        fake_labels=torch.randint(0, 3, (5,), generator=source),
        mixing=torch.rand(rows, generator=source, dtype=torch.float64),
        partner=torch.randint(0, 5, (rows,), generator=source),
        persons=OWNERS,
        weights=(1.0 / SIZES)[OWNERS].double(),
    )


def by_autograd(
    critic: nn.Module, objective: Objective, batch: CriticBatch, rule: ConcreteClip
) -> dict[str, Tensor]:
    """Σ over persons of the clipped gradient of the mean loss of their records, one person at a time."""
    total: dict[str, Tensor] = {}
    for person in range(PEOPLE):
        own = person == OWNERS
        assert batch.real_labels is not None
        assert batch.fake_labels is not None
        assert batch.mixing is not None
        one = replace(
            batch,
            real=batch.real[own],
            real_labels=batch.real_labels[own],
            mixing=batch.mixing[own],
            partner=batch.partners()[own],
            persons=None,
            weights=None,
        )
        loss = sum(summed_losses(critic, objective, one))
        if rule.paired:
            partners = one.partners()
            loss = (
                loss + fake_loss(objective, critic(batch.fake[partners], batch.fake_labels[partners])).sum()
            )
        found = gradients_of(critic, loss / int(own.sum()))
        factors = rule.partition(found).factors({name: g.square().sum()[None] for name, g in found.items()})
        for name, gradient in found.items():
            total[name] = total.get(name, 0.0) + factors[name] * gradient
    return total


@pytest.mark.parametrize("path", list(Path))
@pytest.mark.parametrize("chunk", [None, 5])
@pytest.mark.parametrize("made", [a_flat_critic, an_image_critic])
def test_persons_are_clipped_as_one_on_every_path(
    made: Callable[[], tuple[Critic, tuple[int, ...]]], chunk: int | None, path: Path
) -> None:
    """Book-keeping and vmap, in any pieces, equal plain autograd person by person, for every loss and rule."""
    critic, shape = made()
    batch = a_batch(shape)
    for objective in (Minimax(), Wasserstein(), WassersteinPenalty()):
        for rule in (GlobalClip(0.3), JointClip(0.3), SeparateClip(0.3, 1.0), WeightsBiasesClip(0.2, 0.1)):
            found = clipped_sum(critic, objective, batch, rule, path=path, chunk=chunk)
            expected = by_autograd(critic, objective, batch, rule)
            for name, gradient in expected.items():
                assert torch.allclose(found.gradients[name], gradient, rtol=1e-9, atol=1e-9)
            assert abs(found.shifted_count) <= PEOPLE / 2


def test_pieces_never_split_a_person() -> None:
    """However small the pieces, all records of a person are in one of them."""
    batch = a_batch((WIDTH,))
    for size in (1, 2, 3, 5, 100):
        pieces = list(batch.pieces(size))
        assert sum(piece.people for piece in pieces) == PEOPLE
        assert torch.equal(torch.cat([piece.real for piece in pieces]), batch.real)


@pytest.mark.parametrize("path", list(Path))
def test_an_empty_batch_of_persons_is_zero(path: Path) -> None:
    """Nobody was drawn: the sum is zero in every entry, on both paths, and noise can be added to it."""
    critic, shape = a_flat_critic()
    batch = a_batch(shape)
    assert batch.real_labels is not None
    nobody = replace(
        batch,
        real=batch.real[:0],
        real_labels=batch.real_labels[:0],
        mixing=None,
        partner=None,
        persons=OWNERS[:0],
        weights=torch.zeros(0),
    )
    found = clipped_sum(critic, Wasserstein(), nobody, GlobalClip(1.0), path=path)
    assert not any(bool(one.any()) for one in found.gradients.values())
    x = torch.zeros(len(OWNERS), WIDTH)
    charge = Charge("steps", SubsampledGaussian(1e-9, SIGMA, 1))
    door = Door(Rows(x, None, Persons.of(OWNERS, MOST, x, None)), (charge,), SecureNoise())
    gradients = NoisyGradients("steps", GlobalClip(1.0), Wasserstein(), 9.0)
    body = Critic(a_body()) if path is Path.BOOK_KEEPING else Opaque(a_body())
    assert all(bool(one.all()) for one in gradients.step(door, body).values())


RULES: dict[str, Clipping] = {
    "global": GlobalClip(0.01),
    "separate": SeparateClip(0.01, 1.0),
    "joint": JointClip(0.01),
    "weights-biases": WeightsBiasesClip(0.01, 0.01),
    "public": PublicAdaptiveClip(2, least=0.01),
    "quantile": QuantileAdaptiveClip(0.5, 0.01, 0.2, 5.0),
    "microbatch": MicrobatchClip(0.01, 3),
}


def a_body() -> nn.Sequential:
    """The same at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))


def hostile_persons() -> list[Tensor]:
    """k equal extreme rows, k + 5 rows, rows that point apart, and one that is no number among others."""
    rows = torch.randn(MOST + 5, WIDTH, generator=torch.Generator().manual_seed(3))
    return [
        torch.full((MOST, WIDTH), -1000.0),
        1000.0 * rows,
        rows.flip(0),
        torch.cat([rows[:2], torch.full((1, WIDTH), torch.nan)]),
    ]


def movement(critic: nn.Module, rule: Clipping, objective: Objective, person: Tensor) -> float:
    """How far a whole person moves the sum before the noise, in units of what the noise is scaled for."""
    source = torch.Generator().manual_seed(2)
    records = torch.randn(len(OWNERS), WIDTH, generator=source)
    fakes, public = torch.randn(8, WIDTH, generator=source), torch.randn(8, WIDTH, generator=source)
    heard = []
    for more in (person[:0], person):
        x = torch.cat([records, more])
        owners = torch.cat([OWNERS, torch.full((len(more),), PEOPLE)])
        rows = Rows(x, None, Persons.of(owners, MOST, x, None))
        door = Silent(
            rows, (Charge("steps", SubsampledGaussian(1.0, SIGMA, 1)),), SeededNoise(3), insecure=True
        )
        NoisyGradients("steps", rule, objective, 9.0).step(door, critic, Rows(fakes), Rows(public))
        heard.append(torch.cat([one.flatten() for one in door.heard]))
    return float((heard[0] - heard[1]).norm()) / (door.scale / SIGMA)


def largest(critic: nn.Module, kind: str) -> float:
    """Over all hostile persons and some losses."""
    return max(
        movement(critic, RULES[kind], objective, person)
        for objective in (Wasserstein(), WassersteinPenalty())
        for person in hostile_persons()
    )


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("wrapped", [Critic, Opaque])
def test_a_whole_person_moves_the_sum_by_at_most_the_sensitivity(
    wrapped: Callable[..., nn.Module], kind: str
) -> None:
    """By book-keeping and by vmap, for every rule: k extreme rows, k + 5 rows, and rows that are no numbers."""
    assert 0.3 < largest(wrapped(a_body()), kind) <= 1.0


def bounded_by_row(patch: pytest.MonkeyPatch) -> None:
    """The planted bug: each row is clipped, and a person is forgotten."""
    plain = step.critic_batch

    def forgetful(*rows: Any, persons: Tensor | None, **options: Any) -> CriticBatch:
        del persons
        return plain(*rows, **options)

    patch.setattr(step, "critic_batch", forgetful)


def split_over_batches(patch: pytest.MonkeyPatch) -> None:
    """The planted bug: a batch ends in the middle of a person, whose parts are then clipped apart."""

    def add(self: step.ClippedGradients, sums: list[Tensor], batch: Batch) -> None:
        for row in range(len(batch)):
            part = replace(batch, x=batch.x[row : row + 1], persons=torch.zeros(1, dtype=torch.int64))
            self.add(sums, part)

    patch.setattr(step.ClippedGradients, "add_persons", add)


def all_rows_take_part(patch: pytest.MonkeyPatch) -> None:
    """The planted bug: each row of a person gets the weight of a person, by a query that bounds rows."""
    patch.setattr(grouping, "PersonQuery", NotAsked)
    patch.setattr(grouping, "_share", lambda rows: 1.0)


class NotAsked:
    """No query is one of these."""


@pytest.mark.parametrize("planted", [bounded_by_row, split_over_batches, all_rows_take_part])
def test_planted_bugs_are_noticed(
    planted: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound per row, a person split over batches and rows in full all move the sum by more than is claimed."""
    planted(monkeypatch)
    assert largest(Critic(a_body()), "global") > 1.5


def test_the_mean_of_rows_that_point_apart_keeps_its_length() -> None:
    """A person's gradient is clipped after it was added up: of rows clipped one by one less would be left."""
    critic = Critic(a_body())
    source = torch.Generator().manual_seed(5)
    person = 100.0 * torch.randn(MOST, WIDTH, generator=source)
    assert 0.98 < movement(critic, GlobalClip(0.01), Wasserstein(), person) <= 1.0
