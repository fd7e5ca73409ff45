"""The containers that the fast gradient path can read.

`Predictor(body)` has one row of outputs for each record and is told no labels; they are for its loss.
`Critic(body, conditioning)` is an ordinary `nn.Module` with `critic(x, labels) -> logits` of shape
(rows,). Its body is an `nn.Sequential`, so that the engine can walk the layers. How the label enters is one
of the values of `understudy.dpsgd.conditioning`:

==================  ===========================================  ==============================
value               what the body receives                       what the body returns
==================  ===========================================  ==============================
Unconditional       x as it is                                   one logit, (rows, 1)
OneHotFeatures(k)   x flattened, then k scaled indicators        one logit, (rows, 1)
OneHotChannels(k)   x (rows, c, h, w) with k constant channels   one logit, (rows, 1)
==================  ===========================================  ==============================

Layers that the fast path knows inside the body: Linear, Conv2d (groups = 1, dilation = 1, zero padding),
ReLU, LeakyReLU, Tanh, Softplus, GELU, Sigmoid, SiLU, ELU, Flatten, AvgPool2d, LayerNorm, GroupNorm,
Identity. Any other layer, and any other module that maps (x, labels) to logits, works as well through
the vmap path. Layers that mix records (batch norm) are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from understudy.dpsgd.conditioning import Conditioning, OneHotChannels, OneHotFeatures, Unconditional
from understudy.errors import UnsupportedModel

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Critic", "Predictor", "condition", "label_features", "one_hot", "record_features"]

_UNCONDITIONAL = Unconditional()


def condition(conditioning: Conditioning, x: Tensor, labels: Tensor | None) -> Tensor:
    """What the body receives: `x` with its label attached, in the way that `conditioning` says."""
    if isinstance(conditioning, Unconditional):
        return x
    return torch.cat(_pieces(conditioning, x, labels), dim=1)


def _pieces(conditioning: OneHotFeatures | OneHotChannels, x: Tensor, labels: Tensor | None) -> list[Tensor]:
    """The record and its label in the same shape but for the second axis, along which they are joined."""
    if isinstance(conditioning, OneHotFeatures):
        return [record_features(conditioning, x), label_features(conditioning, labels, x)]
    indicators = one_hot(_needed(labels, conditioning), conditioning.classes, x)
    return [x, indicators[:, :, None, None].expand(-1, -1, *x.shape[2:])]


def record_features(conditioning: OneHotFeatures, x: Tensor) -> Tensor:
    """The record as one row of features, in the range that the body is shown."""
    flat = x.flatten(1)
    return (flat + 1) / 2 if conditioning.unit_range else flat


def label_features(conditioning: OneHotFeatures, labels: Tensor | None, like: Tensor) -> Tensor:
    """What stands beside the record for its label: (rows, classes)."""
    indicators = one_hot(_needed(labels, conditioning), conditioning.classes, like)
    return conditioning.scale * indicators


def one_hot(labels: Tensor, classes: int, like: Tensor) -> Tensor:
    """(rows, classes) of zeros and ones in the dtype of `like`; works under vmap."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).to(like.dtype)


def _needed(labels: Tensor | None, conditioning: Conditioning) -> Tensor:
    """The labels, or an error that says where they should have come from."""
    if labels is None:
        raise UnsupportedModel(
            f"the critic is conditioned by {conditioning} but got no labels: pass integer labels with every "
            "batch, or build the critic with Unconditional()."
        )
    return labels


class Predictor(nn.Module):
    """A model whose layers the engine can walk: what its body makes of each record.

    Args:
        body: the layers, in order.
    """

    conditioning: Conditioning = _UNCONDITIONAL

    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """One row of outputs for each record."""
        outputs: Tensor = self.body(condition(self.conditioning, x, labels))
        return outputs

    def known_conditioning(self) -> bool:
        """Whether the label enters in one of the ways of the table (and not by a subclass's own)."""
        return type(self) in (Predictor, Critic) and isinstance(
            self.conditioning, (Unconditional, OneHotFeatures, OneHotChannels)
        )


class Critic(Predictor):
    """A critic whose layers the engine can walk; see the module's table.

    Args:
        body: the layers, in order.
        conditioning: how the label enters.
    """

    def __init__(self, body: nn.Sequential, conditioning: Conditioning = _UNCONDITIONAL) -> None:
        super().__init__(body)
        self.conditioning = conditioning

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """One logit per row."""
        return super().forward(x, labels).reshape(len(x))
