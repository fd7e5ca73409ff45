"""The layers that the book-keeping path knows: how values run forward and how gradients run back.

A walk through the critic is made of three steps that every layer has. `forward` gives the output. `pull` takes
the gradient at the output to the input. `push` is the derivative of `pull`, which the gradient penalty needs: it
takes ∂L/∂(gradient at the input) to the output, and tells what the penalty feels of the input's value.

A layer with a weight uses it in bilinear *places*. Forward, z = W·a; in the explicit input gradient of the
penalty, v = Wᵀ·u. In both the weight's gradient for one row is the same form of two factors: an input-shaped
one (a, or ∂L/∂v) and an output-shaped one (∂L/∂z, or u). A `Tape` gathers both factors of every place.
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

__all__ = ["LabelledLayer", "Layer", "Place", "Tape", "WeightedLayer", "detached"]


@dataclass
class Place:
    """One use of a layer's weight by a block of rows.

    Args:
        layer: whose weight.
        a: the input-shaped factor of each row.
        d: the output-shaped factor of each row.
        forward: z = W·a + bias; otherwise v = Wᵀ·u, in which the bias has no part.
    """

    layer: WeightedLayer
    a: Tensor
    d: Tensor
    forward: bool


@dataclass
class Tape:
    """Everything that one walk through the layers notes: places, and gradients of small parameters row by row."""

    places: list[Place] = field(default_factory=list)
    rows: list[tuple[str, Tensor]] = field(default_factory=list)


class Layer(Protocol):
    """One step of the walk."""

    @property
    def piecewise_linear(self) -> bool:
        """Whether the second derivative is zero: the penalty does not reach back through the values."""
        ...

    @property
    def trained(self) -> bool:
        """Whether the layer has parameters to note."""
        ...

    def forward(self, x: Tensor) -> Tensor:
        """The output for input x."""
        ...

    def note(self, x: Tensor, u: Tensor, tape: Tape) -> None:
        """Note the parameters' gradients at input x, where the gradient at the output is u."""
        ...

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """The gradient at the input x, from the gradient u at the output, which may be overwritten."""
        ...

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, Tensor | None]:
        """The derivatives of ⟨pull(x, u), t⟩ in u and in x (None where it vanishes); those in weights are noted.

        `t` may be overwritten; of piecewise linear activations, `pull` has overwritten `u` already.
        """
        ...


class WeightedLayer(Protocol):
    """A layer with a weight and maybe a bias; the names are those of the critic's parameters."""

    weight_name: str | None
    bias_name: str | None
    weight: Tensor
    offset: int
    """The first column of the critic's weight that this layer holds; not zero for the second part of a split one."""


class _Bilinear:
    """What linear layers and convolutions share: how their places are noted."""

    piecewise_linear = True
    trained = True
    offset = 0
    weight: Tensor
    weight_name: str | None
    bias_name: str | None

    def note(self, x: Tensor, u: Tensor, tape: Tape) -> None:
        """As in `Layer`."""
        tape.places.append(Place(self, x, u, forward=True))

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, None]:  # noqa: ARG002
        """As in `Layer`."""
        tape.places.append(Place(self, t, u, forward=False))
        return self._product(t), None

    def _product(self, t: Tensor) -> Tensor:
        """W·t without the bias."""
        raise NotImplementedError


class _Unweighted:
    """What layers without parameters share."""

    trained = False

    def note(self, x: Tensor, u: Tensor, tape: Tape) -> None:
        """Nothing to note."""


class LinearLayer(_Bilinear):
    """z = a·Wᵀ + bias on flat rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None, names: tuple[str | None, str | None]) -> None:
        self.weight = weight
        self.bias = bias
        self.weight_name, self.bias_name = names

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        return functional.linear(x, self.weight, self.bias)

    def pull(self, x: Tensor, u: Tensor) -> Tensor:  # noqa: ARG002 - linear
        """As in `Layer`."""
        return u * self.weight if self.weight.shape[0] == 1 else u @ self.weight  # the same, and faster

    def _product(self, t: Tensor) -> Tensor:
        return functional.linear(t, self.weight)


class LabelledLayer:
    """A linear layer on a record and its one-hot label: the weight is split by columns, so nothing is joined.

    Args:
        record: the columns that meet the record, with the bias.
        label: the columns that meet the label.
        features: what stands for the labels of the rows at hand.
    """

    piecewise_linear = True
    trained = True

    def __init__(self, record: LinearLayer, label: LinearLayer, features: Tensor | None = None) -> None:
        self.record = record
        self.label = label
        self.features = features

    @classmethod
    def split(cls, layer: LinearLayer, classes: int) -> LabelledLayer:
        """The two parts of a layer whose last inputs are the label."""
        offset = layer.weight.shape[1] - classes
        record = LinearLayer(layer.weight[:, :offset], layer.bias, (layer.weight_name, layer.bias_name))
        label = LinearLayer(layer.weight[:, offset:], None, (layer.weight_name, None))
        label.offset = offset
        return cls(record, label)

    def _labels(self) -> Tensor:
        assert self.features is not None
        return self.features

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        return self.record.forward(x).add_(self.label.forward(self._labels()))

    def note(self, x: Tensor, u: Tensor, tape: Tape) -> None:
        """As in `Layer`."""
        self.record.note(x, u, tape)
        self.label.note(self._labels(), u, tape)

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`, for the record: its label is not varied."""
        return self.record.pull(x, u)

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, None]:
        """As in `Layer`."""
        return self.record.push(x, u, t, tape)


class ConvLayer(_Bilinear):
    """A two-dimensional convolution with any stride and zero padding."""

    def __init__(self, module: nn.Conv2d, names: tuple[str | None, str | None]) -> None:
        self.weight = module.weight.detach()
        self.bias = detached(module.bias)
        self.weight_name, self.bias_name = names
        self.stride = module.stride
        assert not isinstance(module.padding, str)
        self.padding = module.padding

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`; of x only the shape matters."""
        return self._backward(x, u, 0)

    def _product(self, t: Tensor) -> Tensor:
        return functional.conv2d(t, self.weight, None, self.stride, self.padding)

    def _backward(self, x: Tensor, u: Tensor, which: int) -> Tensor:
        """The library's own derivative: of the input (0) or, summed over rows, of the weight (1)."""
        mask = [which == 0, which == 1, False]
        gradients = torch.ops.aten.convolution_backward(
            u, x, self.weight.to(u.dtype), None, self.stride, self.padding, (1, 1), False, (0, 0), 1, mask
        )
        result: Tensor = gradients[which]
        return result

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
        """Σ over rows of the weight's gradient."""
        return self._backward(a, d, 1)


class PointwiseLayer(_Unweighted):
    """An activation; its slope is written out for the piecewise linear ones and derived for the others."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        if getattr(module, "inplace", False):
            self.module = copy.copy(module)
            setattr(self.module, "inplace", False)  # noqa: B010 - the input is needed later
        self.piecewise_linear = isinstance(module, (nn.ReLU, nn.LeakyReLU, nn.Identity))

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        y: Tensor = self.module(x)
        return y

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`."""
        if isinstance(self.module, nn.Identity):
            return u
        v: Tensor
        if isinstance(self.module, nn.ReLU):
            v = torch.ops.aten.threshold_backward.grad_input(u, x, 0.0, grad_input=u)  # in place
            return v
        if isinstance(self.module, nn.LeakyReLU):
            slope = self.module.negative_slope
            v = torch.ops.aten.leaky_relu_backward.grad_input(u, x, slope, False, grad_input=u)
            return v
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            (v,) = torch.autograd.grad(self.module(at), at, u)
        return v

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, Tensor | None]:  # noqa: ARG002
        """As in `Layer`: slope·t, and curvature·u·t."""
        if self.piecewise_linear:
            return self.pull(x, t), None
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            (slopes,) = torch.autograd.grad(self.module(at).sum(), at, create_graph=True)
            (bent,) = torch.autograd.grad(slopes, at, u * t)
        return slopes.detach() * t, bent


class FlattenLayer(_Unweighted):
    """Rows become flat."""

    piecewise_linear = True

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        return x.flatten(1)

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`."""
        return u.reshape(x.shape)

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, None]:  # noqa: ARG002
        """As in `Layer`."""
        return t.flatten(1), None


class PoolLayer(_Unweighted):
    """Average pooling: linear without a weight."""

    piecewise_linear = True

    def __init__(self, module: nn.AvgPool2d) -> None:
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """As in `Layer`."""
        y: Tensor = self.module(x)
        return y

    def pull(self, x: Tensor, u: Tensor) -> Tensor:
        """As in `Layer`."""
        with torch.enable_grad():
            zeros = torch.zeros_like(x).requires_grad_()
            (v,) = torch.autograd.grad(self.module(zeros), zeros, u)
        return v

    def push(self, x: Tensor, u: Tensor, t: Tensor, tape: Tape) -> tuple[Tensor, None]:  # noqa: ARG002
        """As in `Layer`."""
        return self.forward(t), None


def detached(parameter: Tensor | None) -> Tensor | None:
    """The parameter as a plain tensor; None stays None."""
    return None if parameter is None else parameter.detach()
