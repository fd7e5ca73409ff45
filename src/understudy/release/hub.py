"""A release handed on: copied into another folder, or to and from a repository of the Hugging Face Hub.

A repository holds the files of a release folder at its top and nothing else: `generator.safetensors`, `card.json`,
`README.md` (whose first lines tell the Hub what it is) and, where there is one, `audit.json`. Whatever else lies in the
folder stays at home. Loading from the Hub checks as much as loading from a folder, because it is that.

The Hub needs the package `huggingface_hub` (`pip install 'understudy[hub]'`), which is imported only when it is asked
for; tokens are its business, from its own environment.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Protocol

from understudy import files
from understudy.errors import ReleaseError
from understudy.release.release import ATTACHMENT, CARD, README, WEIGHTS, Release

__all__ = ["Hub", "load", "push"]

_SCHEME = "hf://"
_REPOSITORY = re.compile(r"hf://(?P<name>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_FILES = (WEIGHTS, CARD, README, ATTACHMENT)
_LARGEST = 8 * 2**30


class Hub(Protocol):
    """What is used of `huggingface_hub.HfApi`."""

    def create_repo(self, repo_id: str, *, exist_ok: bool) -> Any:
        """Make a repository, or find it made."""

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> Any:
        """Put all files of a folder into a repository."""

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, local_dir: str, allow_patterns: list[str]
    ) -> Any:
        """Put files of a repository into a folder."""


def push(release: Release | str | Path, target: str | Path, *, hub: Hub | None = None) -> str:
    """Publish a release: into a new folder, or as `hf://owner/name` on the Hugging Face Hub.

    Args:
        release: the release, or the path of its folder, whose `audit.json` then goes with it.
        target: a folder that does not exist yet, or `hf://owner/name`, which is made if need be.
        hub: what talks to the Hub, `huggingface_hub.HfApi()` if left out.

    Returns:
        Where it is now.

    Raises:
        ReleaseError: the release is damaged or NOT PRIVATE, or the target is taken or no such place.
    """
    loaded = release if isinstance(release, Release) else Release.load(release)
    if not loaded.card.private:
        reasons = " ".join(loaded.card.warnings) or "it was trained without noise."
        raise ReleaseError(f"the release is NOT PRIVATE and is not published: {reasons}")
    origin = None if isinstance(release, Release) else Path(release)
    if not str(target).startswith(_SCHEME):
        _copy(loaded, origin, Path(target))
        return str(target)
    name, revision = _repository(str(target))
    if revision is not None:
        raise ReleaseError(f"{target}: a release is pushed to a repository, not to a revision of it.")
    hub = hub or _hub()
    with tempfile.TemporaryDirectory(prefix="understudy-") as scratch:
        folder = Path(scratch) / "release"
        _copy(loaded, origin, folder)
        hub.create_repo(name, exist_ok=True)
        hub.upload_folder(
            repo_id=name, folder_path=str(folder), commit_message="A release, by understudy push"
        )
    return f"https://huggingface.co/{name}"


def load(place: str | Path, *, hub: Hub | None = None) -> Release:
    """A release from its folder, or from `hf://owner/name` or `hf://owner/name@revision` on the Hugging Face Hub.

    Args:
        place: where it is. A revision (a tag, or better the hash of a commit) makes sure that it stays the same.
        hub: what talks to the Hub, `huggingface_hub.HfApi()` if left out.

    Raises:
        ReleaseError: there is none, or it is incomplete, damaged, of an unknown format, or unsafe.
    """
    if not str(place).startswith(_SCHEME):
        return Release.load(place)
    name, revision = _repository(str(place))
    with tempfile.TemporaryDirectory(prefix="understudy-") as scratch:
        (hub or _hub()).snapshot_download(
            name, revision=revision, local_dir=scratch, allow_patterns=list(_FILES)
        )
        return Release.load(scratch)


def _copy(release: Release, origin: Path | None, target: Path) -> None:
    if origin is None:
        release.save(target)
        return
    with files.new_folder(target, error=ReleaseError) as work:
        for name in _FILES:
            if name != ATTACHMENT or (origin / name).exists():
                content = files.read_plain(origin / name, _LARGEST, error=ReleaseError, links=False)
                files.write_whole(work / name, content, error=ReleaseError)
        if Release.load(work).card != release.card:
            raise ReleaseError(f"{origin} changed while it was copied; nothing was published.")


def _repository(address: str) -> tuple[str, str | None]:
    found = _REPOSITORY.fullmatch(address)
    if found is None:
        raise ReleaseError(
            f"{address} names no repository; write hf://owner/name or hf://owner/name@revision."
        )
    return found["name"], found["revision"]


def _hub() -> Hub:
    try:
        from huggingface_hub import HfApi
    except ImportError as missing:
        raise ReleaseError(
            "the Hugging Face Hub needs a package of its own: pip install 'understudy[hub]'."
        ) from missing
    made: Hub = HfApi()
    return made
