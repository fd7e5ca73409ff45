"""The layers that the book-keeping path knows: how each runs forward, and how a gradient runs back.

A layer with a weight uses it in bilinear *places*. Forward, z = W·a; in the explicit input gradient of the
penalty, v = Wᵀ·u. In both the weight's gradient for one row is the same form of two factors: an input-shaped
one (a, or ∂L/∂v) and an output-shaped one (∂L/∂z, or u). A `Tape` notes one factor of every place and the
tensor whose derivative is the other; one backward supplies all of them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Layer", "Place", "RowParameter", "Tape", "WeightedLayer", "layer_for"]


@dataclass
class Place:
    """One use of a layer's weight by a block of rows.

    Args:
        layer: whose weight.
        known: the factor that is there already: the input a of a forward place, u of a transposed one.
        handle: the tensor whose derivative is the other factor.
        forward: z = W·a + bias; otherwise v = Wᵀ·u, which has no bias.
    """

    layer: WeightedLayer
    known: Tensor
    handle: Tensor
    forward: bool


@dataclass
class RowParameter:
    """A small parameter that was copied for every row, so that its derivative is per row at once."""

    name: str
    copies: Tensor


@dataclass
class Tape:
    """Everything that one walk through the layers notes."""

    places: list[Place] = field(default_factory=list)
    row_parameters: list[RowParameter] = field(default_factory=list)

    def forward(self, layer: WeightedLayer, a: Tensor, z: Tensor) -> Tensor:
        """Note z = W·a; returns z, which from here on is part of the graph."""
        if not z.requires_grad:
            z.requires_grad_()
        self.places.append(Place(layer, a.detach(), z, forward=True))
        return z

    def transposed(self, layer: WeightedLayer, u: Tensor, v: Tensor) -> Tensor:
        """Note v = Wᵀ·u; returns v, which from here on is part of the graph."""
        if not v.requires_grad:
            v.requires_grad_()
        self.places.append(Place(layer, u.detach(), v, forward=False))
        return v

    def copy_for_rows(self, name: str, parameter: Tensor, rows: int) -> Tensor:
        """One copy of a small parameter for each row (no memory is used for the copies)."""
        for known in self.row_parameters:
            if known.name == name and known.copies.shape[0] == rows:
                return known.copies
        copies = parameter.expand(rows, *parameter.shape).requires_grad_()
        self.row_parameters.append(RowParameter(name, copies))
        return copies


class Layer(Protocol):
    """One step of the walk."""

    @property
    def piecewise_linear(self) -> bool:
        """Whether the second derivative is zero: the penalty does not reach back through the values."""
        ...

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:
        """The output for input x; without a tape nothing is noted."""
        ...

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:
        """The gradient at the input, from the gradient u at the output; differentiable in both x and u."""
        ...


class WeightedLayer(Protocol):
    """A layer with a weight and maybe a bias; the names are those of the critic's parameters."""

    weight_name: str | None
    bias_name: str | None
    weight: Tensor

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:
        """As in `Layer`."""
        ...


class LinearLayer:
    """z = a·Wᵀ + bias on flat rows; also the embedding of a projection head."""

    piecewise_linear = True

    def __init__(self, weight: Tensor, bias: Tensor | None, names: tuple[str | None, str | None]) -> None:
        self.weight = weight
        self.bias = bias
        self.weight_name, self.bias_name = names

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:
        """As in `Layer`."""
        z = functional.linear(x, self.weight, self.bias)
        return z if tape is None else tape.forward(self, x, z)

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:  # noqa: ARG002 - linear
        """As in `Layer`."""
        return tape.transposed(self, u, u @ self.weight)


class ConvLayer:
    """A two-dimensional convolution with any stride and zero padding."""

    piecewise_linear = True

    def __init__(self, module: nn.Conv2d, names: tuple[str | None, str | None]) -> None:
        self.weight = module.weight.detach()
        self.bias = _detached(module.bias)
        self.weight_name, self.bias_name = names
        self.stride = module.stride
        assert not isinstance(module.padding, str)
        self.padding = module.padding

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:
        """As in `Layer`."""
        z = functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)
        return z if tape is None else tape.forward(self, x, z)

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:
        """As in `Layer`."""
        short = [
            x.shape[2 + i]
            - ((u.shape[2 + i] - 1) * self.stride[i] - 2 * self.padding[i] + self.weight.shape[2 + i])
            for i in (0, 1)
        ]
        v = functional.conv_transpose2d(u, self.weight, None, self.stride, self.padding, short)
        return tape.transposed(self, u, v)

    def patches(self, a: Tensor) -> Tensor:
        """The inputs of each output position: (rows, positions, kernel height · kernel width · in-channels).

        Channels come last, so that a row of the kernel is one run of memory and the copy is fast.
        """
        (high, wide), (down, right) = self.padding, self.stride
        height, width = self.weight.shape[2:]
        last = functional.pad(a.permute(0, 2, 3, 1), (0, 0, wide, wide, high, high)).contiguous()
        rows, tall, broad, channels = last.shape
        steps = ((tall - height) // down + 1, (broad - width) // right + 1)
        line = broad * channels
        view = last.as_strided(
            (rows, *steps, height, width * channels),
            (tall * line, down * line, right * channels, line, 1),
        )
        return view.reshape(rows, steps[0] * steps[1], -1)

    def as_weight(self, flat: Tensor) -> Tensor:
        """A gradient in the order of `patches`, (out-channels, kernel · in-channels), shaped as the weight."""
        out, channels, height, width = self.weight.shape
        return flat.reshape(out, height, width, channels).permute(0, 3, 1, 2)

    def weight_gradient(self, a: Tensor, d: Tensor) -> Tensor:
        """Σ over rows of the weight's gradient, by the library's own kernel."""
        gradients = torch.ops.aten.convolution_backward(
            d, a, self.weight, None, self.stride, self.padding, (1, 1), False, (0, 0), 1, [False, True, False]
        )
        result: Tensor = gradients[1]
        return result


class PointwiseLayer:
    """An activation; its slope is written out for the piecewise linear ones and derived for the others."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        if getattr(module, "inplace", False):
            self.module = copy.copy(module)
            setattr(self.module, "inplace", False)  # noqa: B010 - the input is needed later
        self.piecewise_linear = isinstance(module, (nn.ReLU, nn.LeakyReLU, nn.Identity))

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        y: Tensor = self.module(x)
        return y

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        if isinstance(self.module, nn.Identity):
            return u
        v: Tensor
        if isinstance(self.module, nn.ReLU):
            v = torch.ops.aten.threshold_backward(u, x.detach(), 0.0)
            return v
        if isinstance(self.module, nn.LeakyReLU):
            v = torch.ops.aten.leaky_relu_backward(u, x.detach(), self.module.negative_slope, False)
            return v
        at = x if x.requires_grad else x.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(self.module(at).sum(), at, create_graph=True)
        return u * slopes


class FlattenLayer:
    """Rows become flat."""

    piecewise_linear = True

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        return x.flatten(1)

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        return u.reshape(x.shape)


class PoolLayer:
    """Average pooling: linear without a weight, so its transpose follows from autograd."""

    piecewise_linear = True

    def __init__(self, module: nn.AvgPool2d) -> None:
        self.module = module

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        y: Tensor = self.module(x)
        return y

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:  # noqa: ARG002 - no weight
        """As in `Layer`."""
        zeros = torch.zeros_like(x).requires_grad_()
        (v,) = torch.autograd.grad(self.module(zeros), zeros, u, create_graph=True)
        return v


class NormLayer:
    """Layer norm or group norm: each row by its own mean and variance, then scale and shift per row copy."""

    piecewise_linear = False

    def __init__(self, module: nn.LayerNorm | nn.GroupNorm, names: tuple[str | None, str | None]) -> None:
        self.eps = module.eps
        self.groups = module.num_groups if isinstance(module, nn.GroupNorm) else None
        self.axes = 0 if isinstance(module, nn.GroupNorm) else len(module.normalized_shape)
        self.scale = _detached(module.weight)
        self.shift = _detached(module.bias)
        self.names = names

    def _grouped(self, x: Tensor) -> Tensor:
        """A view in which the last axis is what is normalised together."""
        if self.groups is not None:
            return x.reshape(x.shape[0], self.groups, -1)
        return x.reshape(*x.shape[: x.dim() - self.axes], -1)

    def _standard(self, x: Tensor) -> tuple[Tensor, Tensor]:
        grouped = self._grouped(x)
        centred = grouped - grouped.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return centred * scale, scale

    def _copies(self, which: int, like: Tensor, tape: Tape | None) -> Tensor | None:
        """The scale (0) or shift (1), one copy per row, shaped to multiply `like`."""
        parameter = (self.scale, self.shift)[which]
        name = self.names[which]
        if parameter is None:
            return None
        rows = like.shape[0]
        copies = parameter.expand(rows, *parameter.shape)
        if name is not None and tape is not None:
            copies = tape.copy_for_rows(name, parameter, rows)
        if self.groups is not None:
            return copies.reshape(rows, -1, *[1] * (like.dim() - 2))
        return copies.reshape(rows, *[1] * (like.dim() - 1 - self.axes), *parameter.shape)

    def forward(self, x: Tensor, tape: Tape | None) -> Tensor:
        """As in `Layer`."""
        y = self._standard(x)[0].reshape(x.shape)
        scale, shift = self._copies(0, y, tape), self._copies(1, y, tape)
        y = y if scale is None else y * scale
        return y if shift is None else y + shift

    def transpose(self, x: Tensor, u: Tensor, tape: Tape) -> Tensor:
        """As in `Layer`.

        With w = scale·u and y the standardised input: (w − mean w − y·mean(w·y)) / deviation.
        """
        y, inverse = self._standard(x)
        scale = self._copies(0, u, tape)
        w = self._grouped(u if scale is None else u * scale)
        centred = w - w.mean(-1, keepdim=True) - y * (w * y).mean(-1, keepdim=True)
        return (centred * inverse).reshape(x.shape)


def _detached(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.detach()


_POINTWISE = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.Tanh,
    nn.Softplus,
    nn.GELU,
    nn.Sigmoid,
    nn.SiLU,
    nn.ELU,
    nn.Identity,
)


def layer_for(module: nn.Module, names: tuple[str | None, str | None]) -> Layer | None:
    """The layer for a module, or None if the book-keeping path does not know it.

    Args:
        module: exactly one of the known classes (a subclass may do something else).
        names: the names under which the critic's weight and bias are trained; None for one that is frozen.
    """
    kind = type(module)
    layer: Layer | None = None
    if isinstance(module, nn.Linear) and kind is nn.Linear:
        layer = LinearLayer(module.weight.detach(), _detached(module.bias), names)
    elif isinstance(module, nn.Conv2d) and kind is nn.Conv2d and _plain(module):
        layer = ConvLayer(module, names)
    elif kind in _POINTWISE:
        layer = PointwiseLayer(module)
    elif isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
        layer = FlattenLayer()
    elif isinstance(module, nn.AvgPool2d) and kind is nn.AvgPool2d:
        layer = PoolLayer(module)
    elif isinstance(module, (nn.LayerNorm, nn.GroupNorm)) and kind in {nn.LayerNorm, nn.GroupNorm}:
        layer = NormLayer(module, names)
    return layer


def _plain(module: nn.Conv2d) -> bool:
    return (
        module.groups == 1
        and module.dilation == (1, 1)
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )
