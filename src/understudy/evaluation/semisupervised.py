"""The semi-supervised task of the dp-gan paper (Zhang, Ji and Wang 2018, Algorithm 4).

An analyst has few labelled public images and a released generator. Two classifiers teach each other: C1
looks at images, C2 at images together with the codes they were generated from. In every step C2 learns C1's
labels of fresh synthetic images, then C1 learns from a batch of which a share comes from the generator with
C2's labels. As in the paper the share is zero for the first third of the steps and then grows to its final
value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from understudy.errors import EvaluationError
from understudy.evaluation.intervals import from_seeds
from understudy.evaluation.network import FEATURES, SmallCNN, predict_probabilities
from understudy.evaluation.result import Better, Group, Measure
from understudy.evaluation.scores import accuracy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.evaluation.utility import Labelled
    from understudy.release.release import Release

__all__ = ["CodedImages", "coded_images", "few_labels", "semi_supervised", "synthetic_share"]

Floats = npt.NDArray[np.floating[Any]]
CodedImages = Callable[[int, int], tuple[Floats, Floats]]
"""Takes a number of rows and a seed; returns latent codes (rows, d) and their images (rows, c, h, w)."""
_CHUNK = 1024
"""Images that are made at a time; bounds the memory of a draw."""


def coded_images(release: Release) -> CodedImages:
    """The codes and images of a release; a conditional generator's code is its latent input with the label."""
    from understudy.release.weights import model_with
    from understudy.schema import ImageSchema
    from understudy.synthesizers.gan.model import GanModel
    from understudy.synthesizers.shared.latents import draw_latent

    schema = release.schema
    if not isinstance(schema, ImageSchema):
        raise EvaluationError(f"the semi-supervised task needs images, this release makes {schema.kind}.")
    model = model_with(release.weights, release.card.plan.recipe, schema)
    if not isinstance(model, GanModel):
        raise EvaluationError("the semi-supervised task needs the codes of a GAN's generator.")
    classes = len(schema.classes) if schema.classes else 0
    weights = torch.tensor(release.card.label_weights or (1.0,) * max(1, classes))

    def draw(rows: int, seed: int) -> tuple[Floats, Floats]:
        source = torch.Generator().manual_seed(seed)
        labels = torch.multinomial(weights, rows, replacement=True, generator=source) if classes else None
        codes = draw_latent(model.latent, rows, source)
        with torch.inference_mode():
            made = torch.cat(
                [
                    model.generator(
                        codes[start : start + _CHUNK],
                        None if labels is None else labels[start : start + _CHUNK],
                    )
                    for start in range(0, rows, _CHUNK)
                ]
            )
        if labels is not None:
            codes = torch.cat([codes, nn.functional.one_hot(labels, classes).float()], dim=1)
        return codes.numpy(), made.numpy()

    return draw


class _WithCodes(nn.Module):
    """C2: the features of an image, joined with its code, through one hidden layer."""

    def __init__(self, image: SmallCNN, codes: int, classes: int) -> None:
        super().__init__()
        self.body = image.body
        self.head = nn.Sequential(
            nn.Linear(FEATURES + codes, FEATURES), nn.ReLU(), nn.Linear(FEATURES, classes)
        )

    def forward(self, images: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.head(torch.cat([self.body(images), codes], dim=1))
        return logits


def synthetic_share(step: int, steps: int, final: float) -> float:
    """p_s at a step: 0 in the first third, growing in the second, final in the last."""
    return final * min(1.0, max(0.0, 3 * step / steps - 1))


def few_labels(
    release: Release, reference: Labelled, test: Labelled, counts: Sequence[int], *, seed: int = 0
) -> tuple[Measure, ...]:
    """The task with several numbers of labelled images, taken at random from the reference rows.

    Raises:
        EvaluationError: more labelled images are asked for than there are, or the release makes no images.
    """
    for count in counts:
        if not 2 <= count <= len(reference):
            raise EvaluationError(
                f"the semi-supervised task can take 2 to {len(reference):,} labelled images, got {count}."
            )
    order = np.random.default_rng(seed).permutation(len(reference))
    generator = coded_images(release)
    return tuple(
        semi_supervised(generator, reference.rows(order[:count]), test, reference=reference, seed=seed)
        for count in counts
    )


def semi_supervised(
    generator: CodedImages,
    public: Labelled,
    test: Labelled,
    *,
    reference: Labelled | None = None,
    steps: int = 600,
    batch: int = 128,
    final_share: float = 0.2,
    seed: int = 0,
) -> Measure:
    """Accuracy of C1 on real test images; its floor is the same classifier without synthetic images.

    Args:
        generator: draws codes and images from the release.
        public: the few labelled images that the analyst holds.
        test: real test images.
        reference: all real training images; the same classifier trained on them is the ceiling.
        steps: of training, the same for all classifiers.
        batch: m of the paper.
        final_share: p_s of the paper at the end of training.
        seed: of everything random.
    """
    if len(public) < 2:
        raise EvaluationError(f"the semi-supervised task needs labelled images, got {len(public)}.")
    predicted = _trained_on(generator, public, test, steps, batch, final_share, seed)
    alone, best = (
        None
        if known is None
        else accuracy(test.labels, _trained_on(generator, known, test, steps, batch, 0.0, seed))
        for known in (public, reference)
    )
    estimate = from_seeds(lambda rows: [accuracy(test.labels[rows], predicted[rows])], len(test))
    return Measure(
        f"semi-supervised accuracy, {len(public)} labelled",
        estimate.value,
        Better.HIGHER,
        Group.UTILITY,
        estimate.low,
        estimate.high,
        ceiling=best,
        floor=alone,
        explanation=(
            f"A classifier of {len(public)} labelled images helped by unlabelled synthetic ones; "
            "the floor is the same classifier alone, the ceiling the same with all real labels."
        ),
    )


def _trained_on(
    generator: CodedImages,
    known: Labelled,
    test: Labelled,
    steps: int,
    batch: int,
    share: float,
    seed: int,
) -> Floats:
    """What C1 predicts for the test images."""
    return predict_probabilities(_train(generator, known, steps, batch, share, seed), test.features)


def _train(
    generator: CodedImages, public: Labelled, steps: int, batch: int, final: float, seed: int
) -> SmallCNN:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        images, labels = torch.as_tensor(public.features).float(), torch.as_tensor(public.labels)
        channels, height, width = images.shape[1:]
        first = SmallCNN(channels, height, width, public.classes)
        updates = _Updates(first)
        fake_codes, fake_images = _pool(generator, steps * batch, seed) if final else (None, None)
        second: _WithCodes | None = None
        for step in range(steps):
            share = synthetic_share(step, steps, final)
            rows = torch.randint(len(images), (batch - round(batch * share),))
            inputs, targets = images[rows], labels[rows]
            if share and fake_codes is not None and fake_images is not None:
                second = second or updates.add(SmallCNN(channels, height, width, public.classes), fake_codes)
                fresh = torch.randint(len(fake_images), (batch,))
                updates.teach(second, fake_images[fresh], fake_codes[fresh])
                picked = torch.randint(len(fake_images), (round(batch * share),))
                inputs = torch.cat([inputs, fake_images[picked]])
                targets = torch.cat([targets, _labels(second, fake_images[picked], fake_codes[picked])])
            updates.learn(inputs, targets)
    return first.eval()


class _Updates:
    """The two classifiers' optimisers."""

    def __init__(self, first: SmallCNN) -> None:
        self.first = first
        self._first = torch.optim.Adam(first.parameters(), lr=1e-3)
        self._second: torch.optim.Optimizer | None = None

    def add(self, image: SmallCNN, codes: torch.Tensor) -> _WithCodes:
        """C2, made when it is first needed."""
        second = _WithCodes(image, codes.shape[1], self.first.head.out_features)
        self._second = torch.optim.Adam(second.parameters(), lr=1e-3)
        return second

    def teach(self, second: _WithCodes, images: torch.Tensor, codes: torch.Tensor) -> None:
        """Lines 2 to 5: C2 learns C1's labels of synthetic images."""
        assert self._second is not None
        self.first.eval()
        with torch.no_grad():
            targets = self.first(images).argmax(dim=1)
        second.train()
        _step(self._second, nn.functional.cross_entropy(second(images, codes), targets))

    def learn(self, images: torch.Tensor, targets: torch.Tensor) -> None:
        """Lines 6 to 9: C1 learns from real and synthetic images."""
        self.first.train()
        _step(self._first, nn.functional.cross_entropy(self.first(images, torch.default_generator), targets))


def _step(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _labels(second: _WithCodes, images: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    second.eval()
    with torch.no_grad():
        logits: torch.Tensor = second(images, codes)
        return logits.argmax(dim=1)


def _pool(generator: CodedImages, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes, images = generator(min(rows, 20_000), seed)
    return torch.as_tensor(codes).float(), torch.as_tensor(images).float()
