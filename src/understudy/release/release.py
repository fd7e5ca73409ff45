"""`Release`: the generator and its certificate, as a folder that may be published.

A release is three files: `generator.safetensors` (weights, no code), `card.json` (what it is, how it was made, what
it cost) and `README.md` (the same for people). Loading checks sizes and hashes, runs no code, and refuses what it does
not understand. `docs/release-format.md` specifies the format.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy import codec
from understudy._version import __version__
from understudy.errors import ReleaseError
from understudy.planning import Plan, checked_plan
from understudy.release.readme import model_card

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from torch import Tensor

    from understudy.records.images import Images
    from understudy.schema import Schema

__all__ = [
    "CARD",
    "FORMAT",
    "PARTIAL",
    "Card",
    "FileRecord",
    "Package",
    "Release",
    "read_plain_file",
    "remove_leftovers",
    "write_durably",
]

FORMAT = 1
"""The version of the folder format; raised whenever an older reader would misunderstand a newer folder."""

WEIGHTS, CARD, README = "generator.safetensors", "card.json", "README.md"
PARTIAL = ".partial"
"""The ending of what is being written; a process that was killed leaves it behind."""

_LARGEST_CARD = 16 * 2**20
_LARGEST_WEIGHTS = 4 * 2**30


@dataclass(frozen=True)
class Package:
    """A package that took part in training, with its version."""

    name: str
    version: str


@dataclass(frozen=True)
class FileRecord:
    """What a file of the release must be."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Card:
    """Everything a release says about itself.

    Args:
        format: version of the folder format.
        plan: schema, recipe, budget, charges and the certified cost.
        label_weights: class frequencies to draw labels from: declared, uniform, or published with noise.
        warnings: reasons why the guarantee does not hold; empty for a private release.
        notes: what a reader should know beside that; the guarantee holds all the same.
        public_source: name and hash of the declared public data that was used, if any.
        ledger_head: hash of the last record of the ledger that was charged, if any.
        packages: what it was made with.
        files: size and hash of every other file; filled in when the release is saved.
    """

    format: int = FORMAT
    plan: Plan
    label_weights: tuple[float, ...] | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    public_source: str | None = None
    ledger_head: str | None = None
    packages: tuple[Package, ...] = ()
    files: tuple[FileRecord, ...] = ()

    @property
    def private(self) -> bool:
        """Whether the stated guarantee holds."""
        return self.plan.private and not self.warnings


@dataclass(frozen=True)
class Release:
    """A generator that may be published, with the card that says why.

    It holds the card and the generator's weights and nothing else; no part of it depends on private records except
    through the mechanisms that the card lists.
    """

    card: Card
    weights: Mapping[str, Tensor]

    @property
    def schema(self) -> Schema:
        """The public description of the records it makes."""
        assert self.card.plan.schema is not None
        return self.card.plan.schema

    def sample(
        self,
        rows: int,
        *,
        label: str | None = None,
        counts: Mapping[str, int] | None = None,
        seed: int | None = None,
        certainty: float | None = None,
    ) -> pd.DataFrame | Images:
        """Draw synthetic records; see `understudy.sample`."""
        from understudy.release.sampling import sample

        return sample(self, rows, label=label, counts=counts, seed=seed, certainty=certainty)

    def save(self, path: str | Path) -> Path:
        """Write the folder, under a temporary name first, so that a half-written release never exists.

        Raises:
            ReleaseError: the path is taken, or the disk refuses.
        """
        target = Path(path)
        if target.exists():
            raise ReleaseError(f"{target} exists already. Remove it or choose another name.")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(PARTIAL, f".{target.name}.", target.parent))
        except OSError as problem:
            raise ReleaseError(f"cannot write beside {target}: {problem}.") from problem
        try:
            _write_files(work, self)
            work.rename(target)
        except OSError as problem:
            raise ReleaseError(f"writing the release to {target} failed: {problem}.") from problem
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return target

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release folder, checking everything that can be checked.

        Raises:
            ReleaseError: the folder is incomplete, damaged, of an unknown format, or unsafe, or its card states a
                smaller ε than its charges cost.
        """
        folder = Path(path)
        card = _read_card(folder)
        checked_plan(card.plan, error=ReleaseError)
        record = next((item for item in card.files if item.name == WEIGHTS), None)
        if record is None:
            raise ReleaseError(f"{folder / CARD} does not list {WEIGHTS}; the release is incomplete.")
        blob = read_plain_file(folder / WEIGHTS, _LARGEST_WEIGHTS)
        if len(blob) != record.bytes or hashlib.sha256(blob).hexdigest() != record.sha256:
            raise ReleaseError(
                f"{folder / WEIGHTS} is not the file that the card describes; it was damaged or replaced."
            )
        from understudy.release.weights import weights_from_bytes

        return cls(card, weights_from_bytes(blob, card.plan.recipe, _schema_of(card, folder)))


def packages_in_use() -> tuple[Package, ...]:
    """The versions of what takes part in training."""
    found = [Package("understudy", __version__), Package("python", platform.python_version())]
    for name in ("cryptography", "dp-accounting", "numpy", "scipy", "torch"):
        try:
            found.append(Package(name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def _schema_of(card: Card, folder: Path) -> Schema:
    if card.plan.schema is None:
        raise ReleaseError(f"{folder / CARD} has no schema, so its records cannot be decoded.")
    return card.plan.schema


def _write_files(work: Path, release: Release) -> None:
    from understudy.release.weights import weights_to_bytes

    blob = weights_to_bytes(release.weights)
    text = model_card(release.card)
    files = tuple(
        FileRecord(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in ((WEIGHTS, blob), (README, text.encode()))
    )
    card = codec.to_plain(replace(release.card, files=files))
    write_durably(work / WEIGHTS, blob)
    write_durably(work / README, text.encode())
    write_durably(work / CARD, json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False).encode())
    work.chmod(0o755)


def remove_leftovers(target: Path) -> None:
    """Take away what killed processes left half-written for a release that is now complete."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*{PARTIAL}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_plain_file(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of acceptable size; links are refused."""
    try:
        if path.is_symlink() or not path.is_file():
            raise ReleaseError(f"{path} is missing, or is not a plain file.")
        if path.stat().st_size > limit:
            raise ReleaseError(
                f"{path} has {path.stat().st_size:,} bytes, more than the {limit:,} that are accepted."
            )
        return path.read_bytes()
    except OSError as problem:
        raise ReleaseError(f"{path} cannot be read: {problem}.") from problem


def _read_card(folder: Path) -> Card:
    blob = read_plain_file(folder / CARD, _LARGEST_CARD)
    try:
        plain: Any = json.loads(blob)
    except (ValueError, RecursionError) as problem:
        raise ReleaseError(f"{folder / CARD} is not JSON: {problem}.") from problem
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise ReleaseError(
            f"{folder / CARD} has format {found!r}; this version of understudy ({__version__}) reads format {FORMAT}."
        )
    return codec.from_plain(Card, plain, error=ReleaseError)
