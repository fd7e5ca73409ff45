"""`Release`: the generator and its certificate, as a folder that may be published.

A release is three files: `generator.safetensors` (weights, no code), `card.json` (what it is, how it was made, what
it cost) and `README.md` (the same for people). Loading checks sizes and hashes, runs no code, and refuses what it does
not understand. `docs/release-format.md` specifies the format.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy import codec, files
from understudy._version import __version__
from understudy.calling import explained
from understudy.certificate import checked_plan
from understudy.errors import CallError, ReleaseError
from understudy.notebook import html_table
from understudy.planning import Plan
from understudy.release.readme import front_matter, model_card
from understudy.schema import Schema, completes, open_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from understudy.records.images import Images

__all__ = [
    "ATTACHMENT",
    "CARD",
    "FORMAT",
    "README",
    "WEIGHTS",
    "Card",
    "FileRecord",
    "Package",
    "Release",
    "read_plain_file",
    "release_of",
]

FORMAT = 2
"""The version of the folder format; raised whenever an older reader would misunderstand a newer folder."""

WEIGHTS, CARD, README, ATTACHMENT = "generator.safetensors", "card.json", "README.md", "audit.json"
_LARGEST_CARD = 16 * 2**20


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
        discovered: the plan's schema with what was published about it, where it leaves anything to be discovered.
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
    discovered: Schema | None = None
    label_weights: tuple[float, ...] | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    public_source: str | None = None
    ledger_head: str | None = None
    packages: tuple[Package, ...] = ()
    files: tuple[FileRecord, ...] = ()

    def __post_init__(self) -> None:
        declared = self.plan.schema
        if (
            open_columns(declared)
            if self.discovered is None
            else not completes(self.discovered, declared) or not open_columns(declared)
        ):
            raise ReleaseError(
                "what was discovered is not what the schema of the plan leaves to be discovered."
            )
        weights, schema = self.label_weights, self.schema
        if weights is None:
            return
        classes = None if schema is None else schema.label_classes
        if classes is None or len(weights) != len(classes):
            raise ReleaseError(
                f"label_weights has {len(weights)} numbers, but there are {len(classes or ())} classes."
            )
        if (
            not all(math.isfinite(weight) and weight >= 0 for weight in weights)
            or not 0 < sum(weights) < math.inf
        ):
            raise ReleaseError(
                f"label_weights must be finite, not negative and not all zero, got {list(weights)[:10]}."
            )

    @property
    def schema(self) -> Schema | None:
        """The complete description of the records: as planned, with whatever was discovered."""
        return self.discovered or self.plan.schema

    @property
    def private(self) -> bool:
        """Whether the stated guarantee holds."""
        return self.plan.private and not self.warnings


@dataclass(frozen=True, repr=False)
class Release:
    """A generator that may be published, with the card that says why.

    It holds the card and the generator's weights and nothing else; no part of it depends on private records except
    through the mechanisms that the card lists.
    """

    card: Card
    weights: Mapping[str, NDArray[Any]]

    @property
    def schema(self) -> Schema:
        """The public description of the records it makes."""
        assert self.card.schema is not None
        return self.card.schema

    def __repr__(self) -> str:
        plan = self.card.plan
        cost = (
            "NOT PRIVATE" if not self.card.private or plan.spent is None else f"ε = {plan.spent.epsilon:.4g}"
        )
        return f"<Release of {plan.recipe.name}: {cost}, makes {self.schema!r}>"

    def _repr_html_(self) -> str:
        plan, spent = self.card.plan, self.card.plan.spent
        rows: list[tuple[object, ...]] = [("recipe", plan.recipe.name), ("makes", repr(self.schema))]
        if spent is not None:
            rows += [
                ("ε", f"{spent.epsilon:.4f}"),
                ("δ", f"{spent.delta:g}"),
                ("neighbours", spent.adjacency.value),
            ]
            rows += [("charged", charge.purpose) for charge in plan.charges]
        reasons = " ".join(self.card.warnings or ("trained without noise.",))
        warning = None if self.card.private else f"NOT PRIVATE: {reasons}"
        return html_table("Release", rows, warning=warning, notes=self.card.notes)

    @explained("release.sample(1000)")
    def sample(
        self,
        rows: float,
        *,
        label: str | None = None,
        counts: Mapping[str, int] | None = None,
        given: Mapping[str, object] | None = None,
        balance: str | None = None,
        seed: int | None = None,
        certainty: float | None = None,
    ) -> pd.DataFrame | Images:
        """Draw synthetic records; see `understudy.sample`."""
        from understudy.release.sampling import sample

        return sample(
            self,
            rows,
            label=label,
            counts=counts,
            given=given,
            balance=balance,
            seed=seed,
            certainty=certainty,
        )

    @explained("release.complete(frame)")
    def complete(self, partial: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """Fill the empty cells of a table; see `understudy.release.completing.complete`."""
        from understudy.release.completing import complete

        return complete(self, partial, seed=seed)

    @explained('release.save("folder")')
    def save(self, path: str | Path) -> Path:
        """Write the folder, under a temporary name first, so that a half-written release never exists.

        Raises:
            ReleaseError: the path is taken, or the disk refuses.
        """
        target = Path(path)
        with files.new_folder(target, error=ReleaseError) as work:
            _write_files(work, self)
        return target

    @explained('release.push("hf://owner/name")')
    def push(self, target: str | Path) -> str:
        """Publish it in a new folder or on the Hugging Face Hub; see `understudy.release.hub.push`."""
        from understudy.release.hub import push

        return push(self, target)

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
        from understudy.release.weights import largest_file, weights_from_bytes

        recipe, schema = card.plan.recipe, _schema_of(card, folder)
        size = files.plain_size(folder / WEIGHTS, error=ReleaseError, links=False)
        blob = (
            read_plain_file(folder / WEIGHTS, largest_file(recipe, schema)) if size == record.bytes else b""
        )
        if size != record.bytes or hashlib.sha256(blob).hexdigest() != record.sha256:
            raise ReleaseError(
                f"{folder / WEIGHTS} is not the file that the card describes; it was damaged or replaced."
            )
        return cls(card, weights_from_bytes(blob, recipe, schema))


def release_of(given: Release | str | Path) -> Release:
    """A release, or the one in this folder.

    Raises:
        CallError: it is neither.
    """
    if isinstance(given, Release):
        return given
    if isinstance(given, str | Path):
        return Release.load(given)
    raise CallError(
        f"a release is expected, or the path of its folder, and this is a {type(given).__name__}."
    )


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
    if card.schema is None:
        raise ReleaseError(f"{folder / CARD} has no schema, so its records cannot be decoded.")
    return card.schema


def _write_files(work: Path, release: Release) -> None:
    from understudy.release.weights import weights_to_bytes

    blob = weights_to_bytes(release.weights)
    text = front_matter(release.card) + model_card(release.card)
    records = tuple(
        FileRecord(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in ((WEIGHTS, blob), (README, text.encode()))
    )
    card = codec.to_plain(replace(release.card, files=records))
    for name, content in (
        (WEIGHTS, blob),
        (README, text),
        (CARD, json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False)),
    ):
        files.write_whole(work / name, content, error=ReleaseError)


def read_plain_file(path: Path, limit: int) -> bytes:
    """The bytes of a file of a release, of acceptable size; links are refused."""
    return files.read_plain(path, limit, error=ReleaseError, links=False)


def _read_card(folder: Path) -> Card:
    blob = read_plain_file(folder / CARD, _LARGEST_CARD)
    plain = codec.plain_from_json(blob, error=ReleaseError)
    found = plain.get("format") if isinstance(plain, dict) else None
    if found != FORMAT:
        raise ReleaseError(
            f"{folder / CARD} has format {found!r}; this version of understudy ({__version__}) reads format {FORMAT}."
        )
    return codec.from_plain(Card, plain, error=ReleaseError)
