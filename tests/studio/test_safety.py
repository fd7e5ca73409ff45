"""What must not leave the opened folder, the log or the account, and what a dead server leaves behind."""

from __future__ import annotations

import logging
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from understudy.ledger.ledger import Ledger
from understudy.studio import preparing
from understudy.studio.app import studio_app
from understudy.studio.work import register

SECRET = "p17-has-a-rare-illness"


def sqlite_file(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (age integer, ward text)")
        connection.executemany("insert into t values (?, ?)", [(20 + k, "ab"[k % 2]) for k in range(40)])
    connection.close()
    return path


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_file_databases_lie_below_the_opened_folder(opened: Any, form: str, tmp_path_factory: Any) -> None:
    """A SQLite file elsewhere is not read, however its address is written; one in the folder is."""
    visitor, desk = opened
    outside = sqlite_file(tmp_path_factory.mktemp("outside") / "other.sqlite")
    sqlite_file(desk.workspace.root / "own.sqlite")

    def begin(name: str, path: object) -> int:
        asked = {"kind": "database", "address": form.format(path), "query": "select * from t"}
        return int(visitor.fill("/new", name=name, **asked).status_code)

    assert begin("a", outside) == 400
    assert begin("b", "../" + outside.parent.name + "/other.sqlite") == 400
    assert begin("c", "own.sqlite") == 200
    assert [one.name for one in desk.workspace.journeys()] == ["c"]


def test_a_query_to_duckdb_reads_no_other_file(opened: Any, tmp_path_factory: Any) -> None:
    """SQL that names a file outside is refused by the database itself."""
    duckdb = pytest.importorskip("duckdb")
    visitor, desk = opened
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text(f"a\n{SECRET}\n", encoding="utf-8")
    with duckdb.connect(str(desk.workspace.root / "own.duckdb")) as connection:
        connection.execute("create table t as select 1 as age")
    asked = {"kind": "database", "address": "own.duckdb"}
    assert visitor.fill("/new", name="own", query="select * from t", **asked).status_code == 200
    refused = visitor.fill("/new", name="other", query=f"select * from read_csv('{outside}')", **asked)
    assert refused.status_code == 400
    assert SECRET not in refused.text


def test_an_unforeseen_error_tells_no_cell(opened: Any, monkeypatch: Any, caplog: Any) -> None:
    """Neither the page nor the log quotes the words of an error that nobody foresaw."""

    def broken(*_: object) -> None:
        raise ValueError(SECRET)

    visitor, _ = opened
    monkeypatch.setattr(preparing, "first_schema", broken)
    with caplog.at_level(logging.DEBUG):
        answer = visitor.fill("/new", name="visits", kind="file", path="visits.csv")
    assert answer.status_code == 500
    assert SECRET not in answer.text
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_two_studios_do_not_lock_each_other_out(folder: Path) -> None:
    """One browser can be in two studios of the same machine: their cookies have names of their own."""
    browser = TestClient(studio_app(folder, "first")[0], base_url="http://127.0.0.1:8001")
    other = TestClient(studio_app(folder, "second")[0], base_url="http://127.0.0.1:8002")
    assert browser.get("/enter?token=first").status_code == 200
    other.cookies = browser.cookies
    assert other.get("/enter?token=second").status_code == 200
    browser.cookies = other.cookies
    assert browser.get("/").status_code == 200


def test_journeys_on_the_same_records_share_an_account(opened: Any) -> None:
    """A second release of the same file cannot hide from the first one's budget."""
    visitor, desk = opened
    for name, path in (("first", "visits.csv"), ("second", "./visits.csv")):
        visitor.fill("/new", name=name, kind="file", path=path)
    first, second = (desk.workspace.journey(name) for name in ("first", "second"))
    assert first.dataset == second.dataset == "first"
    register(desk.workspace, first)
    register(desk.workspace, desk.workspace.save(second, total=99.0))
    with Ledger(desk.workspace.ledger) as ledger:
        assert {name: budget.epsilon for name, budget in ledger.datasets().items()} == {"first": 3.0}


_SERVER = """
import pathlib, sys, time
from understudy.errors import Interrupted
from understudy.studio.jobs import Jobs, Work

def waits(root, name, say, asked):
    (root / "begun").touch()
    while not asked():
        time.sleep(0.05)
    (root / "stopped").touch()
    raise Interrupted("stopped as asked.")

if __name__ == "__main__":
    Jobs(pathlib.Path(sys.argv[1])).start("a", Work.FIT, waits)
    time.sleep(600)
"""


def test_a_run_stops_in_order_when_its_server_is_killed(tmp_path: Path) -> None:
    """A server that dies in mid-run leaves no run behind that goes on unseen: it stops as if it was asked to."""
    script = tmp_path / "server.py"
    script.write_text(_SERVER, encoding="utf-8")
    server = subprocess.Popen([sys.executable, str(script), str(tmp_path)])
    try:
        appears(tmp_path / "begun")
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    appears(tmp_path / "stopped")


def appears(path: Path) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)
