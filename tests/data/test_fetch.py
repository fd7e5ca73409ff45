from __future__ import annotations

import hashlib
import http.server
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from understudy.data import known, read
from understudy.data.public.fetch import Source, cache_root, download_bar, locate
from understudy.data.public.sets import PUBLIC_SETS, PublicSet
from understudy.data.records import Records
from understudy.errors import DataError, MissingDataset
from understudy.records.images import Images
from understudy.schema import ImageSchema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = bytes(range(256)) * 5000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class _Publisher(http.server.BaseHTTPRequestHandler):
    """Serves one file well and in several broken ways."""

    def do_GET(self) -> None:
        if self.path == "/absent":
            self.send_error(404)
            return
        body = {"/good": CONTENT, "/wrong": CONTENT[::-1], "/long": CONTENT + b"x", "/cut": CONTENT[:70_000]}[
            self.path
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep the tests quiet."""


@pytest.fixture
def publisher() -> Iterator[str]:
    """A server on localhost; yields its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Publisher) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "data"))


def _source(*urls: str) -> Source:
    return Source("set", "file.bin", len(CONTENT), DIGEST, urls)


def test_download_verifies_and_then_needs_no_network(publisher: str) -> None:
    """A download arrives in the cache, reports its progress, and is found there the next time."""
    steps: list[tuple[str, int, int]] = []
    path = locate(_source(f"{publisher}/good"), on_progress=lambda *step: steps.append(step))
    assert path == cache_root() / "set" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert steps[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [step[1] for step in steps] == sorted(step[1] for step in steps)
    assert locate(_source()) == path
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("wrong", "its SHA-256 is .*, expected"),
        ("long", "longer than the 1280000 bytes"),
        ("cut", "ended after 70000 of 1280000"),
        ("absent", "404"),
    ],
)
def test_a_bad_download_leaves_nothing_behind(publisher: str, page: str, reason: str) -> None:
    """A file that is wrong, long, cut or absent is not kept; the message says why and what to do."""
    with pytest.raises(MissingDataset, match=reason) as caught:
        locate(_source(f"{publisher}/{page}"))
    assert list((cache_root() / "set").iterdir()) == []
    for fact in (
        "file.bin",
        "Put it at",
        str(cache_root() / "set" / "file.bin"),
        DIGEST,
        f"{publisher}/{page}",
    ):
        assert fact in str(caught.value)


def test_the_next_mirror_is_tried(publisher: str) -> None:
    """When the first address fails, the next one is used."""
    path = locate(_source(f"{publisher}/absent", f"{publisher}/wrong", f"{publisher}/good"))
    assert path.read_bytes() == CONTENT


def test_the_declared_folder_comes_first_and_is_verified(tmp_path: Path, publisher: str) -> None:
    """A file under UNDERSTUDY_DATA is used without network, unless it is not the published one."""
    declared = tmp_path / "data" / "set" / "file.bin"
    declared.parent.mkdir(parents=True)
    declared.write_bytes(CONTENT)
    assert locate(_source(f"{publisher}/absent")) == declared
    declared.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="is not the published file"):
        locate(_source(f"{publisher}/good"))


def test_without_network_the_message_says_what_to_put_where(tmp_path: Path) -> None:
    """With downloads forbidden or impossible, the name, the places and the checksum are told."""
    with pytest.raises(MissingDataset, match=r"Get it from http://127\.0\.0\.1:9/good") as caught:
        locate(_source("http://127.0.0.1:9/good"))
    assert "Fetching it failed" in str(caught.value)
    with pytest.raises(MissingDataset) as caught:
        locate(_source("http://127.0.0.1:9/good"), download=False)
    assert "Fetching" not in str(caught.value)
    assert str(tmp_path / "data" / "set" / "file.bin") in str(caught.value)
    for name in ("mnist", "adult"):
        with pytest.raises(MissingDataset, match="is not on this machine"):
            known(name, download=False)


def test_known_downloads_all_files(
    publisher: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known set is loaded from the files that arrived, with a bar while they arrive."""
    schema = ImageSchema(1, 256)

    def load(paths: tuple[Path, ...]) -> tuple[Records, Records]:
        pixels = np.frombuffer(paths[0].read_bytes(), np.uint8).reshape(-1, 1, 256, 1)
        return Records(Images(pixels)), Records(Images(pixels[:1]))

    monkeypatch.setitem(PUBLIC_SETS, "toy", PublicSet(schema, (_source(f"{publisher}/good"),), load))
    with download_bar() as progress:
        dataset = known("toy", on_progress=progress)
    assert "file.bin" in capsys.readouterr().err
    with download_bar() as progress:
        assert len(read("toy:test", on_progress=progress)) == 1
    assert capsys.readouterr() == ("", "")
    assert (dataset.name, dataset.schema, len(dataset.train)) == ("toy", schema, 5000)


def test_the_table_of_sources_is_well_formed() -> None:
    """Every published file has a checksum, a size and addresses that end in its name."""
    for found in PUBLIC_SETS.values():
        for source in found.sources:
            assert len(bytes.fromhex(source.sha256)) == 32
            assert source.size > 0
            assert all(url.startswith("http") and url.endswith("/" + source.file) for url in source.urls)
