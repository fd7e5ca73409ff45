"""What a GAN releases: its generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.synthesizers.gan.generators import Generator, build_generator
from understudy.synthesizers.network import NetworkModel
from understudy.synthesizers.shared.latents import draw_latent

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from understudy.schema import Schema
    from understudy.synthesizers.gan.recipe import GanRecipe
    from understudy.synthesizers.shared.parts import Latent

__all__ = ["GanModel", "build_gan_model"]


class GanModel(NetworkModel):
    """A generator and the law of its input noise.

    Args:
        generator: latent noise and a label to one record.
        latent: how the noise is drawn.
    """

    def __init__(self, generator: Generator, latent: Latent) -> None:
        super().__init__()
        self.generator = generator
        self.latent = latent

    def made(
        self, rows: int, labels: Tensor | None, source: torch.Generator, *, chosen: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Records of the given classes."""
        del chosen  # a class that is asked for always stands
        return self.generator(draw_latent(self.latent, rows, source), labels), labels


def build_gan_model(recipe: GanRecipe, schema: Schema) -> GanModel:
    """The generator of a recipe for records of a schema, with fresh weights."""
    return GanModel(build_generator(recipe, schema), recipe.latent)
