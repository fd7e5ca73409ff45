"""`evaluate` and `report` as a user meets them."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from tiny import tiny_frame
from understudy.auditing.verdict import Audit, Outcome, Reading, judge
from understudy.cli.evaluate import evaluate_command
from understudy.cli.report import report_command
from understudy.codec import to_json
from understudy.errors import BudgetError, EvaluationError
from understudy.ledger.ledger import Ledger
from understudy.privacy.budget import Budget

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from understudy.release.release import Release

app = typer.Typer()
app.command("evaluate")(evaluate_command)
app.command("report")(report_command)


def run(*words: object) -> Result:
    """The command in this process; errors for people come out as exceptions."""
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.fixture
def folder(tmp_path: Path, table_release: Release) -> Path:
    """A release with test and training rows beside it."""
    table_release.save(tmp_path / "release")
    tiny_frame(200, seed=1).to_csv(tmp_path / "test.csv", index=False)
    tiny_frame(200, seed=2).to_csv(tmp_path / "train.csv", index=False)
    return tmp_path


def test_evaluate_then_report(folder: Path) -> None:
    """An evaluation is printed, saved, and becomes an internal page with its numbers."""
    saved = folder / "evaluation.json"
    done = run(
        "evaluate", folder / "release", "--test", folder / "test.csv", "--real", folder / "train.csv",
        "--rows", 200, "--seeds", 1, "--out", saved,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "two-way marginal error †" in done.stdout
    page = folder / "report.html"
    assert run("report", folder / "release", "--evaluation", saved, "--out", page).exit_code == 0
    text = page.read_text()
    assert "Internal, not for publication" in text
    assert "two-way marginal error" in text
    public = folder / "public.md"
    assert (
        run("report", folder / "release", "--evaluation", saved, "--public", "--out", public).exit_code == 0
    )
    assert "two-way marginal error" not in public.read_text()
    assert "validity" in public.read_text()


def test_published_numbers_are_charged_and_shown_in_public(folder: Path) -> None:
    """--epsilon charges the ledger, and only then may accuracy stand on a public page."""
    book = folder / "spending.ledger"
    with Ledger(book, create=True) as ledger:
        ledger.register("test rows", Budget(0.8, 1e-6))
    words = ["evaluate", folder / "release", "--test", folder / "test.csv", "--epsilon", 0.6]
    words += ["--ledger", book, "--dataset", "test rows", "--json"]
    done = run(*words)
    assert done.exit_code == 0, done.output
    measures = json.loads(done.stdout)["measures"]
    assert [m["internal"] for m in measures] == [False] * 3
    with Ledger(book) as ledger:
        assert 0.55 < ledger.statement("test rows").spent.epsilon <= 0.6
    again = run(*words)
    assert isinstance(again.exception, BudgetError)
    saved = folder / "published.json"
    saved.write_text(done.stdout)
    page = folder / "report.json"
    assert run("report", folder / "release", "--evaluation", saved, "--public", "--out", page).exit_code == 0
    assert len(json.loads(page.read_text())["evaluation"]["measures"]) == 3


CRITERIA = """
[[criteria]]
kind = "cross-tab"
name = "outcomes"
columns = ["outcome"]
tolerance = 1.0

[[criteria]]
kind = "means"
name = "visits"
of = "visits"
by = "outcome"
tolerance = 0.000001
"""


def test_criteria_give_a_verdict_that_heads_the_report(folder: Path) -> None:
    """Not good enough is exit code 3; the sentence stands at the top of each kind of page."""
    asked, saved = folder / "criteria.toml", folder / "judged.json"
    asked.write_text(CRITERIA)
    words = ["evaluate", folder / "release", "--test", folder / "test.csv", "--criteria", asked, "--seeds", 1]
    done = run(*words, "--rows", 50, "--out", saved)
    assert done.exit_code == 3, done.output
    sentence = "Good enough for outcomes, not for visits."
    assert sentence in done.stdout
    for name in ("page.html", "page.md", "page.json"):
        page = folder / name
        assert run("report", folder / "release", "--evaluation", saved, "--out", page).exit_code == 0
        assert page.read_text().index(sentence) < page.read_text().index("recognise")
        assert (
            run("report", folder / "release", "--evaluation", saved, "--public", "--out", page).exit_code == 0
        )
        assert "for outcomes" not in page.read_text()
    asked.write_text(CRITERIA.split('[[criteria]]\nkind = "means"', maxsplit=1)[0])
    assert run(*words, "--rows", 50).exit_code == 0


def test_published_verdicts_are_one_charge_and_public(folder: Path) -> None:
    """--criteria with --epsilon spends once, publishes the verdicts only, and a public page is headed by them."""
    asked, book, saved = folder / "criteria.toml", folder / "spending.ledger", folder / "published.json"
    asked.write_text(CRITERIA)
    with Ledger(book, create=True) as ledger:
        ledger.register("test rows", Budget(5, 1e-6))
    done = run(
        "evaluate", folder / "release", "--test", folder / "test.csv", "--criteria", asked, "--epsilon", 2,
        "--ledger", book, "--dataset", "test rows", "--out", saved,
    )  # fmt: skip
    assert done.exit_code == 3, done.output
    with Ledger(book) as ledger:
        statement = ledger.statement("test rows")
    assert len(statement.entries) == 1
    assert 1.9 < statement.spent.epsilon <= 2
    assert json.loads(saved.read_text())["measures"] == []
    page = folder / "page.md"
    assert run("report", folder / "release", "--evaluation", saved, "--public", "--out", page).exit_code == 0
    assert "not for visits" in page.read_text()


def test_the_training_rows_are_no_test_rows(folder: Path) -> None:
    """The same file for both is refused by name, a copy of it by its content."""
    train, copy = folder / "train.csv", folder / "copy.csv"
    same = run("evaluate", folder / "release", "--test", train, "--real", folder / "." / "train.csv")
    assert isinstance(same.exception, EvaluationError)
    assert "name the same rows" in str(same.exception)
    copy.write_text(train.read_text())
    copied = run("evaluate", folder / "release", "--test", copy, "--real", train)
    assert "hold the same records" in str(copied.exception)


def test_wrong_usage_is_explained(folder: Path) -> None:
    """Budget without ledger, unknown format, both sources, and a foreign file are refused with words."""
    release, test = folder / "release", folder / "test.csv"
    assert isinstance(run("evaluate", release, "--test", test, "--epsilon", 1).exception, BudgetError)
    assert run("report", release, "--out", folder / "x.pdf").exit_code == 2
    both = run("report", release, "--evaluation", test, "--test", test, "--out", folder / "x.md")
    assert isinstance(both.exception, EvaluationError)
    foreign = run("report", release, "--evaluation", test, "--out", folder / "x.md")
    assert isinstance(foreign.exception, EvaluationError)


def test_an_audit_gets_its_section(folder: Path) -> None:
    """The JSON of an audit becomes a section; another file is refused."""
    reading = Reading("noise", Outcome.FAIL, 0.5, 0.4, 0.6, 1.0, "the noise is too narrow.", 5.0)
    found = Audit("the running step", 2.0, 1e-5, 0.95, 100, 10, (reading,), judge([reading]))
    (folder / "audit.json").write_text(to_json(found))
    page = folder / "report.html"
    done = run("report", folder / "release", "--audit", folder / "audit.json", "--out", page)
    assert done.exit_code == 0, done.output
    assert "the noise is too narrow." in page.read_text()
    foreign = run("report", folder / "release", "--audit", folder / "test.csv", "--out", page)
    assert isinstance(foreign.exception, EvaluationError)


def test_a_report_needs_no_evaluation(folder: Path) -> None:
    """The page of a release alone says what is promised and what it cost."""
    page = folder / "report.html"
    assert run("report", folder / "release", "--public", "--out", page).exit_code == 0
    assert "What is promised" in page.read_text()


def test_rows_come_from_databases_as_well(folder: Path) -> None:
    """Test and training rows may be queries, each of its own database, and a missing one is noticed at once."""
    database = folder / "rows.sqlite"
    with sqlite3.connect(database) as connection:
        tiny_frame(200, seed=1).to_sql("held", connection, index=False)
        tiny_frame(200, seed=2).to_sql("trained", connection, index=False)
    words = ["evaluate", folder / "release", "--rows", 100, "--seeds", 1, "--test", database]
    queries = [
        "--test-query",
        "select * from held",
        "--real",
        database,
        "--real-query",
        "select * from trained",
    ]
    done = run(*words, *queries)
    assert done.exit_code == 0, done.exception
    page = folder / "report.html"
    made = run("report", folder / "release", "--test", database, *queries[:2], "--out", page)
    assert made.exit_code == 0, made.exception
    assert "two-way marginal error" in page.read_text()
    assert "say what to read" in str(run(*words).exception)
    assert "does not exist" in str(run(*words[:-1], folder / "none.csv").exception)
