"""The generator of images, the labeller of what it makes, and records drawn from both."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.records.encode import encoded_shape
from understudy.schema import ImageSchema
from understudy.synthesizers.embedding.labeller import Labeller
from understudy.synthesizers.embedding.planes import halvings
from understudy.synthesizers.embedding.recipe import LinearLabeller
from understudy.synthesizers.embedding.warping import warped
from understudy.synthesizers.network import NetworkModel
from understudy.synthesizers.shared.latents import draw_latent, image_shape

if TYPE_CHECKING:
    from understudy.schema import Schema
    from understudy.synthesizers.embedding.recipe import EmbeddingRecipe, UpsamplingGenerator

__all__ = ["ImageModel", "Upsampler", "build_image_model", "doubtful"]

TRIES = 20
"""How often an image is drawn anew until the labeller is certain of its class."""


class _ClassNorm(nn.Module):
    """Batch normalisation with a gain and an offset for each class."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.gain = nn.Parameter(torch.ones(classes, width))
        self.offset = nn.Parameter(torch.zeros(classes, width))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        normal: Tensor = self.norm(x)
        return normal * self.gain[labels] + self.offset[labels]


class Upsampler(nn.Module):
    """Noise and label through dense layers with a normalisation per class, to a small image, doubled to the whole."""

    def __init__(
        self, part: UpsamplingGenerator, latent: int, classes: int, shape: tuple[int, int, int]
    ) -> None:
        super().__init__()
        self.classes, self.shape = classes, shape
        widths = (latent + classes, *part.hidden)
        stages = 1 + halvings(shape[1], shape[2])
        self._begin = (part.channels, math.ceil(shape[1] / 2**stages), math.ceil(shape[2] / 2**stages))
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(nn.Linear(before, after, bias=False) for before, after in pairs)
        self.norms = nn.ModuleList(_ClassNorm(width, classes) for width in part.hidden)
        self.spread = nn.Linear(widths[-1], math.prod(self._begin), bias=False)
        self.paint = nn.Sequential(nn.BatchNorm2d(part.channels), nn.LeakyReLU(0.1))
        channels = [part.channels, part.channels, *[math.ceil(part.channels / 2)] * (stages - 1)]
        for before, after in itertools.pairwise(channels):
            self.paint.append(nn.ConvTranspose2d(before, after, 4, stride=2, padding=1))
            self.paint.append(nn.LeakyReLU(0.1))
        self.paint.append(nn.Conv2d(channels[-1], shape[0], 3, padding=1))

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """One encoded image per row of `latent`."""
        hidden = torch.cat([latent, functional.one_hot(labels, self.classes).to(latent.dtype)], dim=1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            hidden = functional.leaky_relu(norm(layer(hidden), labels), 0.1)
        painted = self.paint(self.spread(hidden).reshape(-1, *self._begin))
        return torch.tanh(painted[:, :, : self.shape[1], : self.shape[2]] / 2)


class ImageModel(NetworkModel):
    """What is released: the generator and, where the recipe has one, the labeller of its images.

    Args:
        recipe: latents, distortions, and how certain the labeller must be.
        generator: what makes images.
        labeller: what says which class they are of, or None.
        schema: whether there are classes, and how images may be varied.
    """

    shares: Tensor | None

    def __init__(
        self, recipe: EmbeddingRecipe, generator: Upsampler, labeller: Labeller | None, schema: ImageSchema
    ) -> None:
        super().__init__()
        self.generator = generator
        self.labeller = labeller
        grouped = schema.classes is None
        shares = torch.ones(generator.classes, dtype=torch.float64) if grouped else None
        self.register_buffer("shares", shares)
        self.certainty = None if grouped or recipe.labeller is None else recipe.labeller.certainty
        self._sure = recipe.grouping.certainty if grouped else self.certainty
        self._latent, self._warp = recipe.latent, recipe.warp_for(schema)

    def made(
        self, rows: int, labels: Tensor | None, source: torch.Generator, *, chosen: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Images with their labels: as asked for, or as the labeller sees them if there is one.

        An image whose class the labeller is not certain of is drawn again. After the last try a class that was chosen
        stands, and otherwise the labeller's is taken.
        """
        certainty = self.certainty
        if self.shares is not None:
            labels, certainty = torch.multinomial(self.shares, rows, True, generator=source), self._sure
        assert labels is not None
        assert len(labels) == rows
        made = self._made(labels, source)
        if self.labeller is None or certainty is None:
            return made, None if self.shares is not None else labels
        seen = self.labeller(made).softmax(dim=1)
        for _ in range(TRIES if chosen or certainty > 0 else 0):
            again = doubtful(seen, labels, certainty)
            if not len(again):
                break
            made[again] = self._made(labels[again], source)
            seen[again] = self.labeller(made[again]).softmax(dim=1)
        if self.shares is not None:
            return made, None
        return made, labels if chosen else seen.argmax(dim=1)

    def _made(self, labels: Tensor, source: torch.Generator) -> Tensor:
        made: Tensor = self.generator(draw_latent(self._latent, len(labels), source), labels)
        return made if self._warp is None else warped(made, self._warp, source)


def doubtful(seen: Tensor, labels: Tensor, certainty: float) -> Tensor:
    """Which images the labeller takes for another class, or not surely enough for the one asked for."""
    probability, likeliest = seen.max(dim=1)
    return ((likeliest != labels) | (probability < certainty)).nonzero().squeeze(1)


def build_image_model(recipe: EmbeddingRecipe, schema: Schema) -> ImageModel:
    """The model of a recipe for images of a schema, with fresh weights; groups stand for classes that are not there."""
    assert isinstance(schema, ImageSchema)
    shape = image_shape(encoded_shape(schema), recipe.name)
    classes = recipe.grouping.count if schema.classes is None else len(schema.classes)
    generator = Upsampler(recipe.generator, recipe.latent.dim, classes, shape)
    part = recipe.labeller
    if schema.classes is None:
        part = part or LinearLabeller()
    return ImageModel(recipe, generator, None if part is None else Labeller(part, shape, classes), schema)
