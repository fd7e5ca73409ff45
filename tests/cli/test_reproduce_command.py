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


def test_the_generate_score_by_command() -> None:
    """|IS - mean| / (max - min) of each, as the ppgan paper defines it."""
    answer = CliRunner().invoke(app, ["reproduce", "generate-score", "1", "2", "6", "--json"])
    assert [row["generate"] for row in json.loads(answer.stdout)] == [0.4, 0.2, 0.6]


def test_stages_and_the_papers_classifiers_by_command(tmp_path: Path) -> None:
    """One training gives several certified releases, and the papers' classifiers judge any of them."""
    words = ["fit", "digits", "--recipe", "dp-cgan", "--batch", "16", "--epsilon", "5", "--stages", "2,4"]
    made = CliRunner().invoke(app, [*words, "--capacity", "8", "--out", str(tmp_path / "r"), "--json"])
    assert made.exit_code == 0, made.output
    stages = json.loads(made.stdout)["stages"]
    assert [Path(path).name for path in stages] == ["r-2", "r"]
    assert stages[str(tmp_path / "r-2")] < stages[str(tmp_path / "r")] <= 5
    judged = ["reproduce", "classifiers", str(tmp_path / "r-2"), "--data", "digits", "--rows", "60", "--json"]
    found = json.loads(CliRunner().invoke(app, judged).stdout)
    assert {"logistic regression: micro AuROC", "MLP of 16: macro AuROC"} <= set(found)
    (tmp_path / "s-2").mkdir()
    for more in (
        ["--steps", "9"],
        [],
    ):  # two numbers of steps; a stage that is there: both before anything is spent
        again = CliRunner().invoke(app, [*words, *more, "--out", str(tmp_path / "s")])
        assert isinstance(again.exception, PlanError)
        assert not (tmp_path / "s.ledger").exists()


def test_losses_of_a_seeded_run_are_written_and_marked(tmp_path: Path) -> None:
    """The file says that it is not private; of a private run there is none."""
    words = ["fit", "digits", "--recipe", "dp-cgan", "--batch", "16", "--epsilon", "5", "--steps", "3"]
    shown = ["--losses", str(tmp_path / "losses.csv"), "--out", str(tmp_path / "r")]
    assert isinstance(CliRunner().invoke(app, [*words, *shown]).exception, PlanError)
    assert list(tmp_path.iterdir()) == []
    answer = CliRunner().invoke(app, [*words, *shown, "--insecure-seed", "1"])
    assert answer.exit_code == 0, answer.output
    head, *rows = (tmp_path / "losses.csv").read_text().splitlines()
    assert head.startswith("NOT PRIVATE")
    assert [row.split(",")[0] for row in rows] == ["1", "2", "3"]
