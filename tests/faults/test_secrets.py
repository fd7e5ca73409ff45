"""Nothing private leaks into files, logs or working files; stopping by signal is orderly."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from patients import GIVEN, ended, fit, marked_patients, marks, understudy, wait_for
from tiny import TINY_IMAGES, tiny_images
from understudy.cli import app
from understudy.schema import schema_to_toml

WORKING = {"release.checkpoint", "release.ledger", "release.ledger.head"}
AT_WORK = WORKING | {"release.ledger-wal", "release.ledger-shm"}


def assert_free_of(private: list[bytes], folder: Path, given: tuple[str, ...], told: str) -> set[str]:
    """No file beside the given ones, no file name and no printed line holds a mark; returns the files' names."""
    files = {path for path in folder.rglob("*") if path.is_file() and path.name not in given}
    contents = {path.name: path.read_bytes() for path in files}
    contents |= {"names": " ".join(contents).encode(), "what was printed": told.encode()}
    for name, content in contents.items():
        for mark in private:
            assert mark not in content, f"{name} holds a private value"
    return set(contents)


@pytest.mark.parametrize(
    ("number", "code", "recipe"), [(signal.SIGINT, 130, "dp-cgan"), (signal.SIGTERM, 143, "understudy")]
)
def test_a_signal_stops_in_order_and_nothing_leaks(
    tmp_path: Path, number: signal.Signals, code: int, recipe: str
) -> None:
    """The run checkpoints, exits with 128 + signal, and leaves files that only their owner reads, without a row."""
    process = fit(marked_patients(tmp_path), 20_000, recipe=recipe)
    wait_for(tmp_path / "release.checkpoint", process)
    time.sleep(0.5)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.name in AT_WORK}
    process.send_signal(number)
    found, told = ended(process)
    assert found == code, told
    assert "--resume" in told
    assert set(modes.values()) == {0o600}, f"readable by others while it runs: {modes}"
    left = {path.name for path in tmp_path.iterdir()} - set(GIVEN)
    assert left == WORKING
    for name in left:
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, f"{name} is readable by others"
    assert_free_of(marks(), tmp_path, GIVEN, told)


@pytest.mark.parametrize("recipe", [pytest.param("dp-cgan", marks=pytest.mark.slow), "understudy"])
def test_a_release_and_its_samples_hold_no_row(tmp_path: Path, recipe: str) -> None:
    """The whole way to published rows: no file, log line or leftover holds a marker."""
    code, told = ended(fit(marked_patients(tmp_path), 20, recipe=recipe))
    assert code == 0, told
    code, sampled = ended(understudy(tmp_path, "sample", "release", "--rows", 200, "--out", "rows.csv"))
    assert code == 0, sampled
    names = assert_free_of(marks(), tmp_path, GIVEN, told + sampled)
    assert names >= {"card.json", "generator.safetensors", "README.md", "rows.csv"}
    assert "release.checkpoint" not in names


def test_a_release_of_images_holds_no_image(tmp_path: Path) -> None:
    """Runs of pixels of a private image are in no file, as bytes or as the numbers that they are encoded to."""
    images = tiny_images(60)
    np.savez(tmp_path / "images.npz", x=images.pixels, y=images.labels)
    (tmp_path / "schema.toml").write_text(schema_to_toml(TINY_IMAGES))
    public = "--schema schema.toml --epsilon 3 --delta 1e-3 --rows 60 --steps 3 --out release"
    code, told = ended(understudy(tmp_path, "fit", "images.npz", *public.split()))
    assert code == 0, told
    pixels = images.pixels[7].ravel()[:8]
    scaled = pixels / 127.5 - 1
    private = [pixels.tobytes(), *(scaled[:3].astype(kind).tobytes() for kind in ("<f4", "<f8"))]
    private.append(", ".join(map(str, pixels[:5])).encode())
    names = assert_free_of(private, tmp_path, ("images.npz", "schema.toml"), told)
    assert names >= {"card.json", "generator.safetensors"}


def test_no_option_takes_a_secret() -> None:
    """Command lines are seen by every user of a machine: no command asks for a password, key or token there."""

    def options(command: Any) -> set[str]:
        inner = getattr(command, "commands", {}).values()
        found = {name for option in command.params for name in option.opts}
        return found.union(*(options(each) for each in inner))

    found = options(get_command(app))
    assert "--epsilon" in found
    assert [name for name in found if any(word in name for word in ("pass", "key", "token", "secret"))] == []
