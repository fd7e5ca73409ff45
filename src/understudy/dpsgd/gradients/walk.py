"""Read a critic as a chain of known layers, and walk it forward and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.dpsgd.conditioning import OneHotChannels, OneHotFeatures
from understudy.dpsgd.critics import Predictor, condition, label_features, record_features
from understudy.dpsgd.gradients.layers import (
    ConvLayer,
    FlattenLayer,
    LabelledLayer,
    LinearLayer,
    PointwiseLayer,
    PoolLayer,
    detached,
)
from understudy.dpsgd.gradients.standardising import NormLayer

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from understudy.dpsgd.conditioning import Conditioning
    from understudy.dpsgd.gradients.layers import Layer, Tape

__all__ = ["Chain", "read_chain"]


@dataclass(frozen=True)
class Chain:
    """A critic whose layers are all known.

    Args:
        layers: the body, in order.
        conditioning: how the label enters.
    """

    layers: tuple[Layer, ...]
    conditioning: Conditioning

    @property
    def piecewise_linear(self) -> bool:
        """Whether the input gradient depends on the values only through masks."""
        return all(layer.piecewise_linear for layer in self.layers)

    @property
    def affine_layers(self) -> int:
        """How many layers at the start, up to the first with a weight, are one affine map of the record."""
        if isinstance(self.conditioning, (OneHotFeatures, OneHotChannels)):
            return 0  # affine too, but an interpolate has the record's label and not a mixture
        for position, layer in enumerate(self.layers):
            if isinstance(layer, (LinearLayer, ConvLayer)):
                return position + 1
            if not isinstance(layer, (FlattenLayer, PoolLayer)):
                break
        return 0

    @property
    def mixes_values(self) -> bool:
        """Whether the walk at an interpolate can start behind the first weight, from a mixture of known values."""
        return self.affine_layers > 0 and self.piecewise_linear

    def begin(self, x: Tensor, labels: Tensor | None) -> tuple[Tensor, Chain]:
        """What the first layer receives of some rows, and the chain that is to receive it."""
        stem = self.layers[0] if self.layers else None
        if not isinstance(stem, LabelledLayer):
            return condition(self.conditioning, x, labels), self
        assert isinstance(self.conditioning, OneHotFeatures)
        features = label_features(self.conditioning, labels, x)
        bound = LabelledLayer(stem.record, stem.label, features)
        return record_features(self.conditioning, x), replace(self, layers=(bound, *self.layers[1:]))

    def values(self, start: Tensor, first: int = 0) -> list[Tensor]:
        """The inputs of the layers from number `first` on, which gets `start`; at the end the last output."""
        values = [start]
        for layer in self.layers[first:]:
            values.append(layer.forward(values[-1]))
        return values

    def note_loss(self, values: list[Tensor], slopes: Tensor, tape: Tape) -> None:
        """Note every parameter's gradient of a loss, given its slopes in the last value."""
        self._note_back(values, [slopes.reshape(values[-1].shape), *[None] * len(self.layers)], tape)

    def note_penalty(self, values: list[Tensor], slopes_of: Callable[[Tensor], Tensor], tape: Tape) -> None:
        """Note every parameter's gradient of a loss that depends on the input gradient ∂ logit / ∂ x of each row.

        Args:
            values: what `values` gave at the rows in question.
            slopes_of: from the input gradients, the loss's slopes in them.
            tape: where to note.
        """
        outputs = [torch.ones_like(values[-1])]
        for layer, value in zip(reversed(self.layers), reversed(values[:-1]), strict=True):
            outputs.append(layer.pull(value, outputs[-1]))
        t = slopes_of(self._without_label(outputs.pop()))
        bends: list[Tensor | None] = []
        for layer, value in zip(self.layers, values[:-1], strict=True):
            t, bend = layer.push(value, outputs.pop(), t, tape)
            bends.append(bend)
        self._note_back(values, [None, *reversed(bends)], tape)

    def _note_back(self, values: list[Tensor], gradients: list[Tensor | None], tape: Tape) -> None:
        """Note the parameters' gradients of a loss that depends on the values.

        Args:
            values: the input of each layer, then the output.
            gradients: the loss's own derivative in each value (None for zero), the last one first.
            tape: where to note.
        """
        lowest = next((i for i, layer in enumerate(self.layers) if layer.trained), len(self.layers))
        u, *others = gradients
        for position in range(len(self.layers) - 1, lowest - 1, -1):
            layer, value = self.layers[position], values[position]
            other = others[len(self.layers) - 1 - position]
            if u is not None:
                layer.note(value, u, tape)
                u = layer.pull(value, u) if position > lowest else None
            u = other if u is None else u if other is None else u + other

    def _without_label(self, u: Tensor) -> Tensor:
        """The gradient at the record itself: zero at the label's features or channels, which are not varied."""
        if not isinstance(self.conditioning, (OneHotFeatures, OneHotChannels)):
            return u
        if isinstance(self.layers[0], LabelledLayer):
            return u
        own = u.clone()
        own[:, u.shape[1] - self.conditioning.classes :] = 0.0
        return own


def read_chain(critic: nn.Module) -> Chain | str:
    """The critic as a chain of known layers, or a sentence that says why it is not one."""
    if not isinstance(critic, Predictor) or not critic.known_conditioning():
        return f"{type(critic).__name__} is neither a Critic nor a Predictor, so its layers cannot be walked"
    if any(module._forward_hooks or module._forward_pre_hooks for module in critic.modules()):
        return "a layer has hooks, which a walk through the layers would not run"
    if _shares_weights(critic):
        return "two layers share one weight, whose norm is not the sum of theirs"
    names = {id(p): name for name, p in critic.named_parameters() if p.requires_grad}
    known: dict[nn.Module, Layer] = {}  # a module that occurs twice is one layer with more places
    for position, module in enumerate(critic.body):
        layer = known.get(module) or _layer_for(module, _names_of(module, names))
        if layer is None:
            return f"layer body.{position} ({module}) is not one that book-keeping knows"
        known[module] = layer
    layers = [known[module] for module in critic.body]
    first = layers[0] if layers else None
    if (
        isinstance(critic.conditioning, OneHotFeatures)
        and isinstance(first, LinearLayer)
        and layers.count(first) == 1
    ):
        layers[0] = LabelledLayer.split(first, critic.conditioning.classes)
    return Chain(tuple(layers), critic.conditioning)


def _shares_weights(critic: nn.Module) -> bool:
    """Whether a parameter belongs to more than one module (a module that occurs twice is still one)."""
    owned = [id(p) for module in critic.modules() for p in module._parameters.values() if p is not None]
    return len(owned) != len(set(owned))


def _names_of(module: nn.Module, names: dict[int, str]) -> tuple[str | None, str | None]:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    return names.get(id(weight)), names.get(id(bias))


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


def _layer_for(module: nn.Module, names: tuple[str | None, str | None]) -> Layer | None:
    """The layer for a module, or None if the book-keeping path does not know it.

    Args:
        module: exactly one of the known classes (a subclass may do something else).
        names: the names under which the critic's weight and bias are trained; None for one that is frozen.
    """
    kind = type(module)
    layer: Layer | None = None
    if isinstance(module, nn.Linear) and kind is nn.Linear:
        layer = LinearLayer(module.weight.detach(), detached(module.bias), names)
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
