"""Files that were damaged or forged: only typed errors, never a traceback, a hang or a half-understood release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzzing import assault
from tiny import TINY_IMAGES, stop_after, tiny_images, tiny_plan
from understudy.errors import CheckpointError, Interrupted, RecipeError, ReleaseError
from understudy.release.release import Release
from understudy.run.checkpoint import Checkpoints, load_checkpoint
from understudy.run.fit import fit
from understudy.synthesizers.registry import RECIPES, recipe_from_toml, recipe_to_toml


@pytest.fixture
def folder(image_release: Release, tmp_path: Path) -> Path:
    return image_release.save(tmp_path / "release")


TIMES = [pytest.param(150, id="few"), pytest.param(4000, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", ["card.json", "generator.safetensors"])
def test_mutated_releases_give_release_errors(folder: Path, name: str, times: int) -> None:
    """A damaged card or weights file is refused with a ReleaseError, or was harmless."""
    content = (folder / name).read_bytes()
    head = content[:3000]

    def attempt(blob: bytes) -> object:
        (folder / name).write_bytes(blob + content[3000:])
        return Release.load(folder)

    assert assault(head, attempt, ReleaseError, times, seed=3) > times / 2


@pytest.mark.parametrize("times", TIMES)
def test_mutated_checkpoints_give_checkpoint_errors(tmp_path: Path, times: int) -> None:
    """A damaged checkpoint is refused with a CheckpointError, or was harmless."""
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        fit(tiny_images(), tiny_plan(TINY_IMAGES), checkpoints=Checkpoints(path, 5), stop=stop_after(1))
    content = path.read_bytes()

    def attempt(blob: bytes) -> object:
        path.write_bytes(blob + content[6000:])
        return load_checkpoint(path)

    assert assault(content[:6000], attempt, CheckpointError, times, seed=4) > times / 2


@pytest.mark.parametrize("times", TIMES)
def test_mutated_recipes_give_recipe_errors(times: int) -> None:
    """A damaged recipe file is refused with a RecipeError, or is another recipe."""
    content = recipe_to_toml(RECIPES["dp-cgan"]).encode()

    def attempt(blob: bytes) -> object:
        return recipe_from_toml(blob.decode("utf-8", errors="replace"))

    assault(content, attempt, RecipeError, times, seed=5)


def test_a_release_with_parts_of_another_is_refused(
    folder: Path, table_release: Release, tmp_path: Path
) -> None:
    """Weights of one release under the card of another are found by their hash."""
    other = table_release.save(tmp_path / "other")
    shutil.copy(other / "generator.safetensors", folder / "generator.safetensors")
    with pytest.raises(ReleaseError, match="damaged or replaced"):
        Release.load(folder)
