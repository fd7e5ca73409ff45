"""The critic of a recipe with places for canaries: every layer, name and label as in training, only wider.

Records get extra inputs that hold the *codes* of canaries (features of a dense critic, channels of a convolutional
one), and every hidden layer gets as many extra units, which pass the codes on. Weights from the extra units into the
ordinary ones are zero, so codes change no output, and yet every weight tensor of the critic holds, in coordinates that
belong to one canary alone, the canary's code times what flows back from the loss. All layers stay Linear and Conv2d,
so the engine treats a wide critic as any other.

One extra channel of an image takes four canaries: single bright pixels whose rows and columns are even or odd at every
one of the three strides. They meet different entries of each kernel, so their gradients never overlap.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from understudy.auditing.canaries import PASSED_ON
from understudy.dpsgd.critics import Critic
from understudy.dpsgd.losses import real_loss
from understudy.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from understudy.auditing.readings import Floats
    from understudy.dpsgd.objectives import Objective

__all__ = ["WideCritic"]

_STRIDE = 2
_TAPS = slice(2, 4)
"""With 5×5 kernels, padding 2 and stride 2, these entries carry pixel p to pixel ⌊p/2⌋ and nowhere else."""
_FAR = 15
"""Odd after no, one and two halvings, where 0 is even; it ends in another cell of the last map than 0."""


class WideCritic:
    """A critic with places for canaries, and the directions in which each canary can move it.

    Args:
        critic: as built for training.
        shape: the shape of one encoded record.
        canaries: how many places are wanted; `canaries` says how many there are.
        seed: of the stand-in record that all canaries and ordinary records share.

    Raises:
        PlanError: an activation is not zero at zero, so that ordinary records would fill the canaries' places.
    """

    def __init__(self, critic: Critic, shape: tuple[int, ...], canaries: int, *, seed: int = 0) -> None:
        _refuse_what_cannot_be_widened(critic)
        self._conv = any(isinstance(layer, nn.Conv2d) for layer in critic.body)
        self._cells = _cells(shape) if self._conv else [(0, 0)]
        self._units = math.ceil(canaries / len(self._cells))
        self.canaries = self._units * len(self._cells)
        generator = torch.Generator().manual_seed(seed)
        record = torch.rand(shape, generator=generator) * 2 - 1
        self._record = record if self._conv else record.flatten()
        self._ordinary: dict[str, tuple[int, slice]] = {}
        body = self._widened(critic.body, shape)
        self.critic = Critic(body, critic.conditioning)
        self._names = [name for name, _ in self.critic.named_parameters()]
        self._directions: list[dict[str, Tensor]] = []

    def _widened(self, body: nn.Sequential, shape: tuple[int, ...]) -> nn.Sequential:
        """Every layer with its extra inputs and units; notes where the ordinary outputs and the places are."""
        weighted = [i for i, layer in enumerate(body) if isinstance(layer, (nn.Conv2d, nn.Linear))]
        sides = list(shape[1:]) if self._conv else [1]
        layers: list[nn.Module] = []
        for i, layer in enumerate(body):
            if not isinstance(layer, (nn.Conv2d, nn.Linear)):
                layers.append(layer)
                continue
            flat = isinstance(layer, nn.Linear)
            inputs = layer.weight.shape[1]
            at = (math.prod(shape) if flat else shape[0]) if i == weighted[0] else inputs
            more = self._units * (math.prod(sides) if flat else 1)
            layers.append(_grown(layer, at, more, 0 if i == weighted[-1] else self._units))
            self._ordinary[f"body.{i}.weight"] = layer.weight.shape[0], slice(at, at + more)
            if not flat:
                sides = [math.ceil(side / _STRIDE) for side in sides]
        return nn.Sequential(*layers)

    def records(self, codes: Floats) -> Tensor:
        """Records that share their features and carry these codes, one row of codes each."""
        values = torch.from_numpy(np.ascontiguousarray(codes)).to(self._record)
        shared = self._record.expand(len(values), *self._record.shape)
        if not self._conv:
            return torch.cat([shared, values], dim=1)
        places = shared.new_zeros(len(values), self._units, *self._record.shape[1:])
        by_cell = values.reshape(len(values), self._units, len(self._cells))
        for cell, (row, column) in enumerate(self._cells):
            places[:, :, row, column] = by_cell[:, :, cell]
        return torch.cat([shared, places], dim=1)

    def labels(self, rows: int) -> Tensor | None:
        """The same label for every row, or None for a critic that knows none."""
        conditional = hasattr(self.critic.conditioning, "classes")
        return torch.zeros(rows, dtype=torch.int64) if conditional else None

    def aim(self, objective: Objective, loud: float) -> None:
        """Find, by ordinary autograd on the loss of one record, along which direction a canary moves each weight."""
        self._directions = []
        for cell in range(len(self._cells)):
            code = np.zeros((1, self.canaries))
            code[0, cell] = loud
            logits = self.critic(self.records(code), self.labels(1))
            loss = real_loss(objective, logits).sum()
            found = torch.autograd.grad(loss, list(self.critic.parameters()))
            named = dict(zip(self._names, found, strict=True))
            self._directions.append(
                {name: _unit(self._places(name, named[name].double())[:, 0]) for name in self._ordinary}
                | {name: _unit(g.double()) for name, g in named.items() if name not in self._ordinary}
            )

    def own(self, released: Mapping[str, Floats]) -> Floats:
        """Canaries × weight tensors: how far the release lies along each canary's direction in each weight."""
        columns = []
        for name in self._ordinary:
            places = self._places(name, torch.from_numpy(released[name]))
            along = [torch.einsum("oup,op->u", places, d[name]) for d in self._directions]
            columns.append(torch.stack(along, dim=1).flatten())
        return torch.stack(columns, dim=1).numpy()

    def shared(self, released: Mapping[str, Floats]) -> Floats:
        """One number for each bias: how far the release lies along the direction of a record's gradient."""
        biases = [name for name in self._names if name not in self._ordinary]
        direction = self._directions[0]
        return np.array([float(np.sum(released[name] * direction[name].numpy())) for name in biases])

    def _places(self, name: str, weight: Tensor) -> Tensor:
        """Ordinary outputs × extra units × entries that belong to each unit."""
        outputs, columns = self._ordinary[name]
        return weight[:outputs, columns].reshape(outputs, self._units, -1)


def _cells(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pixels for the canaries of one channel: four where the image is large enough to keep them apart."""
    if min(shape[1:]) <= _FAR:
        return [(0, 0)]
    return list(itertools.product((0, _FAR), (0, _FAR)))


def _grown(layer: nn.Conv2d | nn.Linear, at: int, more_inputs: int, more_units: int) -> nn.Module:
    """The layer with `more_inputs` inputs inserted at `at` and `more_units` units at its end."""
    outputs, inputs = layer.weight.shape[:2]
    if isinstance(layer, nn.Linear):
        wide: nn.Conv2d | nn.Linear = nn.Linear(
            inputs + more_inputs, outputs + more_units, layer.bias is not None
        )
    else:
        assert (layer.kernel_size, layer.stride, layer.padding) == ((5, 5), (2, 2), (2, 2))
        wide = nn.Conv2d(
            inputs + more_inputs, outputs + more_units, 5, stride=2, padding=2, bias=layer.bias is not None
        )
    with torch.no_grad():
        wide.weight.zero_()
        wide.weight[:outputs, :at] = layer.weight[:, :at]
        wide.weight[:outputs, at + more_inputs :] = layer.weight[:, at:]
        for unit in range(more_units):
            passing = wide.weight[outputs + unit, at + unit]
            (passing if passing.dim() == 0 else passing[_TAPS, _TAPS]).fill_(PASSED_ON)
        if layer.bias is not None:
            assert wide.bias is not None
            wide.bias.zero_()
            wide.bias[:outputs] = layer.bias
    return wide


def _unit(vector: Tensor) -> Tensor:
    norm = float(vector.norm())
    return vector / norm if norm > 0 else vector


def _refuse_what_cannot_be_widened(critic: Critic) -> None:
    for layer in critic.body:
        if not isinstance(layer, (nn.Conv2d, nn.Linear, nn.Flatten)) and float(layer(torch.zeros(1)).abs()):
            raise PlanError(
                f"{type(layer).__name__} is not zero at zero, so ordinary records would fill the places of canaries: "
                "audit the recipe with relu, leaky-relu, tanh or gelu."
            )
