"""`understudy ledger`, through its command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from understudy.cli.ledger import app
from understudy.errors import BudgetError, LedgerError
from understudy.ledger.ledger import Ledger
from understudy.privacy.mechanisms import Charge, SubsampledGaussian

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a finished and an interrupted run."""
    path = tmp_path / "ledger.db"
    register = ["register", "--ledger", str(path), "--dataset", "ward", "--epsilon", "3", "--delta", "1e-5"]
    assert run(*register).exit_code == 0
    charges = [Charge("training", SubsampledGaussian(0.01, 2.0, 1000))]
    with Ledger(path) as book:
        done = book.reserve("ward", charges)
        book.progress(done, 1000)
        book.finish(done, "ab" * 32)
        book.progress(book.reserve("ward", charges), 300)
    return path


def run(*arguments: str) -> Result:
    """Run the command; errors of the package come back as exceptions, as the main program sees them."""
    return CliRunner().invoke(app, list(arguments))


def test_show_prints_the_documented_json(path: Path) -> None:
    """`show --json` has the documented keys, and a person can read the table."""
    plain = json.loads(run("show", "--ledger", str(path), "--json").stdout)
    assert set(plain) >= {"dataset", "epsilon_spent", "epsilon_budget", "delta", "adjacency", "entries"}
    assert [row["status"] for row in plain["entries"]] == ["spent", "reserved"]
    assert [row["steps_charged"] for row in plain["entries"]] == [1000, 300]
    table = run("show", "--ledger", str(path), "--dataset", "ward").stdout
    assert "add-or-remove-one" in table
    assert plain["head"] in table


def test_show_checks_a_known_head(path: Path) -> None:
    """`show --head` accepts a head that the ledger contains and refuses any other."""
    head = json.loads(run("show", "--ledger", str(path), "--json").stdout)["head"]
    assert run("show", "--ledger", str(path), "--head", head).exit_code == 0
    wrong = run("show", "--ledger", str(path), "--head", "99:" + "0" * 64)
    assert isinstance(wrong.exception, LedgerError)


def test_show_asks_which_data_set(path: Path) -> None:
    """JSON is one object: with two data sets, one must be named."""
    run("register", "--ledger", str(path), "--dataset", "clinic", "--epsilon", "1", "--delta", "1e-6")
    assert isinstance(run("show", "--ledger", str(path), "--json").exception, LedgerError)
    assert run("show", "--ledger", str(path)).stdout.count("spent ε") == 2


def test_budget_says_what_a_planned_run_would_leave(path: Path) -> None:
    """`budget` prints what is left now, and less after a planned run; too large a run is refused."""
    now = json.loads(run("budget", "--ledger", str(path), "--dataset", "ward", "--json").stdout)
    planned = ["--sampling-rate", "0.01", "--noise-multiplier", "2", "--steps"]
    arguments = ["budget", "--ledger", str(path), "--dataset", "ward", "--json", *planned]
    after = json.loads(run(*arguments, "1000").stdout)
    assert now["epsilon_spent"] < after["epsilon_spent"] <= 3
    assert now["epsilon_left"] > after["epsilon_left"] > 0
    assert isinstance(run(*arguments, "100000").exception, BudgetError)
    assert run(*arguments[:-1]).exit_code == 2


def test_closing_an_interrupted_run_frees_its_unused_steps(path: Path) -> None:
    """`close` counts only the steps that were charged."""
    before = json.loads(run("export", "--ledger", str(path), "--dataset", "ward").stdout)
    message = run("close", "--ledger", str(path), "--entry", before["entries"][1]["id"]).stdout
    assert "300 of 1000 steps count" in message
    after = json.loads(run("export", "--ledger", str(path), "--dataset", "ward").stdout)
    assert after["epsilon_spent"] < before["epsilon_spent"]


def test_export_writes_a_file(path: Path, tmp_path: Path) -> None:
    """`export --output` writes what it would print."""
    target = tmp_path / "account.json"
    run("export", "--ledger", str(path), "--dataset", "ward", "--output", str(target))
    assert json.loads(target.read_text()) == json.loads(
        run("export", "--ledger", str(path), "--dataset", "ward").stdout
    )
