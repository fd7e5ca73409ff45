"""`understudy reproduce` on the command line."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from understudy.cli import app


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
