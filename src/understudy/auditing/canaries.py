"""Critics with places for canaries: ordinary layers, so that the very code under audit handles them.

A wide critic is a critic whose records have `canaries` extra input coordinates, and whose hidden layers have as
many extra units. Extra unit j passes the code of canary j on to the next layer, and its weights into the ordinary
units are zero. So the codes change no output, and yet the weight gradient of every layer holds, in column j, the
code of canary j times what flows back from the loss:

* an ordinary record has zeros there, exactly, even under a gradient penalty;
* canaries are orthogonal to each other;
* a loud code makes the canary's clipped gradient as long as the rule allows, in every weight tensor at once.

Nothing but Linear layers is involved: the fast path of a private engine treats a wide critic as any other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from understudy.auditing.readings import Floats

    Step = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor] | Sequence[Tensor]]

__all__ = ["CriticSubject", "wide_mlp", "widen"]

PASSED_ON = 0.01
"""The share of its code that a canary's unit passes on: most of a canary's gradient is then in the first layer,
where a negative code gives exactly the opposite gradient, while every layer's own part is still loud."""


def wide_mlp(features: int, hidden: Sequence[int], canaries: int, *, seed: int = 0) -> nn.Sequential:
    """A LeakyReLU critic with places for canaries in every layer.

    Args:
        features: how many ordinary inputs a record has.
        hidden: the widths of the hidden layers.
        canaries: how many canaries it can take.
        seed: of the initial weights.
    """
    layers: list[nn.Module] = []
    widths = [features, *hidden]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for width_in, width_out in itertools.pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.LeakyReLU(0.2)]
        layers.append(nn.Linear(widths[-1], 1))
    return widen(nn.Sequential(*layers), canaries)


def widen(critic: nn.Sequential, canaries: int) -> nn.Sequential:
    """The same critic with `canaries` more inputs, passed on through every hidden layer; the output is unchanged.

    Args:
        critic: Linear layers with pointwise activations a with a(0) = 0 between them; the last gives one logit.
        canaries: how many canaries it shall take.
    """
    last = max(i for i, layer in enumerate(critic) if isinstance(layer, nn.Linear))
    layers = [
        _widened(layer, canaries, final=i == last) if isinstance(layer, nn.Linear) else layer
        for i, layer in enumerate(critic)
    ]
    return nn.Sequential(*layers)


def _widened(layer: nn.Linear, canaries: int, *, final: bool) -> nn.Linear:
    more = 0 if final else canaries
    wide = nn.Linear(layer.in_features + canaries, layer.out_features + more, bias=layer.bias is not None).to(
        layer.weight
    )
    with torch.no_grad():
        wide.weight.zero_()
        wide.weight[: layer.out_features, : layer.in_features] = layer.weight
        if not final:
            wide.weight[layer.out_features :, layer.in_features :] = PASSED_ON * torch.eye(canaries)
        if layer.bias is not None:
            wide.bias.zero_()
            wide.bias[: layer.out_features] = layer.bias
    return wide


class CriticSubject:
    """A step on a wide critic, as a subject of `audit`.

    Args:
        name: how the result calls it.
        step: (critic, real rows, fake rows) → noisy gradient, by parameter name or in parameter order. Rows hold the
            ordinary features, then the codes; fakes carry zero codes.
        critic: as made by `wide_mlp` or `widen`.
        canaries: how many canaries the critic takes.
        sensitivity: how far one record may move the returned gradient, as claimed (C, or C / B for a mean).
        fakes: how many fake rows each step is handed; the same ones each time, so that only noise differs between two
            releases of one batch.
        sampler: draws one batch of row numbers, or None.
        labelled: write a tenth of each code once more at the end of the row, where the label is; a step that lets
            labels reach the fakes shows there. The critic then needs twice as many places as there are canaries.
        seed: of the stand-in record and of the fakes.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        critic: nn.Sequential,
        canaries: int,
        *,
        sensitivity: float,
        fakes: int = 16,
        sampler: Callable[[int], NDArray[np.int64]] | None = None,
        labelled: bool = False,
        seed: int = 0,
    ) -> None:
        self.name, self.canaries, self.sampler = name, canaries, sampler
        self._step, self._critic, self._sensitivity = step, critic, sensitivity
        self._first = next(p for p in critic.parameters())
        generator = torch.Generator().manual_seed(seed)
        self._copies = (1.0, 0.1) if labelled else (1.0,)
        self._places = canaries * len(self._copies)
        self._features = self._first.shape[1] - self._places
        self._record = torch.randn(self._features, generator=generator).to(self._first)
        fake = torch.randn(fakes, self._features, generator=generator).to(self._first)
        self._fake = torch.cat([fake, fake.new_zeros(fakes, self._places)], dim=1)

    def release(self, codes: Floats) -> dict[str, Floats]:
        """One noisy gradient of records that share their features and carry these codes."""
        tail = torch.from_numpy(codes).to(self._first)
        real = torch.cat([self._record.expand(len(codes), -1), *(c * tail for c in self._copies)], dim=1)
        released = self._step(self._critic, real, self._fake)
        names = [name for name, _ in self._critic.named_parameters()]
        pairs = released.items() if hasattr(released, "items") else zip(names, released, strict=True)
        return {name: g.detach().double().numpy() / self._sensitivity for name, g in pairs}

    def blocks(self, released: Mapping[str, Floats]) -> Floats:
        """The columns of the canaries in every weight, without the rows that only pass codes on."""
        weights = [g for g in released.values() if g.ndim == 2]
        rows = [g.shape[0] - self._places for g in weights[:-1]] + [weights[-1].shape[0]]
        columns = [g[:n, -self._places :] for g, n in zip(weights, rows, strict=True)]
        return np.concatenate(
            [c[:, i : i + self.canaries] for c in columns for i in range(0, self._places, self.canaries)]
        ).T

    def shared(self, released: Mapping[str, Floats]) -> Floats:
        """Every bias."""
        return np.concatenate([np.zeros(0), *(g for g in released.values() if g.ndim == 1)])
