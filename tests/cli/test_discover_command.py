"""A table with two columns about which nobody knows enough, from a file to a report, by commands alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from understudy.cli import app
from understudy.schema import TableSchema, load_schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
kind = "table"
label = "outcome"

[[columns]]
kind = "continuous"
name = "income"
lower = 0
upper = "discover"
decimals = 2

[[columns]]
kind = "categorical"
name = "ward"
categories = "discover"
unknown = "elsewhere"

[[columns]]
kind = "categorical"
name = "outcome"
categories = ["well", "ill"]
"""


def run(*words: object) -> str:
    """What a command prints; it must succeed."""
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output


def made_up(rows: int, seed: int) -> pd.DataFrame:
    """Incomes up to some hundred thousand, four wards, and a ward that one patient alone has."""
    source = np.random.default_rng(seed)
    ward = source.choice(["surgery", "medicine", "eyes", "skin"], rows, p=[0.4, 0.3, 0.2, 0.1]).astype(object)
    ward[seed] = f"HIDDEN-WARD-{seed}"
    return pd.DataFrame(
        {
            "income": source.lognormal(10, 0.7, rows).round(2),
            "ward": ward,
            "outcome": source.choice(["well", "ill"], rows),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_up(3000, 1).to_csv(tmp_path / "patients.csv", index=False)
    made_up(400, 2).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def test_from_a_file_to_a_report(folder: Path) -> None:
    """Check, plan, fit, inspect, show, sample, evaluate and report take "discover" in their stride."""
    schema, release = folder / "schema.toml", folder / "release"
    assert "fits" in run("schema", "check", folder / "patients.csv", "--schema", schema)
    assert '"discover"' in run("schema", "show", schema)
    told = run("plan", "--rows", 3000, "--epsilon", 4, "--schema", schema)
    assert "categories of ward" in told
    assert "a category needs about" in told
    run(
        "fit", folder / "patients.csv", "--schema", schema, "--rows", 3000, "--epsilon", 4, "--steps", 20,
        "--out", release,
    )  # fmt: skip
    assert "discovered within the budget: ward" in run("inspect", release)
    (folder / "found.toml").write_text(run("schema", "show", release))
    found = load_schema(folder / "found.toml")
    assert isinstance(found, TableSchema)
    income, ward, _ = found.columns
    assert ward.categories == ("eyes", "medicine", "skin", "surgery", "elsewhere")  # type: ignore[union-attr]
    assert 50_000 <= income.upper <= 1_000_000  # type: ignore[union-attr]
    run("sample", release, "--rows", 200, "--out", folder / "synthetic.csv")
    run("schema", "check", folder / "synthetic.csv", "--schema", folder / "found.toml")
    run(
        "evaluate", release, "--test", folder / "test.csv", "--rows", 200, "--seeds", 1,
        "--out", folder / "evaluation.json",
    )  # fmt: skip
    run("report", release, "--evaluation", folder / "evaluation.json", "--out", folder / "report.html")
    for path in sorted(release.rglob("*")):
        assert b"HIDDEN-WARD" not in path.read_bytes()
    card = json.loads((release / "card.json").read_text("utf-8"))
    assert card["plan"]["schema"]["columns"][1]["categories"] == "discover"
    ledger = run("ledger", "show", "--ledger", folder / "release.ledger", "--json")
    assert "gaussian-threshold" in ledger
