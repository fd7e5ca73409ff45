"""Files and folders written whole or not at all, and plain files read within a limit.

What is being written stands beside its target under a name of its own, is forced to the disk, and only then takes the
target's name. So nobody ever finds half a file, and a failure leaves what was there before. A process that is killed
leaves its working file; `remove_leftovers` takes it away once that process is gone, and touches nothing else.

What is read is a regular file whose length is known before its first byte is taken: a pipe, a device or (where links
are refused) a link is named and refused, so that nothing waits or swells for ever.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
from typing import TYPE_CHECKING

from understudy.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from understudy.errors import UnderstudyError

__all__ = [
    "has_ended",
    "held",
    "new_folder",
    "plain_size",
    "read_plain",
    "read_text",
    "remove_leftovers",
    "replacing",
    "this_process",
    "write_whole",
]

LARGEST_TEXT = 64 * 2**20
"""Schemas, plans, recipes and evaluations are far smaller than this."""

_PUBLIC, _PRIVATE, _FOLDER = 0o644, 0o600, 0o755
"""The widest modes of what is written; the umask may narrow them further."""


# --------------------------------------------------------------------------------------------- writing


def write_whole(
    path: Path,
    content: str | bytes,
    *,
    error: type[UnderstudyError] = FileError,
    private: bool = False,
    new: bool = False,
) -> None:
    """Write a file whole or not at all, in folders that are made where they are missing.

    Args:
        path: where to; what was there is replaced.
        content: text is written as UTF-8.
        error: what is raised, with the path and the reason.
        private: readable by its owner only, whatever the umask.
        new: refuse a path that exists.
    """
    with replacing(path, error=error, private=private, new=new) as work:
        work.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing(
    path: Path, *, error: type[UnderstudyError] = FileError, private: bool = False, new: bool = False
) -> Iterator[Path]:
    """An empty file beside the path, which takes its place when the block ends well, and vanishes otherwise.

    Arguments are those of `write_whole`. A link is followed, so that it goes on pointing to the new file; a device, a
    pipe or a folder is refused.
    """
    work: Path | None = None
    try:
        target = _target(path, error, new=new)
        target.parent.mkdir(parents=True, exist_ok=True)
        name = _working_name(target)
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE if private else _PUBLIC))
        work = name
        yield work
        _sync(work)
        work.replace(target)
        _sync(target.parent)
    except (OSError, UnicodeEncodeError) as problem:
        raise _refusal(error, path, "written", problem) from problem
    finally:
        if work is not None:
            work.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: Path, *, error: type[UnderstudyError] = FileError) -> Iterator[Path]:
    """An empty folder beside the path, which gets its name when the block ends well, and vanishes otherwise.

    Raises:
        UnderstudyError: of the given kind, if the path is taken or the disk refuses.
    """
    work: Path | None = None
    try:
        _refuse_taken(path, error)
        path.parent.mkdir(parents=True, exist_ok=True)
        name = _working_name(path)
        name.mkdir(_FOLDER)
        work = name
        yield work
        for inside in (*work.rglob("*"), work):
            _sync(inside)
        work.rename(path)
        _sync(path.parent)
    except (OSError, UnicodeEncodeError) as problem:
        raise _refusal(error, path, "written", problem) from problem
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def held(folder: Path, *, error: type[UnderstudyError] = FileError) -> Iterator[None]:
    """Keep a folder for this process while the block runs; another that wants it meanwhile is refused."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error(
                f"another process works in {folder}; wait for it, or choose another folder."
            ) from None
        except OSError:  # a file system without such locks: nothing is kept, and nothing refused
            pass
        yield
    finally:
        os.close(handle)


def remove_leftovers(target: Path) -> None:
    """Take away what killed processes of this machine left half-written for this very target."""
    pattern = re.compile(re.escape(f".{target.name}.{_machine()}-") + r"(\d+)-[0-9a-f]{8}\.partial")
    with contextlib.suppress(OSError):
        for path in target.parent.iterdir():
            found = pattern.fullmatch(path.name)
            if found is None or _alive(int(found[1])):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _target(path: Path, error: type[UnderstudyError], *, new: bool) -> Path:
    if new:
        _refuse_taken(path, error)
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise error(f"{path} is {what}, which is not replaced; give the name of a file.")
    return path.resolve() if path.is_symlink() else path


def _refuse_taken(path: Path, error: type[UnderstudyError]) -> None:
    if path.exists() or path.is_symlink():
        raise error(f"{path} exists already; remove it or choose another name.")


def _working_name(target: Path) -> Path:
    """A hidden name beside the target that says who is writing, on which machine."""
    if "\0" in str(target):
        raise OSError(errno.EINVAL, "a name cannot hold a zero byte")
    return target.with_name(f".{target.name}.{this_process()}-{secrets.token_hex(4)}.partial")


def this_process() -> str:
    """A name of this process by which another one of this machine can tell whether it still runs."""
    return f"{_machine()}-{os.getpid()}"


def has_ended(process: str) -> bool:
    """Whether the process of this name is known to be gone; one of another machine never is."""
    machine, _, number = process.partition("-")
    return machine == _machine() and number.isdecimal() and not _alive(int(number))


@functools.cache
def _machine() -> str:
    """A short mark of this machine, whose process numbers mean nothing on another one."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or no process number
        return True
    return True


def _sync(path: Path) -> None:
    """Wait until the file, or the list of names in the folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --------------------------------------------------------------------------------------------- reading


def plain_size(path: Path, *, error: type[UnderstudyError] = FileError, links: bool = True) -> int:
    """The length of a regular file in bytes; anything else is refused.

    Args:
        path: the file.
        error: what is raised, with the path and the reason.
        links: whether a link to a regular file will do.
    """
    try:
        found = path.stat() if links else path.lstat()
    except (OSError, ValueError) as problem:
        raise _refusal(error, path, "read", problem) from problem
    if not stat.S_ISREG(found.st_mode):
        raise error(f"{path} is not a plain file but {_kind(found.st_mode)}, which is not read.")
    return found.st_size


def read_plain(
    path: Path, limit: int, *, error: type[UnderstudyError] = FileError, links: bool = True
) -> bytes:
    """The bytes of a regular file of at most `limit` bytes; the other arguments are those of `plain_size`."""
    size = plain_size(path, error=error, links=links)
    if size > limit:
        raise error(f"{path} has {size:,} bytes, more than the {limit:,} that are accepted.")
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            content = file.read(size + 1)
    except OSError as problem:
        raise _refusal(error, path, "read", problem) from problem
    if len(content) != size:
        raise error(f"{path} changed while it was read; try again.")
    return content


def read_text(path: Path, *, error: type[UnderstudyError] = FileError, limit: int = LARGEST_TEXT) -> str:
    """The text of a regular UTF-8 file of at most `limit` bytes."""
    try:
        return read_plain(path, limit, error=error).decode()
    except UnicodeDecodeError as problem:
        raise error(f"{path} cannot be read: it is not UTF-8 text ({problem}).") from problem


def _kind(mode: int) -> str:
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISLNK: "a link",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((name for test, name in kinds.items() if test(mode)), "a device")


def _refusal(
    error: type[UnderstudyError], path: Path, verb: str, problem: OSError | ValueError
) -> UnderstudyError:
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return error(f"{path} cannot be {verb}: {reason}.")
