"""Fitting a generator of images to a published mean embedding.

The generator is moved so that the features of what it makes have the published mean in every class. The squared
distance between means is estimated without bias as the inner product of the errors of two independent half batches; the
labeller, which was published too, may guide with its cross-entropy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from understudy.records.encode import encoded_shape
from understudy.synthesizers.embedding.features import Embedding, brightness, class_means
from understudy.synthesizers.embedding.groups import find_groups
from understudy.synthesizers.embedding.labeller import train_labeller
from understudy.synthesizers.embedding.model import Upsampler, build_image_model
from understudy.synthesizers.embedding.queries import ClassSums
from understudy.synthesizers.embedding.recipe import EMBEDDING
from understudy.synthesizers.shared.free_fitter import FreeFitter
from understudy.synthesizers.shared.latents import draw_latent, image_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.door.door import Door
    from understudy.schema import Schema
    from understudy.synthesizers.embedding.recipe import EmbeddingRecipe

__all__ = ["EmbeddingFitter"]

_LEAST_PER_CLASS = 2
"""Two half batches need at least one image each."""
_LEAST_PER_STEP = 16
_PIXELS_PER_STEP = 1_600_000
"""Of images larger than 89×89 a step makes fewer than 200, so that its memory does not grow with them."""


class EmbeddingFitter(FreeFitter[Upsampler]):
    """The state of the free training on images.

    Args:
        recipe: what to fit.
        schema: what an image looks like.
        seed: for weights and latents; None draws one.
        device: where the generator learns; what is published is computed on the CPU.
    """

    def __init__(
        self, recipe: EmbeddingRecipe, schema: Schema, seed: int | None, device: torch.device
    ) -> None:
        super().__init__(schema, recipe.optimiser, recipe.steps, recipe.averaging, seed, device)
        self._recipe = recipe
        self._embedding = Embedding(recipe.embedding, image_shape(encoded_shape(schema), recipe.name))
        self._labeller = build_image_model(recipe, schema).labeller
        height, width = self._embedding.wavelets.planes.size
        self._images_per_step = min(recipe.batch, max(_LEAST_PER_STEP, _PIXELS_PER_STEP // (height * width)))
        self._shares: Tensor | None = None  # of groups of images without labels
        self._means: Tensor

    def _ask(self, door: Door, count: float) -> None:
        if self.label_weights is None:
            self._ask_in_groups(door, count)
            return
        weights = torch.tensor(self.label_weights, dtype=torch.float64)
        sums = door.publish(EMBEDDING, ClassSums(self._embedding, len(weights))).value
        self._means = class_means(sums, weights * count)
        if self._labeller is not None and self._recipe.labeller is not None:
            train_labeller(self._labeller, self._recipe.labeller, door, count)

    def _ask_in_groups(self, door: Door, count: float) -> None:
        """Images without labels: groups of alike ones are found first and then serve as classes."""
        assert self._labeller is not None
        self._shares = find_groups(self._labeller, self._recipe.grouping, door, count)
        sums = door.publish(EMBEDDING, ClassSums(self._embedding, len(self._shares), self._labeller)).value
        self._means = class_means(sums, self._shares * count)

    def aim(self, means: Tensor) -> None:
        """Learn from these means without asking a door; for measuring how long a step takes."""
        self._means = means
        self._build()

    @property
    def width(self) -> int:
        """The number of features of the embedding."""
        return self._embedding.width

    def _new_generator(self) -> Upsampler:
        self._embedding = self._embedding.to(device=self._device)
        self._means = self._means.to(device=self._device)
        if self._labeller is not None:
            self._labeller = self._labeller.to(device=self._device)
        return build_image_model(self._recipe, self._schema).generator

    def _loss(self) -> Tensor:
        """Equally many images of every class, in two halves, against the published means; of many classes, some."""
        batch, classes = self._images_per_step, torch.arange(len(self._means))
        some = max(1, batch // _LEAST_PER_CLASS)
        if len(classes) > some:
            classes = torch.randperm(len(classes), generator=self._source)[:some]
        per_class = max(_LEAST_PER_CLASS, batch // len(classes))
        labels = classes.to(device=self._device).repeat(per_class)
        latent = draw_latent(self._recipe.latent, len(labels), self._source).to(device=self._device)
        images = brightness(self.generator(latent, labels))
        features, moduli = self._embedding.with_moduli(images)
        features, half = features.reshape(per_class, len(classes), -1), per_class // 2
        means = self._means[classes.to(device=self._device)]
        first = features[:half].mean(dim=0) - means
        second = features[half:].mean(dim=0) - means
        loss = (first * second).sum()
        if self._labeller is not None and self._recipe.labeller is not None:
            scores = self._labeller.of_moduli(moduli)
            loss = loss + self._recipe.labeller.guidance * functional.cross_entropy(scores, labels)
        return loss

    def released(self) -> dict[str, Tensor]:
        """The averaged generator and the labeller, on the CPU."""
        weights = {f"generator.{name}": value for name, value in self._average.weights().items()}
        if self._labeller is not None:
            weights |= {f"labeller.{name}": value for name, value in self._labeller.state_dict().items()}
        if self._shares is not None:
            weights["shares"] = self._shares
        return {name: value.cpu().clone() for name, value in weights.items()}

    def _published(self) -> dict[str, Mapping[str, Tensor]]:
        labeller = {} if self._labeller is None else self._labeller.state_dict()
        shares = {} if self._shares is None else {"shares": self._shares}
        return {"published": {"means": self._means, **shares}, "labeller": labeller}

    def _take_published(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        self._means, self._shares = part["published"]["means"], part["published"].get("shares")
        if self._labeller is not None:
            self._labeller.load_state_dict(dict(part["labeller"]))
