"""`understudy reproduce` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from understudy.cli import app
from understudy.cli.reproduce import PAPERS
from understudy.errors import PlanError
from understudy.papers.catalogue import STUDIES


def test_claims_as_json_is_a_list_with_the_documented_keys() -> None:
    """Scripts can rely on the six keys, and standard output holds nothing but JSON."""
    answer = CliRunner().invoke(app, ["reproduce", "claims", "--json"])
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    keys = {
        "paper",
        "setting",
        "claimed_epsilon",
        "formula_epsilon",
        "published_code_epsilon",
        "certified_epsilon",
    }
    assert all(keys <= set(row) for row in found)
    assert any(row["paper"] == "dp-gan" and row["published_code_epsilon"] > 1000 for row in found)


def test_printed_and_full_exclude_each_other(tmp_path: Path) -> None:
    """So do the papers' settings and ours."""
    answer = CliRunner().invoke(app, ["reproduce", "dp-gan", "--printed", "--full", "--out", str(tmp_path)])
    assert isinstance(answer.exception, PlanError)


def test_quick_and_full_exclude_each_other(tmp_path: Path) -> None:
    """A contradiction is refused before anything runs."""
    answer = CliRunner().invoke(app, ["reproduce", "dp-cgan", "--quick", "--full", "--out", str(tmp_path)])
    assert answer.exit_code != 0
    assert isinstance(answer.exception, PlanError)
    assert list(tmp_path.iterdir()) == []


def test_every_study_has_a_command() -> None:
    """The command line offers exactly the papers that can be reproduced."""
    assert set(PAPERS) == set(STUDIES)
