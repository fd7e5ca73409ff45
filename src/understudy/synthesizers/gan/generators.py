"""Generators: latent noise and a label in, one encoded record out.

Generators never see a private record, so they may contain any layer, batch normalisation included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.records.encode import Activation as Head
from understudy.records.encode import Span, encoded_shape, spans
from understudy.synthesizers.gan.parts import Activation, DeconvGenerator, DenseGenerator
from understudy.synthesizers.shared.latents import image_shape

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.synthesizers.gan.recipe import GanRecipe

__all__ = ["Generator", "activation_module", "build_generator"]


def activation_module(activation: Activation) -> nn.Module:
    """The torch module of an activation."""
    match activation:
        case Activation.RELU:
            return nn.ReLU()
        case Activation.LEAKY_RELU:
            return nn.LeakyReLU(0.2)
        case Activation.TANH:
            return nn.Tanh()
        case Activation.SOFTPLUS:
            return nn.Softplus()
        case Activation.GELU:
            return nn.GELU()


@dataclass(frozen=True)
class _Sizes:
    """Heights (or widths) of the feature maps on the way from the smallest to the image."""

    stages: tuple[int, int, int, int]

    @classmethod
    def of(cls, size: int) -> _Sizes:
        third = math.ceil(size / 2)
        second = math.ceil(third / 2)
        return cls((math.ceil(second / 2), second, third, size))


class OutputHead(nn.Module):
    """Applies each span's own activation, so that every output is a valid encoded record."""

    def __init__(self, layout: tuple[Span, ...], *, sigmoid: bool = False) -> None:
        super().__init__()
        self.layout = layout
        self.sigmoid = sigmoid

    def forward(self, raw: Tensor) -> Tensor:
        """Raw scores of shape (rows, width) to encoded values of the same shape."""
        if all(span.activation is Head.TANH for span in self.layout):
            return torch.tanh(raw / 2 if self.sigmoid else raw)  # tanh(x/2) = 2·sigmoid(x) − 1
        pieces = [self._activate(raw[:, span.start : span.start + span.width], span) for span in self.layout]
        return torch.cat(pieces, dim=1)

    @staticmethod
    def _activate(raw: Tensor, span: Span) -> Tensor:
        match span.activation:
            case Head.TANH:
                return torch.tanh(raw)
            case Head.SIGMOID:
                return torch.sigmoid(raw)
            case Head.SOFTMAX:
                return functional.softmax(raw, dim=1)


class Generator(nn.Module):
    """Concatenates noise and one-hot label, runs the body, and shapes the result as an encoded record."""

    def __init__(self, body: nn.Module, classes: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.body = body
        self.classes = classes
        self.shape = shape

    def forward(self, latent: Tensor, labels: Tensor | None) -> Tensor:
        """One encoded record per row of `latent`; `labels` is None for an unconditional generator."""
        if self.classes:
            assert labels is not None
            latent = torch.cat([latent, functional.one_hot(labels, self.classes).to(latent.dtype)], dim=1)
        made: Tensor = self.body(latent)
        return made.reshape(len(latent), *self.shape)


def build_generator(recipe: GanRecipe, schema: Schema) -> Generator:
    """The generator of a recipe for records of a schema, with fresh weights.

    Raises:
        PlanError: the recipe's generator makes images and the schema does not describe images.
    """
    shape = encoded_shape(schema)
    classes = len(schema.label_classes or ())
    inputs = recipe.latent.dim + classes
    match recipe.generator:
        case DenseGenerator() as part:
            body = _dense(
                part, inputs, math.prod(shape), OutputHead(spans(schema), sigmoid=recipe.unit_range)
            )
        case DeconvGenerator() as part:
            body = _deconv(part, inputs, image_shape(shape, recipe.name))
    return Generator(body, classes, shape)


def _dense(part: DenseGenerator, inputs: int, outputs: int, head: OutputHead) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = inputs
    for hidden in part.hidden:
        layers += [nn.Linear(width, hidden), activation_module(part.activation)]
        width = hidden
    return nn.Sequential(*layers, nn.Linear(width, outputs), head)


def _deconv(part: DeconvGenerator, inputs: int, shape: tuple[int, int, int]) -> nn.Sequential:
    channels, height, width = shape
    rows, columns = _Sizes.of(height).stages, _Sizes.of(width).stages
    depth = [4 * part.capacity, 2 * part.capacity, part.capacity, channels]
    layers: list[nn.Module] = [nn.Linear(inputs, depth[0] * rows[0] * columns[0])]
    if part.batch_norm:
        layers.append(nn.BatchNorm1d(depth[0] * rows[0] * columns[0]))
    layers += [nn.ReLU(), nn.Unflatten(1, (depth[0], rows[0], columns[0]))]
    for stage in range(3):
        extra = (rows[stage + 1] - 2 * rows[stage] + 1, columns[stage + 1] - 2 * columns[stage] + 1)
        layers += [
            nn.ConvTranspose2d(depth[stage], depth[stage + 1], 5, stride=2, padding=2, output_padding=extra),
            nn.ReLU() if stage < 2 else nn.Tanh(),
        ]
    return nn.Sequential(*layers)
