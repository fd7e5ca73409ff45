"""Training a generator from a published mean embedding: post-processing, so it may take as long as it likes.

Nothing here takes private rows. The generator is moved so that the features of what it makes have the published mean in
every class. The squared distance between means is estimated without bias as the inner product of the errors of two
independent half batches; a teacher, which was published too, may guide with its cross-entropy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from understudy.recipes.parts import MeanEmbedding, NoisyCodeCounts, NoisyMarginals
from understudy.records.encode import encoded_shape
from understudy.synthesizers.codes.model import CodeGenerator, build_code_generator
from understudy.synthesizers.embedding.features import Embedding, brightness
from understudy.synthesizers.embedding.labeller import Teacher
from understudy.synthesizers.gan.generators import Generator, build_generator, draw_latent, image_shape
from understudy.synthesizers.marginals.model import TableGenerator, build_table_generator
from understudy.synthesizers.shared.free_training import FreeTraining, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.recipes import Recipe
    from understudy.schema import Schema

__all__ = ["Apprentice", "Performer", "Performing", "build_performer"]

_LEAST_PER_CLASS = 2
"""Two half batches need at least one image each."""


class Performer(nn.Module):
    """What is released: the generator and, where the recipe has one, the teacher that labels its images."""

    def __init__(self, generator: Generator, teacher: Teacher) -> None:
        super().__init__()
        self.generator = generator
        self.teacher = teacher

    def forward(self, latent: Tensor, labels: Tensor | None) -> Tensor:
        """One encoded record per row of `latent`."""
        made: Tensor = self.generator(latent, labels)
        return made


Performing = Generator | Performer | TableGenerator | CodeGenerator
"""What a release can hold."""


def build_performer(recipe: Recipe, schema: Schema) -> Performing:
    """The module that a release of this recipe holds, with fresh weights."""
    if isinstance(recipe.statistic, NoisyMarginals):
        return build_table_generator(recipe, schema)
    if isinstance(recipe.statistic, NoisyCodeCounts):
        return build_code_generator(recipe, schema)
    generator = build_generator(recipe, schema)
    if recipe.teacher is None:
        return generator
    shape = image_shape(encoded_shape(schema), recipe.name)
    return Performer(generator, Teacher(recipe.teacher, shape, len(schema.label_classes or ())))


class Apprentice(FreeTraining[Generator]):
    """The state of the free training on images.

    Args:
        recipe: a recipe with an embedding.
        schema: what an image looks like.
        means: the published mean embedding, one row per class.
        teacher: the published teacher, or None.
        seed: for weights and latents; None draws one. Nothing private hangs on it.
        device: where the generator learns.
    """

    def __init__(
        self,
        recipe: Recipe,
        schema: Schema,
        means: Tensor,
        teacher: Teacher | None,
        seed: int | None,
        device: torch.device | None = None,
    ) -> None:
        assert isinstance(recipe.statistic, MeanEmbedding)
        super().__init__(recipe, lambda: build_generator(recipe, schema), seed, device)
        self._means = means.to(device=device)
        self._teacher = None if teacher is None else teacher.to(device=device)
        shape = image_shape(encoded_shape(schema), recipe.name)
        self._embedding = Embedding(recipe.statistic, shape).to(device=device)

    def _loss(self) -> Tensor:
        """Equally many images of every class, in two halves, against the published means."""
        classes = len(self._means)
        per_class = max(_LEAST_PER_CLASS, self._recipe.batch // classes)
        labels = torch.arange(classes, device=self._device).repeat(per_class)
        latent = draw_latent(self._recipe.latent, len(labels), self._source).to(device=self._device)
        made = self.generator(latent, labels)
        images = brightness(made)
        moduli = self._embedding.wavelets(images)
        features = self._embedding.of_parts(images, moduli).reshape(per_class, classes, -1)
        half = per_class // 2
        first = features[:half].mean(dim=0) - self._means
        second = features[half:].mean(dim=0) - self._means
        loss = (first * second).sum()
        if self._teacher is not None and self._recipe.teacher is not None:
            scores = self._teacher.of_moduli(moduli)
            loss = loss + self._recipe.teacher.guidance * functional.cross_entropy(scores, labels)
        return loss

    def released_weights(self) -> dict[str, Tensor]:
        """The weights of the module that is released, on the CPU: the averaged generator and the teacher."""
        weights = self._average.weights()
        if self._teacher is not None:
            taught = {f"teacher.{name}": value.clone() for name, value in self._teacher.state_dict().items()}
            weights = {**{f"generator.{name}": value for name, value in weights.items()}, **taught}
        return {name: value.cpu() for name, value in weights.items()}

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        return {
            "published": {"means": self._means},
            "teacher": {} if self._teacher is None else self._teacher.state_dict(),
        }

    @classmethod
    def restored(
        cls,
        recipe: Recipe,
        schema: Schema,
        state: Mapping[str, Tensor],
        seed: int | None,
        device: torch.device | None = None,
    ) -> Apprentice:
        """Go on from a state that `state` gave; nothing is published again."""
        part = parts_of(state)
        whole = build_performer(recipe, schema)
        teacher = whole.teacher if isinstance(whole, Performer) else None
        if teacher is not None:
            teacher.load_state_dict(part["teacher"])
        run = cls(recipe, schema, part["published"]["means"], teacher, seed, device)
        run._take_over(part)
        return run
