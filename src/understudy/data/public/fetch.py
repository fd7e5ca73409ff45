"""Files of known public sets: found on this machine, or fetched from their publisher and checked by SHA-256.

A file is looked for as `<root>/<folder>/<file>` under `UNDERSTUDY_DATA` and then under the cache folder
(`$XDG_CACHE_HOME/understudy`, by default `~/.cache/understudy`). Downloads go to the cache under a temporary
name and are renamed only when complete and correct, so that an interrupted download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from understudy.errors import DataError, MissingDataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import TaskID

__all__ = ["Progress", "Source", "cache_root", "download_bar", "locate"]

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the file's name, the bytes that have arrived and the bytes expected."""

_BLOCK = 2**18
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Source:
    """One file of a known set.

    Args:
        folder: the folder of the set.
        file: the name of the file.
        size: its length in bytes.
        sha256: its checksum.
        urls: where the publisher (or a mirror) offers it; empty if it cannot be fetched without an account.
    """

    folder: str
    file: str
    size: int
    sha256: str
    urls: tuple[str, ...] = ()


def cache_root() -> Path:
    """Return the folder that downloads go to."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "understudy"


def locate(source: Source, *, on_progress: Progress | None = None, download: bool = True) -> Path:
    """Return the path of the file, fetching it into the cache if it is nowhere on this machine.

    Raises:
        DataError: if a file is there but is not the published one.
        MissingDataset: if it is not there and cannot be fetched; says what to put where.
    """
    for root in _roots():
        path = root / source.folder / source.file
        if path.exists():
            _verify(path, source)
            return path
    failures = []
    for url in source.urls if download else ():
        try:
            return _download(source, url, on_progress)
        except (OSError, ValueError) as cause:
            failures.append(f"{url}: {cause}")
    raise MissingDataset(_what_to_do(source, failures))


def _roots() -> list[Path]:
    declared = os.environ.get("UNDERSTUDY_DATA")
    return [*([Path(declared)] if declared else []), cache_root()]


def _verify(path: Path, source: Source) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != source.sha256:
        raise DataError(
            f"{path} is not the published file: its SHA-256 is {digest}, expected {source.sha256}. "
            "Delete it or put the original there."
        )


def _download(source: Source, url: str, on_progress: Progress | None) -> Path:
    target = cache_root() / source.folder / source.file
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{source.file}.", dir=target.parent)
    partial = Path(name)
    digest, done = hashlib.sha256(), 0
    try:
        with os.fdopen(handle, "wb") as file, _open_url(url) as response:
            while block := response.read(_BLOCK):
                done += len(block)
                if done > source.size:
                    raise ValueError(f"it is longer than the {source.size} bytes that were published")
                digest.update(block)
                file.write(block)
                if on_progress is not None:
                    on_progress(source.file, done, source.size)
        if done < source.size:
            raise ValueError(f"the connection ended after {done} of {source.size} bytes")
        if digest.hexdigest() != source.sha256:
            raise ValueError(f"its SHA-256 is {digest.hexdigest()}, expected {source.sha256}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _open_url(url: str):  # type: ignore[no-untyped-def]
    return urllib.request.urlopen(url, timeout=_TIMEOUT)  # noqa: S310 - the addresses are constants of this package


def _what_to_do(source: Source, failures: list[str]) -> str:
    places = " or ".join(str(root / source.folder / source.file) for root in _roots())
    lines = [f"{source.file} of the data set {source.folder!r} is not on this machine."]
    lines += [f"Fetching it failed: {failure}" for failure in failures]
    if source.urls:
        lines.append(f"Get it from {source.urls[0]}")
    lines.append(f"Put it at {places} (SHA-256 {source.sha256}, {source.size} bytes).")
    if "UNDERSTUDY_DATA" not in os.environ:
        lines.append("UNDERSTUDY_DATA may name another folder to look in.")
    return "\n".join(lines)


@contextmanager
def download_bar() -> Iterator[Progress]:
    """Show a progress bar on standard error once something arrives; yields the callback to pass on."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Bar(*columns, console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def advance(file: str, done: int, total: int) -> None:
        if not tasks:
            bar.start()
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done)

    try:
        yield advance
    finally:
        if tasks:
            bar.stop()
