"""The studio's pages and its safety, asked as a browser asks them."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from understudy.studio.app import studio_app
from understudy.studio.facts import changed, facts_of, left_to_fill
from understudy.studio.workspace import Journey, Source

TOKEN = "the-token-of-the-tests"

FILLED = {
    "label": "outcome",
    "0-kind": "categorical",
    "1-use": "on",
    "1-kind": "integer",
    "1-confirmed": "on",
    "1-lower": "0",
    "1-upper": "120",
    "2-use": "on",
    "2-kind": "categorical",
    "2-confirmed": "on",
    "2-categories": "a\nb\nc",
    "3-use": "on",
    "3-kind": "binary",
    "3-confirmed": "on",
    "3-values": "no\nyes",
}


def begun(visitor: Any) -> None:
    answer = visitor.fill("/new", name="visits", kind="file", path="visits.csv")
    assert answer.status_code == 200, answer.text


def test_a_journey_begins_with_names_and_asks_for_facts(opened: Any) -> None:
    """A file is drafted without bounds or categories, and every fact that is missing is counted."""
    visitor, studio = opened
    begun(visitor)
    page = visitor.get("/journey/visits/facts").text
    assert "left to fill in" in page
    assert "guessed from private cells" in page
    assert "p1" not in page, "no cell may show"
    assert studio.workspace.journey("visits").unconfirmed


def test_facts_are_filled_in_column_by_column(opened: Any) -> None:
    """The form becomes a schema, and the text of the schema the form."""
    visitor, studio = opened
    begun(visitor)
    key = visitor.key("/journey/visits/facts")
    names = [
        column["name"]
        for column in facts_of(studio.schema_text(studio.workspace.journey("visits")))["columns"]
    ]
    form = dict(FILLED)
    if "patient" not in names:  # recognised as an identifier and left out
        form = {
            (f"{int(k[0]) - 1}{k[1:]}" if k[0].isdigit() and k[0] != "0" else k): v
            for k, v in FILLED.items()
            if not k.startswith("0-")
        }
    answer = visitor.post("/journey/visits/facts", data={"form-key": key, **form})
    assert answer.url.path == "/journey/visits/budget", html.unescape(answer.text)
    text = visitor.get("/journey/visits/facts").text
    assert "The facts are complete" in text
    plan = visitor.get("/journey/visits/plan?epsilon=1&rows=120&delta=1e-3").text
    assert "ε = <b>" in plan
    assert "<svg" in plan


def test_text_and_form_are_two_views_of_one_schema() -> None:
    """What the form does not know stays when it is saved."""
    before = facts_of(
        'kind = "table"\nmissing_text = ["?"]\n[[columns]]\nkind = "integer"\nname = "age"\nlower = 0\nupper = 9\n'
        'scale = "linear"\n[[columns]]\nkind = "binary"\nname = "x"\n'
    )
    form = {
        "0-use": "on",
        "0-kind": "continuous",
        "0-lower": "0.5",
        "0-upper": "9",
        "1-use": "on",
        "1-kind": "binary",
    }
    after = changed(before, form)
    assert after["missing_text"] == ["?"]
    assert after["columns"][0] == {
        "kind": "continuous",
        "name": "age",
        "scale": "linear",
        "missing": False,
        "lower": 0.5,
        "upper": 9,
    }
    assert left_to_fill(after).complete
    guessed = Journey(name="a", source=Source("a.csv"), dataset="a", unconfirmed=("x",))
    assert left_to_fill(after, guessed).facts == ("x: say that its kind is public",)


def test_a_preview_needs_a_word_first(opened: Any) -> None:
    """Private rows are shown only after the curator said who is looking, and on that answer alone."""
    visitor, _ = opened
    begun(visitor)
    assert "p1" not in visitor.get("/journey/visits/data").text
    refused = visitor.fill("/journey/visits/preview", "/journey/visits/data")
    assert refused.status_code == 400
    shown = visitor.fill("/journey/visits/preview", "/journey/visits/data", may__see="on")
    assert "<td>p1</td>" in shown.text
    assert "p1" not in visitor.get("/journey/visits/data").text


def test_the_token_works_once_and_in_one_browser(folder: Path) -> None:
    """Whoever reads the address later, or has none, is refused."""
    app, _, token = studio_app(folder)
    first, second = (TestClient(app, base_url="http://127.0.0.1") for _ in range(2))
    assert second.get("/").status_code == 403
    assert second.get("/enter?token=guess").status_code == 403
    assert first.get(f"/enter?token={token}").status_code == 200
    assert second.get(f"/enter?token={token}").status_code == 403
    assert second.get("/").status_code == 403
    assert first.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_pages_are_refused(opened: Any, headers: dict[str, str]) -> None:
    """A page elsewhere cannot send a form in the curator's name."""
    visitor, studio = opened
    key = visitor.key()
    data = {"form-key": key, "name": "stolen", "kind": "known", "known": "digits"}
    assert visitor.post("/new", data=data, headers=headers).status_code == 403
    assert studio.workspace.journeys() == []


@pytest.mark.parametrize("key", ["", "0" * 64, "é"])
def test_forms_without_the_key_are_refused(opened: Any, key: str) -> None:
    """A form that does not carry this session's key does nothing."""
    visitor, studio = opened
    assert visitor.post("/new", data={"form-key": key, "name": "x", "kind": "known"}).status_code == 400
    assert visitor.post("/new", data={"name": "x", "kind": "known"}).status_code == 400
    assert studio.workspace.journeys() == []


def test_foreign_hosts_are_refused(opened: Any) -> None:
    """A name that somebody points to this machine opens nothing (DNS rebinding)."""
    visitor, _ = opened
    assert visitor.get("/", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "path",
    ["../outside.csv", "/etc/passwd", ".hidden.csv", "a\0b", "no-such.csv", "visits.csv/../../x", "link.csv"],
)
def test_nothing_outside_of_the_opened_folder_is_read(opened: Any, path: str, tmp_path_factory: Any) -> None:
    """Neither dots, nor absolute paths, nor links, nor hidden files get out."""
    visitor, studio = opened
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text("a\n1\n", encoding="utf-8")
    (studio.workspace.root / "link.csv").symlink_to(outside)
    answer = visitor.fill("/new", name="x", kind="file", path=path)
    assert answer.status_code == 400
    assert studio.workspace.journeys() == []
    assert "link.csv" not in visitor.get("/browse").text
    assert ".hidden" not in visitor.get("/browse").text
    assert visitor.get("/browse", params={"path": path}).status_code == 400


@pytest.mark.parametrize("name", ["../x", "A", "", "a/b", "-a", "a" * 41, "<script>", "con fusion"])
def test_names_of_journeys_are_plain(opened: Any, name: str) -> None:
    """A name becomes a folder, so it holds nothing but letters, digits and hyphens."""
    visitor, studio = opened
    assert visitor.fill("/new", name=name, kind="known", known="digits").status_code == 400
    assert studio.workspace.journeys() == []


def test_hostile_column_names_are_shown_as_text(opened: Any) -> None:
    """A header that holds markup is text on every page."""
    visitor, studio = opened
    name = "<img src=x onerror=alert(1)>"
    (studio.workspace.root / "odd.csv").write_text(f'"{name}",b\nx,1\ny,2\n', encoding="utf-8")
    visitor.fill("/new", name="odd", kind="file", path="odd.csv")
    page = visitor.get("/journey/odd/facts").text
    assert "<img" not in page
    assert html.escape(name) in page or html.escape(name, quote=False) in page


def test_a_password_is_not_kept(opened: Any) -> None:
    """An address with a password is refused before anything is written."""
    visitor, studio = opened
    answer = visitor.fill(
        "/new", name="base", kind="database", address="postgresql://me:hunter2@host/x", query="select 1"
    )
    assert answer.status_code == 400
    assert "hunter2" not in answer.text
    assert not studio.workspace.home.exists() or "hunter2" not in "".join(
        path.read_text() for path in studio.workspace.home.rglob("*.json")
    )


def test_every_page_forbids_foreign_content(opened: Any) -> None:
    """The content policy allows this origin only, and no page holds inline script."""
    visitor, _ = opened
    begun(visitor)
    for path in ("/", "/ledger", "/journey/visits/data", "/journey/visits/facts", "/journey/visits/budget"):
        answer = visitor.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert re.search(r"<script(?! src=)", answer.text) is None
        assert re.search(r"\son[a-z]+=", answer.text) is None
        assert "http://" not in answer.text.replace("http://127.0.0.1", "")
        assert "https://" not in answer.text


def test_unknown_journeys_and_reports_are_told(opened: Any) -> None:
    """Addresses that lead nowhere end in a sentence."""
    visitor, _ = opened
    begun(visitor)
    for path in (
        "/journey/none/facts",
        "/journey/visits/report/internal",
        "/journey/visits/report/x",
        "/journey/visits/sample",
        "/journey/visits/release.zip",
    ):
        assert visitor.get(path).status_code == 400, path
    assert "no release yet" in visitor.get("/journey/visits/look").text
