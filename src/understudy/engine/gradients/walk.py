"""Read a critic as a chain of known layers, and walk it forward and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.engine.conditioning import OneHotChannels, OneHotFeatures, Projection
from understudy.engine.critics import Critic, condition_parts, one_hot
from understudy.engine.gradients.layers import LinearLayer, Tape, layer_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from understudy.engine.conditioning import Conditioning
    from understudy.engine.gradients.layers import Layer

__all__ = ["Chain", "read_chain"]


@dataclass(frozen=True)
class Chain:
    """A critic whose layers are all known.

    Args:
        layers: the body, in order.
        conditioning: how the label enters.
        head: of a projection critic: features → 1.
        embedding: of a projection critic, read as a layer features → classes of which the label picks one.
    """

    layers: tuple[Layer, ...]
    conditioning: Conditioning
    head: LinearLayer | None = None
    embedding: LinearLayer | None = None

    @property
    def piecewise_linear(self) -> bool:
        """Whether the input gradient depends on the values only through masks."""
        return all(layer.piecewise_linear for layer in self.layers)

    def logits(self, parts: Sequence[tuple[Tensor, Tensor | None]], tape: Tape) -> Tensor:
        """One logit per row of all blocks (x, labels), with every use of a weight noted on the tape."""
        h = self._values(condition_parts(self.conditioning, parts), tape)[-1]
        known = [labels for _, labels in parts if labels is not None]
        return self._output(h, torch.cat(known) if known else None, tape)

    def input_gradients(self, x: Tensor, labels: Tensor | None, tape: Tape) -> Tensor:
        """∂ logit / ∂ x for each row, written as explicit operations; each weight is noted in both uses."""
        start = condition_parts(self.conditioning, [(x, labels)])
        if self.piecewise_linear:
            with torch.no_grad():
                values = self._values(start, None)
        else:
            values = self._values(start, tape)
        u = self._output_gradient(values[-1], labels, tape)
        for layer, value in zip(reversed(self.layers), reversed(values[:-1]), strict=True):
            u = layer.transpose(value, u, tape)
        return self._record_part(u, x)

    def _values(self, start: Tensor, tape: Tape | None) -> list[Tensor]:
        """The input of each layer, and the last output; nothing is noted without a tape."""
        values = [start]
        for layer in self.layers:
            values.append(layer.forward(values[-1], tape))
        return values

    def _output(self, h: Tensor, labels: Tensor | None, tape: Tape) -> Tensor:
        if self.head is None or self.embedding is None:
            return h.reshape(h.shape[0])
        scores = self.embedding.forward(h, tape)
        return self.head.forward(h, tape).squeeze(1) + (scores * self._one_hot(labels, h)).sum(1)

    def _output_gradient(self, h: Tensor, labels: Tensor | None, tape: Tape) -> Tensor:
        """∂ logit / ∂ h."""
        ones = torch.ones(h.shape[0], 1, dtype=h.dtype, device=h.device)
        if self.head is None or self.embedding is None:
            return ones.reshape(h.shape)
        own = self.embedding.transpose(h, self._one_hot(labels, h), tape)
        return own + self.head.transpose(h, ones, tape)

    def _one_hot(self, labels: Tensor | None, like: Tensor) -> Tensor:
        assert isinstance(self.conditioning, Projection)
        assert labels is not None
        return one_hot(labels, self.conditioning.classes, like)

    def _record_part(self, u: Tensor, x: Tensor) -> Tensor:
        """The gradient at the record itself, without the label's features or channels."""
        if isinstance(self.conditioning, OneHotFeatures):
            return u[:, : x[0].numel()]
        if isinstance(self.conditioning, OneHotChannels):
            return u[:, : x.shape[1]]
        return u


def read_chain(critic: nn.Module) -> Chain | str:
    """The critic as a chain of known layers, or a sentence that says why it is not one."""
    if not isinstance(critic, Critic) or not critic.known_conditioning():
        return f"{type(critic).__name__} is not an engine.Critic, so its layers cannot be walked"
    if any(module._forward_hooks or module._forward_pre_hooks for module in critic.modules()):
        return "a layer has hooks, which a walk through the layers would not run"
    if _shares_weights(critic):
        return "two layers share one weight, whose norm is not the sum of theirs"
    names = {id(p): name for name, p in critic.named_parameters() if p.requires_grad}
    known: dict[nn.Module, Layer] = {}  # a module that occurs twice is one layer with more places
    for position, module in enumerate(critic.body):
        layer = known.get(module) or layer_for(module, _names_of(module, names))
        if layer is None:
            return f"layer body.{position} ({module}) is not one that book-keeping knows"
        known[module] = layer
    layers = [known[module] for module in critic.body]
    if not isinstance(critic.conditioning, Projection):
        return Chain(tuple(layers), critic.conditioning)
    head = layer_for(critic.head, _names_of(critic.head, names))
    assert isinstance(head, LinearLayer)
    weight = critic.embedding.weight
    embedding = LinearLayer(weight.detach(), None, (names.get(id(weight)), None))
    return Chain(tuple(layers), critic.conditioning, head, embedding)


def _shares_weights(critic: nn.Module) -> bool:
    """Whether a parameter belongs to more than one module (a module that occurs twice is still one)."""
    owned = [id(p) for module in critic.modules() for p in module._parameters.values() if p is not None]
    return len(owned) != len(set(owned))


def _names_of(module: nn.Module, names: dict[int, str]) -> tuple[str | None, str | None]:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    return names.get(id(weight)), names.get(id(bias))
