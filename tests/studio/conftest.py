"""A studio on a folder of made-up records, entered as its owner would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from understudy.studio.app import studio_app
from understudy.studio.desk import Desk

TOKEN = "the-token-of-the-tests"


class Visitor(TestClient):
    """A browser without a screen: it keeps cookies and fills forms with the key of the page."""

    def key(self, path: str = "/") -> str:
        found = re.search(r'name="form-key" value="([0-9a-f]+)"', self.get(path).text)
        assert found is not None, path
        return found[1]

    def fill(self, path: str, page: str | None = None, /, **fields: str):  # type: ignore[no-untyped-def]
        data = {name.replace("__", "-"): value for name, value in fields.items()}
        return self.post(path, data={"form-key": self.key(page or "/"), **data})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = ["patient;age;ward;outcome"]
    lines += [f"p{k % 40};{20 + k % 60};{'abc'[k % 3]};{'yes' if k % 4 == 0 else 'no'}" for k in range(120)]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / ".hidden.csv").write_text("secret\n1\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def opened(folder: Path) -> Iterator[tuple[Visitor, Desk]]:
    app, studio, _ = studio_app(folder, TOKEN)
    visitor = Visitor(app, base_url="http://127.0.0.1", raise_server_exceptions=True)
    assert visitor.get(f"/enter?token={TOKEN}").status_code == 200
    yield visitor, studio
    studio.jobs.close()
