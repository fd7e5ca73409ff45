"""Fitting a generator of images to a published mean embedding, and refining it against a critic.

The generator is moved so that the features of what it makes have the published mean in every class. The squared
distance between means is estimated without bias as the inner product of the errors of two independent half batches; the
labeller, which was published too, may guide with its cross-entropy, and a critic with its verdict. Of these the critic
alone asks the door again, in later steps.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from understudy.records.encode import encoded_shape
from understudy.synthesizers.embedding.adversary import Adversary
from understudy.synthesizers.embedding.features import Embedding, brightness, class_means
from understudy.synthesizers.embedding.groups import find_groups
from understudy.synthesizers.embedding.labeller import train_labeller
from understudy.synthesizers.embedding.model import Upsampler, build_image_model
from understudy.synthesizers.embedding.queries import ClassSums, random_features
from understudy.synthesizers.embedding.recipe import CRITIC, EMBEDDING
from understudy.synthesizers.embedding.wavelets import Wavelets
from understudy.synthesizers.shared.free_fitter import FreeFitter
from understudy.synthesizers.shared.latents import draw_latent, image_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from understudy.door.door import Door
    from understudy.door.source import Rows
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
        shape = image_shape(encoded_shape(schema), recipe.name)
        self._wavelets = Wavelets(shape)
        self._embedding = None if recipe.embedding is None else Embedding(recipe.embedding, shape)
        self._seen = None if recipe.critic is None else Embedding(recipe.critic, shape)
        self._labeller = build_image_model(recipe, schema).labeller
        classes = len(schema.label_classes or ())
        self._adversary = None if recipe.critic is None else Adversary(recipe.critic, classes, device)
        height, width = self._wavelets.planes.size
        self._images_per_step = min(recipe.batch, max(_LEAST_PER_STEP, _PIXELS_PER_STEP // (height * width)))
        self._records: Door | None = None
        self._shares: Tensor | None = None  # of groups of images without labels
        self._means: Tensor | None = None
        self._count: float

    def _ask(self, door: Door, count: float) -> None:
        self._count = count
        if self.label_weights is None:
            self._ask_in_groups(door, count)
            return
        weights = torch.tensor(self.label_weights, dtype=torch.float64)
        if self._embedding is not None:
            sums = door.publish(EMBEDDING, ClassSums(self._embedding, len(weights))).value
            self._means = class_means(sums, weights * count)
        if self._labeller is not None and self._recipe.labeller is not None:
            train_labeller(self._labeller, self._recipe.labeller, door, count)

    def _ask_in_groups(self, door: Door, count: float) -> None:
        """Images without labels: groups of alike ones are found first and then serve as classes."""
        assert self._labeller is not None
        assert self._embedding is not None
        self._shares = find_groups(self._labeller, self._recipe.grouping, door, count)
        sums = door.publish(EMBEDDING, ClassSums(self._embedding, len(self._shares), self._labeller)).value
        self._means = class_means(sums, self._shares * count)

    def aim(self, means: Tensor) -> None:
        """Learn from these means without asking a door; for measuring how long a step takes."""
        self._means = means
        self._build()

    def _new_generator(self) -> Upsampler:
        for module in (self._wavelets, self._embedding, self._seen, self._labeller):
            if module is not None:
                module.to(device=self._device)
        self._means = None if self._means is None else self._means.to(device=self._device)
        return build_image_model(self._recipe, self._schema).generator

    def advance(self, door: Door, public: Rows | None) -> None:
        """One step of the generator, after one of the critic if its turn has come."""
        due = self._adversary is not None and self._adversary.due(self.steps, self._recipe.steps)
        if due and (door.left(CRITIC) or not door.private):
            self._teach_critic(door)
        super().advance(door, public)

    def _teach_critic(self, door: Door) -> None:
        assert self._recipe.critic is not None
        assert self._adversary is not None
        assert self._seen is not None
        if self._records is None:
            self._records = door.derived(partial(random_features, copy.deepcopy(self._seen).cpu()))
        with torch.no_grad():
            images, labels, _ = self._made(self._recipe.critic.fakes)
            fakes = self._seen.of_parts(*self._wavelets.parts(images))
        self._adversary.learn(self._records, self._count, fakes, labels)

    def _made(self, rows: int) -> tuple[Tensor, Tensor, int]:
        """Images from 0 to 1, of every class in equal turns, or of some if they are many; classes and turns."""
        known = self.label_weights if self._means is None else self._means
        assert known is not None
        classes = torch.arange(len(known))
        some = max(1, rows // _LEAST_PER_CLASS)
        if len(classes) > some:
            classes = torch.randperm(len(classes), generator=self._source)[:some]
        turns = max(_LEAST_PER_CLASS, rows // len(classes))
        labels = classes.to(device=self._device).repeat(turns)
        latent = draw_latent(self._recipe.latent, len(labels), self._source).to(device=self._device)
        return brightness(self.generator(latent, labels)), labels, turns

    def _loss(self) -> Tensor:
        """Equally many images of every class, in two halves, against all that was published."""
        images, labels, turns = self._made(self._images_per_step)
        small, moduli = self._wavelets.parts(images)
        loss = torch.zeros((), device=self._device)
        if self._embedding is not None:
            loss = loss + self._distance(self._embedding.of_parts(small, moduli), labels, turns)
        if self._labeller is not None and self._recipe.labeller is not None:
            guidance = functional.cross_entropy(self._labeller.of_moduli(moduli), labels)
            loss = loss + self._recipe.labeller.guidance * guidance
        if self._adversary is not None and self._seen is not None and self._adversary.taken:
            loss = loss + self._adversary.verdict(self._seen.of_parts(small, moduli), labels)
        return loss

    def _distance(self, features: Tensor, labels: Tensor, turns: int) -> Tensor:
        """The squared distance from the published means of the classes that come in so many turns."""
        assert self._means is not None
        classes, half = len(labels) // turns, turns // 2
        means, features = self._means[labels[:classes]], features.reshape(turns, classes, -1)
        first = features[:half].mean(dim=0) - means
        second = features[half:].mean(dim=0) - means
        return (first * second).sum()

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
        means = {} if self._means is None else {"means": self._means}
        shares = {} if self._shares is None else {"shares": self._shares}
        count = torch.tensor(self._count, dtype=torch.float64)
        critic = {} if self._adversary is None else self._adversary.state()
        return {"published": {**means, **shares, "count": count}, "labeller": labeller, **critic}

    def _take_published(self, part: Mapping[str, Mapping[str, Tensor]]) -> None:
        published = part["published"]
        self._means, self._shares = published.get("means"), published.get("shares")
        self._count = float(published["count"])
        if self._labeller is not None:
            self._labeller.load_state_dict(dict(part["labeller"]))
        if self._adversary is not None:
            self._adversary.restore(part)
