"""Images that are large, of many classes, or in colour: bounded memory, and colour seen as colour."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from understudy.schema import Augmentation, ImageSchema, schema_from_toml, schema_to_toml
from understudy.synthesizers.embedding.features import Embedding
from understudy.synthesizers.embedding.fit import EmbeddingFitter
from understudy.synthesizers.embedding.model import Upsampler, build_image_model
from understudy.synthesizers.embedding.planes import LARGEST, Planes
from understudy.synthesizers.embedding.recipe import (
    UNDERSTUDY_IMAGES,
    MeanEmbedding,
    UpsamplingGenerator,
    Warp,
)
from understudy.synthesizers.embedding.warping import warped
from understudy.synthesizers.embedding.wavelets import Wavelets

GIBIBYTE = 1024**3
FIT_ONCE = """
import resource, sys
import numpy as np, torch
torch.set_num_threads(1)
import understudy
from understudy.records.images import Images
from understudy.schema import ImageSchema
side, channels = int(sys.argv[1]), int(sys.argv[2])
pixels = np.random.default_rng(0).integers(0, 256, (40, side, side, channels)).astype(np.uint8)
schema = ImageSchema(side, side, channels, classes=("a", "b"))
plan = understudy.plan(schema, epsilon=8, delta=1e-3, rows=40, steps=1)
understudy.fit(Images(pixels, np.arange(40) % 2), plan, insecure_seed=1).sample(40)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.parametrize(("side", "channels"), [(128, 1), (64, 3)])
def test_large_images_need_little_memory(side: int, channels: int) -> None:
    """A fit and a draw of 128×128 grey or 64×64 colour images stay below 1.25 GiB, whatever the machine."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", FIT_ONCE, str(side), str(channels)],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
    )
    assert int(done.stdout.split()[-1]) < 1.25 * GIBIBYTE


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (1, 64, 64), (1, 128, 128), (3, 64, 48), (1, 41, 97), (3, 300, 200)]
)
def test_features_do_not_grow_with_the_image(shape: tuple[int, int, int]) -> None:
    """Of an image of any size all orders are taken at no more than 40 pixels; details add a few hundred numbers."""
    waves = Wavelets(shape)
    assert max(waves.planes.grid) <= LARGEST
    assert tuple(order.shape[1] for order in waves(torch.rand(2, *shape))) == waves.widths
    assert sum(waves.widths) < 7_000
    assert waves.images_at_once * shape[1] * shape[2] <= max(2**20, 8 * shape[1] * shape[2])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 33, 64), (1, 130, 70)])
def test_the_generator_fits_every_size(shape: tuple[int, int, int]) -> None:
    """As many doublings as the size needs, cut to the size at the end."""
    generator = Upsampler(UpsamplingGenerator(hidden=(8,), channels=4), 3, 2, shape)
    assert generator(torch.randn(2, 3), torch.tensor([0, 1])).shape == (2, *shape)


def test_a_step_of_many_classes_makes_no_more_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 classes a step takes some, drawn anew each time, and over several steps all classes have their turn."""
    recipe = replace(
        UNDERSTUDY_IMAGES,
        labeller=None,
        embedding=MeanEmbedding(pixel_frequencies=2, wavelet_frequencies=2),
        generator=UpsamplingGenerator(hidden=(4,), channels=2),
        batch=400,
    )
    fitter = EmbeddingFitter(
        recipe, ImageSchema(8, 8, classes=tuple(map(str, range(1000)))), 1, torch.device("cpu")
    )
    fitter.aim(torch.zeros(1000, recipe.embedding.features))
    sizes, seen, forward = [], set[int](), fitter.generator.forward

    def counted(latent: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        sizes.append(len(labels))
        seen.update(labels.tolist())
        return forward(latent, labels)

    monkeypatch.setattr(fitter.generator, "forward", counted)
    for _ in range(40):
        fitter._loss()
    assert set(sizes) == {400}
    assert len(seen) == 1000


def test_colour_is_luminance_and_opponents() -> None:
    """A grey image in three channels has the luminance of the grey one, and no opponent colours."""
    grey = torch.rand(2, 1, 9, 12)
    small, finer = Planes((3, 9, 12))(grey.expand(-1, 3, -1, -1))
    assert torch.allclose(small[:, :1], grey, atol=1e-6)
    assert float(small[:, 1:].abs().max()) < 1e-6
    assert finer == ()


def test_images_that_differ_in_colour_only_are_told_apart() -> None:
    """Red and green squares of one luminance have different features of pixels and of wavelets."""
    part = MeanEmbedding(pixel_frequencies=50, wavelet_frequencies=50)
    embedding = Embedding(part, (3, 12, 12))
    red, green = -torch.ones(1, 3, 12, 12), -torch.ones(1, 3, 12, 12)
    red[:, 0, 3:9, 3:9] = 1
    green[:, 1, 3:9, 3:9] = 1
    apart = (embedding(red) - embedding(green)).square()[0]
    pixels = 2 * embedding.pixel_frequencies.shape[1]
    assert float(apart[:pixels].sum()) > 0.01
    assert float(apart[pixels:].sum()) > 0.01
    assert float(embedding(red).norm()) == pytest.approx(1.0, abs=1e-5)


def test_images_are_varied_as_declared_or_by_their_colour() -> None:
    """Grey is warped and colour is mirrored unless the schema, which keeps it in its file, says otherwise."""
    grey, colour = ImageSchema(8, 8), ImageSchema(8, 8, 3)
    recipe = UNDERSTUDY_IMAGES
    assert recipe.warp_for(grey) == recipe.warp
    assert recipe.warp_for(colour) == recipe.mirror
    declared = schema_from_toml(schema_to_toml(replace(grey, augmentation=Augmentation.MIRROR)))
    assert isinstance(declared, ImageSchema)
    assert recipe.warp_for(declared) == recipe.mirror
    assert recipe.warp_for(replace(colour, augmentation=Augmentation.NONE)) is None
    assert build_image_model(recipe, replace(grey, augmentation=Augmentation.NONE))._warp is None


def test_mirroring_exchanges_left_and_right_of_about_half() -> None:
    """Without any other strength an image comes back as it is, or mirrored."""
    images = torch.rand(200, 1, 6, 8) * 2 - 1
    moved = warped(images, Warp(0, 0, 0, 0, mirrored=True), torch.Generator().manual_seed(1))
    same = (moved - images).abs().amax(dim=(1, 2, 3)) < 1e-4
    other = (moved - images.flip(3)).abs().amax(dim=(1, 2, 3)) < 1e-4
    assert bool((same ^ other).all())
    assert 50 < int(other.sum()) < 150
