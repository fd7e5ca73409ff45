"""Files are written whole or not at all, and only plain files of a known length are read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from understudy import files
from understudy.errors import FileError, SchemaError


def dead_process() -> int:
    """The number of a process that is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone.pid


def leftover(target: Path, process: int, *, folder: bool = False) -> Path:
    """What a process with this number would leave if it were killed while it wrote the target."""
    path = target.with_name(f".{target.name}.{files._machine()}-{process}-0123abcd.partial")
    if folder:
        path.mkdir()
        (path / "inside").write_text("half")
    else:
        path.write_text("half")
    return path


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new content is there, missing folders are made, and no working file stays."""
    path = tmp_path / "new" / "place" / "a.txt"
    files.write_whole(path, "first")
    files.write_whole(path, "zweit\u00e9s")
    assert path.read_text("utf-8") == "zweit\u00e9s"
    assert [found.name for found in path.parent.iterdir()] == ["a.txt"]


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    """An error while writing leaves the old file and nothing else, also when it is not an error of the system."""
    path = tmp_path / "a.txt"
    files.write_whole(path, "old")

    def fail() -> None:
        with files.replacing(path) as work:
            work.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("place", ["folder", "file/inside.txt", "device", "x" * 300, "y" * 240, "nul\0"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    """Folders, places below a file, devices and impossible names give the error that was asked for, with the path."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(SchemaError, match=place.split("/", maxsplit=1)[0].rstrip("\0")):
        files.write_whole(tmp_path / place, "text", error=SchemaError)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode), "the device was replaced"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["device", "file", "folder"]


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    """A lone surrogate, which has no UTF-8, ends in a typed error and leaves nothing."""
    with pytest.raises(FileError, match="surrogates"):
        files.write_whole(tmp_path / "a.txt", "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_link_goes_on_pointing(tmp_path: Path) -> None:
    """Writing through a link replaces the file behind it, not the link."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"


@pytest.mark.parametrize(("umask", "public", "folder"), [(0o000, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_modes_honour_the_umask_and_never_let_others_write(
    tmp_path: Path, umask: int, public: int, folder: int
) -> None:
    """A wide umask opens nothing to writing by others, a narrow one is obeyed, and private is private."""
    before = os.umask(umask)
    try:
        files.write_whole(tmp_path / "a", "")
        files.write_whole(tmp_path / "b", "", private=True)
        with files.new_folder(tmp_path / "c") as work:
            files.write_whole(work / "d", "")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "b", "c", "c/d")]
    assert modes == [public, 0o600, folder, public]


def test_new_files_and_folders_replace_nothing(tmp_path: Path) -> None:
    """What exists, even a link to nowhere, is refused where something new was asked for."""
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").symlink_to("nowhere")
    for name in ("a", "b"):
        with pytest.raises(FileError, match="exists already"):
            files.write_whole(tmp_path / name, "new", new=True)
        with pytest.raises(FileError, match="exists already"), files.new_folder(tmp_path / name):
            pass
    assert (tmp_path / "a").read_text() == "old"


def test_leftovers_of_the_dead_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """Working files of `a` whose process is gone go; those of `a.b`, of the living and of other machines stay."""
    gone, target = dead_process(), tmp_path / "a"
    removed = [leftover(target, gone), leftover(tmp_path / "a.b", gone), leftover(target, os.getpid())]
    other = tmp_path / f".a.00000000-{gone}-0123abcd.partial"
    other.write_text("half")
    removed.append(other)
    strange = tmp_path / ".a.notes.partial"
    strange.write_text("mine")
    files.remove_leftovers(target)
    assert [path.exists() for path in [*removed, strange]] == [False, True, True, True, True]


def test_a_half_written_folder_is_removed(tmp_path: Path) -> None:
    """A folder that a killed process left goes with all that is in it."""
    left = leftover(tmp_path / "release", dead_process(), folder=True)
    files.remove_leftovers(tmp_path / "release")
    assert not left.exists()


@pytest.mark.timeout(20)
def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """Pipes, devices, folders and missing files are refused at once, by name."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name, reason in (
        ("pipe", "a pipe"),
        ("zero", "a device"),
        ("folder", "a folder"),
        ("none", "No such"),
    ):
        with pytest.raises(FileError, match=rf"{name}.*{reason}"):
            files.read_plain(tmp_path / name, 10)


def test_links_are_refused_where_they_may_lead_elsewhere(tmp_path: Path) -> None:
    """A link is followed by default and refused on demand."""
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert files.read_plain(tmp_path / "link", 3) == b"abc"
    with pytest.raises(FileError, match="a link"):
        files.read_plain(tmp_path / "link", 3, links=False)


def test_the_length_is_judged_before_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of a tebibyte is refused without being opened."""
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)

    def opened(*_: object) -> int:
        raise AssertionError("the file was opened")

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(FileError, match="more than the 1,000"):
        files.read_plain(tmp_path / "sparse", 1000)


def test_text_must_be_utf_8(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 give a typed error."""
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="UTF-8"):
        files.read_text(tmp_path / "a", error=SchemaError)
