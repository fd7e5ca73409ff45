"""The critics and batches of the engine's benchmark, and the ordinary step they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from understudy.door.source import Rows
from understudy.dpsgd import Critic
from understudy.dpsgd.conditioning import Conditioning, OneHotChannels, OneHotFeatures, Unconditional
from understudy.dpsgd.objectives import Minimax, WassersteinPenalty

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.dpsgd.objectives import Objective

__all__ = ["CASES", "REGISTER", "ROWS", "Case", "ordinary_step"]

ROWS = 60_000


@dataclass(frozen=True)
class Case:
    """Critic, batch and loss, and the numbers that this line of the table must reach."""

    name: str
    shape: tuple[int, ...]
    batch: int
    objective: Objective
    conditioning: Conditioning
    most_private_over_nonprivate: float | None = None
    least_faster_than_vmap: float | None = None
    least_faster_than_opacus: float | None = None

    def critic(self) -> Critic:
        """A freshly initialised critic."""
        torch.manual_seed(0)
        return Critic(_body(self.name), self.conditioning)

    def records(self, rows: int = ROWS) -> Rows:
        """Random records in the critic's shape."""
        source = torch.Generator().manual_seed(1)
        x = torch.randn(rows, *self.shape, generator=source)
        return Rows(x, None if self.unlabelled else torch.randint(0, 10, (rows,), generator=source))

    def fakes(self) -> Rows:
        """As many fakes as records are expected in a batch."""
        source = torch.Generator().manual_seed(2)
        x = torch.randn(self.batch, *self.shape, generator=source)
        return Rows(x, None if self.unlabelled else torch.randint(0, 10, (self.batch,), generator=source))

    @property
    def unlabelled(self) -> bool:
        """Whether the critic takes no labels."""
        return isinstance(self.conditioning, Unconditional)


def _body(name: str) -> nn.Sequential:
    if name.startswith("mlp 794"):
        return nn.Sequential(nn.Linear(794, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    if name.startswith("mlp 784"):
        return nn.Sequential(
            nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)
        )
    if name.startswith("register"):
        return nn.Sequential(nn.Linear(32, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    if name.startswith("conv"):
        return nn.Sequential(*_convolutions(1, (32, 64, 128), 5, 2), nn.Flatten(), nn.Linear(128 * 16, 1))
    return nn.Sequential(*_convolutions(11, (104, 208, 400), 4, 1), nn.Flatten(), nn.Linear(400 * 9, 1))


def _convolutions(channels: int, widths: tuple[int, ...], kernel: int, padding: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Conv2d(channels, width, kernel, 2, padding), nn.LeakyReLU(0.2)]
        channels = width
    return layers


_IMAGE = (1, 28, 28)
CASES = (
    Case("mlp 794-128-1, BCE, 600 + 600", (784,), 600, Minimax(), OneHotFeatures(10), 1.25, 50, 60),
    Case(
        "mlp 784-512-512-1, WGAN-GP, 256", (784,), 256, WassersteinPenalty(), Unconditional(), 1.0, 30, None
    ),
    Case("conv 32, WGAN-GP, 64", _IMAGE, 64, WassersteinPenalty(), Unconditional(), 1.7, 1.8, None),
    Case("conv 32, WGAN-GP, 256", _IMAGE, 256, WassersteinPenalty(), Unconditional(), 1.7, 1.8, None),
    Case("conditional DCGAN, BCE, 128", _IMAGE, 128, Minimax(), OneHotChannels(10), 1.6, 2, 2),
)

REGISTER = Case(
    "register of 32 columns, mlp 32-128-1, BCE, 600 + 600", (32,), 600, Minimax(), Unconditional()
)


def ordinary_step(case: Case, critic: nn.Module, records: Rows, fakes: Rows) -> dict[str, Tensor]:
    """What a user without privacy would write: a random batch, one forward of reals and fakes, one backward."""
    x, fake = torch.as_tensor(records.x), torch.as_tensor(fakes.x)
    index = torch.randint(0, len(x), (case.batch,))
    real = x[index]
    labels = None
    if records.labels is not None and fakes.labels is not None:
        labels = torch.cat([torch.as_tensor(records.labels)[index], torch.as_tensor(fakes.labels)])
    logits = critic(torch.cat([real, fake]), labels)
    target = torch.cat([torch.ones(case.batch), torch.zeros(case.batch)])
    if isinstance(case.objective, WassersteinPenalty):
        loss = logits[case.batch :].mean() - logits[: case.batch].mean()
        mixing = torch.rand(case.batch, *[1] * len(case.shape))
        point = (mixing * real + (1 - mixing) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(point, None).sum(), point, create_graph=True)
        loss = loss + case.objective.weight * (slope.flatten(1).norm(dim=1) - 1).square().mean()
    else:
        loss = 2 * functional.binary_cross_entropy_with_logits(logits, target)
    params = dict(critic.named_parameters())
    return dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
