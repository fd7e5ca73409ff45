"""Critics: the networks that see private records, in the shape that the engine's fast path can read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import nn

from understudy.dpsgd.conditioning import Conditioning, OneHotChannels, OneHotFeatures, Unconditional
from understudy.dpsgd.critics import Critic
from understudy.records.encode import encoded_shape
from understudy.synthesizers.gan.generators import activation_module
from understudy.synthesizers.gan.parts import ConvCritic, DenseCritic
from understudy.synthesizers.shared.latents import image_shape

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.synthesizers.gan.recipe import GanRecipe

__all__ = ["build_critic"]


def build_critic(recipe: GanRecipe, schema: Schema) -> Critic:
    """The critic of a recipe for records of a schema, with fresh weights.

    Raises:
        PlanError: the recipe's critic looks at images and the schema does not describe images.
    """
    shape = encoded_shape(schema)
    classes = len(schema.label_classes or ())
    match recipe.critic:
        case DenseCritic() as part:
            width = math.prod(shape)
            scale = 1.0 if part.label_weight is None else part.label_weight * math.sqrt(width)
            conditioning: Conditioning = (
                OneHotFeatures(classes, scale, recipe.unit_range) if classes else Unconditional()
            )
            return Critic(_dense(part, width + classes), conditioning)
        case ConvCritic() as part:
            conditioning = OneHotChannels(classes) if classes else Unconditional()
            return Critic(_conv(part, image_shape(shape, recipe.name), classes), conditioning)


def _dense(part: DenseCritic, inputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    width = inputs
    for hidden in part.hidden:
        layers += [nn.Linear(width, hidden), activation_module(part.activation)]
        width = hidden
    return nn.Sequential(*layers, nn.Linear(width, 1))


def _conv(part: ConvCritic, shape: tuple[int, int, int], classes: int) -> nn.Sequential:
    channels, height, width = shape
    layers: list[nn.Module] = []
    depth = channels + classes
    for factor in (1, 2, 4):
        layers += [
            nn.Conv2d(depth, factor * part.capacity, 5, stride=2, padding=2),
            activation_module(part.activation),
        ]
        depth, height, width = factor * part.capacity, math.ceil(height / 2), math.ceil(width / 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(depth * height * width, 1))
