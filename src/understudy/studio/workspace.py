"""The folder that the curator opened: what lies below it may be read, and journeys are kept in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from understudy import codec, files
from understudy.data import known_names
from understudy.data.databases import Database
from understudy.data.places import TableKind
from understudy.errors import StudioError
from understudy.run.record import beside

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Journey", "Listed", "Source", "Workspace"]

HOME = "studio"
"""The folder of the journeys, below the opened one."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_PICTURES = (".npz", ".png", ".jpg", ".jpeg", ".gz")
_SHOWN = 500
"""Entries of a folder that are listed."""


@dataclass(frozen=True)
class Source:
    """Where records come from: a file or folder below the opened one, a known set, or a database.

    Args:
        path: relative to the opened folder; or the name of a known set; or the address of a database.
        query: of a database; None otherwise.
        known: whether the path names a known set.
    """

    path: str
    query: str | None = None
    known: bool = False

    def __str__(self) -> str:
        return f"a query to {Database(self.path, self.query)}" if self.query is not None else self.path


@dataclass(frozen=True, kw_only=True)
class Journey:
    """One data set on its way to a release.

    Args:
        name: of its folder.
        source: the private records.
        dataset: the account in the ledger that pays; journeys on the same records share it.
        test: real records that were not trained on, for measuring; None before they are chosen.
        unconfirmed: columns whose kind was guessed from private cells and not yet confirmed to be public.
        spelling_unconfirmed: whether the same holds for how cells are written.
        total: the ε that this data set may ever spend.
        epsilon: the ε of this release.
        delta: the δ of both.
        rows: the number of records (or persons) if it is public.
        recipe: the name of a recipe; None for the default.
        steps: how many steps to train; None for the recipe's own.
    """

    name: str
    source: Source
    dataset: str
    test: Source | None = None
    unconfirmed: tuple[str, ...] = ()
    spelling_unconfirmed: bool = False
    total: float = 3.0
    epsilon: float = 1.0
    delta: float = 1e-5
    rows: int | None = None
    recipe: str | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Listed:
    """An entry of a folder.

    Args:
        name: as shown.
        path: relative to the opened folder.
        folder: whether it can be opened further.
    """

    name: str
    path: str
    folder: bool


class Workspace:
    """The opened folder.

    Args:
        root: the folder; nothing outside of it is read, not even through links.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise StudioError(f"{root} is no folder: open one that holds the data.")

    def below(self, relative: str) -> Path:
        """The path of something below the opened folder.

        Raises:
            StudioError: it is outside, hidden, or not there.
        """
        if "\0" in relative or len(relative) > 4096:
            raise StudioError("this is no path.")
        path = (self.root / relative).resolve()
        inside = path == self.root or self.root in path.parents
        hidden = inside and any(part.startswith(".") for part in path.relative_to(self.root).parts)
        if not inside or hidden:
            raise StudioError("this path is not below the opened folder.")
        if not path.exists():
            raise StudioError(f"there is no {relative!r} in the opened folder.")
        return path

    def listing(self, relative: str = "") -> list[Listed]:
        """Folders and files of records in a folder, folders first."""
        folder = self.below(relative)
        if not folder.is_dir():
            raise StudioError(f"{relative!r} is no folder.")
        found = []
        for path in sorted(folder.iterdir(), key=lambda one: (one.is_file(), one.name.lower())):
            own = path == self.home
            if path.name.startswith(".") or own or not (path.is_dir() or _holds_records(path)):
                continue
            inside = path.resolve()
            if self.root not in inside.parents:
                continue
            found.append(Listed(path.name, str(path.relative_to(self.root)), path.is_dir()))
        return found[:_SHOWN]

    def records(self, source: Source) -> object:
        """What the library reads for a source."""
        if source.query is not None:
            asked = Database(source.path, source.query, confined=True)
            return asked if asked.file is None else replace(asked, address=str(self.below(asked.file)))
        return source.path if source.known else self.below(source.path)

    # ------------------------------------------------------------ journeys

    @property
    def home(self) -> Path:
        """The folder of the journeys."""
        return self.root / HOME

    @property
    def ledger(self) -> Path:
        """The ledger that all journeys are charged to."""
        return self.home / "ledger"

    def folder(self, name: str) -> Path:
        """The folder of one journey; its name is checked first."""
        if not _NAME.fullmatch(name):
            raise StudioError(
                f"{name[:60]!r} is no name of a journey: small letters, digits and hyphens, at most 40."
            )
        return self.home / name

    def release(self, name: str) -> Path:
        """Where a journey's release is, or will be."""
        return self.folder(name) / "release"

    def checkpoint(self, name: str) -> Path:
        """Where a journey keeps the state of an interrupted run."""
        return beside(self.release(name), "checkpoint")

    def schema(self, name: str) -> Path:
        """Where a journey's public facts are."""
        return self.folder(name) / "schema.toml"

    def criteria(self, name: str) -> Path:
        """Where it stands what the release of a journey must be good enough for."""
        return self.folder(name) / "criteria.toml"

    def measured(self, name: str) -> Path:
        """INTERNAL: what was measured on real records."""
        return self.folder(name) / "evaluation.json"

    def published(self, name: str) -> Path:
        """What was measured with noise and charged, and so may be published."""
        return self.folder(name) / "published.json"

    def journeys(self) -> list[Journey]:
        """All journeys by name; one whose file is damaged is left out."""
        if not self.home.is_dir():
            return []
        names = sorted(path.name for path in self.home.iterdir() if _NAME.fullmatch(path.name))
        return [self.journey(name) for name in names if (self.folder(name) / "journey.json").is_file()]

    def journey(self, name: str) -> Journey:
        """One journey."""
        path = self.folder(name) / "journey.json"
        if not path.is_file():
            raise StudioError(f"there is no journey {name!r}.")
        return codec.from_json(Journey, files.read_text(path, error=StudioError), error=StudioError)

    def create(self, name: str, source: Source) -> Journey:
        """Begin a journey.

        Raises:
            StudioError: the name is taken or no name, or the source is not one that can be read.
        """
        folder = self.folder(name)
        if folder.exists():
            raise StudioError(f"there is a journey {name!r} already; choose another name.")
        self._check(source)
        same = self.records(source)
        paying = (one.dataset for one in self.journeys() if self._named_by(one.source) == same)
        dataset = next(paying, name)
        folder.mkdir(parents=True, mode=0o700)
        return self.save(Journey(name=name, source=source, dataset=dataset))

    def _named_by(self, source: Source) -> object:
        """The records of a source, or None if they are no longer there."""
        try:
            return self.records(source)
        except StudioError:
            return None

    def save(self, journey: Journey, **changes: object) -> Journey:
        """Write a journey, changed where asked."""
        changed = replace(journey, **changes)  # type: ignore[arg-type]
        files.write_whole(
            self.folder(journey.name) / "journey.json", codec.to_json(changed), error=StudioError
        )
        return changed

    def _check(self, source: Source) -> None:
        if source.known and source.path not in known_names():
            raise StudioError(f"{source.path!r} is no known set.")
        if source.query is not None and re.search(r"//[^/@]*:[^/@]*@|password=", source.path):
            raise StudioError(
                "leave the password out of the address: set PGPASSWORD or use a service file before the studio starts."
            )
        self.records(source)


def _holds_records(path: Path) -> bool:
    return path.suffix.lower() in (*TableKind.ALL, *_PICTURES)
