"""Releases handed on: into folders, and to and from a hub that a stand-in plays, so that no test needs a network."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy
from tiny import tiny_frame, tiny_images, tiny_plan
from understudy.cli import app
from understudy.errors import ReleaseError
from understudy.release.hub import push
from understudy.release.release import Release
from understudy.run.fit import fit


class StandInForTheHub:
    """Repositories as folders, by the calls of `huggingface_hub.HfApi` that are used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, str | None]] = []

    def create_repo(self, repo_id: str, *, exist_ok: bool) -> None:
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> None:
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, local_dir: str, allow_patterns: list[str]
    ) -> None:
        self.asked.append((repo_id, revision))
        for path in (self.root / repo_id).iterdir():
            if path.name in allow_patterns:
                shutil.copy(path, local_dir)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private release in its folder, beside a file that must stay at home."""
    folder = tmp_path_factory.mktemp("released") / "release"
    fit(tiny_images(), tiny_plan(understudy.ImageSchema(8, 8, 1, classes=("ring", "bar")))).save(folder)
    (folder / "notes about patients.txt").write_text("private")
    return folder


def test_a_folder_gets_the_files_of_the_format_and_nothing_else(released: Path, tmp_path: Path) -> None:
    """Whatever else lies in a release's folder is not published with it."""
    result = CliRunner().invoke(app, ["push", str(released), "--to", str(tmp_path / "public")])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "public").iterdir()) == [
        "README.md",
        "card.json",
        "generator.safetensors",
    ]
    assert understudy.load(tmp_path / "public").card == Release.load(released).card


@pytest.mark.parametrize("from_folder", [True, False])
def test_there_and_back_over_a_hub(released: Path, tmp_path: Path, from_folder: bool) -> None:
    """What is loaded from the hub draws the same records, and a revision is asked for by name."""
    hub = StandInForTheHub(tmp_path)
    before = Release.load(released)
    place = push(released if from_folder else before, "hf://a-house/digits.v1", hub=hub)
    assert place == "https://huggingface.co/a-house/digits.v1"
    assert not list((tmp_path / "a-house" / "digits.v1").glob("notes*"))
    after = understudy.load("hf://a-house/digits.v1@abc123", hub=hub)
    assert hub.asked == [("a-house/digits.v1", "abc123")]
    assert (after.sample(5, seed=1).pixels == before.sample(5, seed=1).pixels).all()  # type: ignore[union-attr]


def test_a_damaged_repository_is_refused(released: Path, tmp_path: Path) -> None:
    """Loading from a hub checks hashes as loading from a folder does."""
    hub = StandInForTheHub(tmp_path)
    push(released, "hf://a-house/digits", hub=hub)
    weights = tmp_path / "a-house" / "digits" / "generator.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ReleaseError, match="damaged or replaced"):
        understudy.load("hf://a-house/digits", hub=hub)


def test_what_is_not_private_is_not_published(tmp_path: Path) -> None:
    """A seeded run cannot be pushed anywhere, and nothing of it is written."""
    release = fit(tiny_frame(), tiny_plan(), insecure_seed=1)
    with pytest.raises(ReleaseError, match="NOT PRIVATE"):
        push(release, tmp_path / "public")
    assert not (tmp_path / "public").exists()


@pytest.mark.parametrize(
    "address", ["hf://", "hf://name", "hf://a/b/c", "hf://a/../b", "hf://a/b@", "hf://a b/c"]
)
def test_addresses_that_name_no_repository(address: str) -> None:
    """A misspelled address is refused in a sentence before anybody is asked."""
    with pytest.raises(ReleaseError, match="hf://owner/name"):
        understudy.load(address, hub=StandInForTheHub(Path("nowhere")))


def test_a_revision_cannot_be_pushed_to(released: Path, tmp_path: Path) -> None:
    """A revision is history; pushing to one is a misunderstanding."""
    with pytest.raises(ReleaseError, match="not to a revision"):
        push(released, "hf://a-house/digits@v1", hub=StandInForTheHub(tmp_path))


def test_the_hub_is_an_extra(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the error says what to install."""
    missing: Any = None
    monkeypatch.setitem(sys.modules, "huggingface_hub", missing)
    with pytest.raises(ReleaseError, match=r"understudy\[hub\]"):
        push(released, "hf://a-house/digits")


def test_the_readme_begins_with_what_a_hub_reads(released: Path) -> None:
    """Front matter names the library and says that it is private; the text follows."""
    text = (released / "README.md").read_text("utf-8")
    assert text.startswith(
        "---\nlibrary_name: understudy\ntags:\n- synthetic-data\n- differential-privacy\n---\n\n# "
    )
