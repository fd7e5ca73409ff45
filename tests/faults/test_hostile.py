"""Files made to do harm: code in pickles and archives, paths that lead elsewhere, links. Nothing runs or escapes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tiny import TINY_IMAGES
from understudy.data import read
from understudy.errors import CheckpointError, DataError, ReleaseError
from understudy.release.release import Release
from understudy.run.checkpoint import load_checkpoint


@pytest.fixture
def folder(image_release: Release, tmp_path: Path) -> Path:
    """A release that the attacker may change."""
    return image_release.save(tmp_path / "release")


def code(harm: Path) -> bytes:
    """A pickle that makes a folder when it is loaded."""
    return f"cos\nmkdir\n(V{harm}\ntR.".encode()


def archive(harm: Path) -> bytes:
    """An archive as torch writes it, with code inside, and with a member that climbs out of any folder."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("archive/data.pkl", code(harm))
        file.writestr(f"../../{harm.name}", "escaped")
    return written.getvalue()


def put(folder: Path, name: str, content: bytes) -> None:
    """Replace the weights, and let the card vouch for them under some name."""
    (folder / "generator.safetensors").write_bytes(content)
    card = json.loads((folder / "card.json").read_text("utf-8"))
    digest = hashlib.sha256(content).hexdigest()
    card["files"] = [{"name": name, "bytes": len(content), "sha256": digest}]
    (folder / "card.json").write_text(json.dumps(card), "utf-8")


@pytest.mark.parametrize("make", [code, archive], ids=["pickle", "zip"])
def test_code_in_a_release_or_a_checkpoint_never_runs(make: object, folder: Path, tmp_path: Path) -> None:
    """Pickles and archives are refused, with a card whose hash agrees, and what they hold is not run or unpacked."""
    harm = tmp_path / "harm"
    content = make(harm)  # type: ignore[operator]
    put(folder, "generator.safetensors", content)
    with pytest.raises(ReleaseError):
        Release.load(folder)
    (tmp_path / "run.checkpoint").write_bytes(content)
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path / "run.checkpoint")
    assert not harm.exists()


@pytest.mark.parametrize("name", ["../elsewhere", "/etc/passwd", "generator.safetensors/../card.json", ""])
def test_a_card_cannot_lead_elsewhere(name: str, folder: Path) -> None:
    """The names in a card are compared with known ones and never opened."""
    content = (folder / "generator.safetensors").read_bytes()
    (folder.parent / "elsewhere").write_bytes(content)
    put(folder, name, content)
    with pytest.raises(ReleaseError, match="does not list"):
        Release.load(folder)


@pytest.mark.parametrize("name", ["card.json", "generator.safetensors"])
def test_links_in_a_release_are_refused(name: str, folder: Path) -> None:
    """A link is refused also if it leads to the very file."""
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    with pytest.raises(ReleaseError, match="not a plain file"):
        Release.load(folder)


class Evil:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, harm: Path) -> None:
        self._harm = harm

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._harm),)


def test_code_in_an_object_array_never_runs(tmp_path: Path) -> None:
    """An .npz with an array of objects is refused, and its objects are not made."""
    harm = tmp_path / "harm"
    np.savez(tmp_path / "images.npz", x=np.array([Evil(harm)], dtype=object), y=np.zeros(1, int))
    with pytest.raises(DataError):
        read(tmp_path / "images.npz", TINY_IMAGES)
    assert not harm.exists()
    np.load(tmp_path / "images.npz", allow_pickle=True)["x"]
    assert harm.exists(), "the file was harmless, so the test showed nothing"
